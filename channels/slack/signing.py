"""The proof that a call came from Slack ("Verifying requests from Slack" in its documentation)."""

from __future__ import annotations

import hmac
import logging
import time

from slack_sdk.signature import SignatureVerifier

from channels.base import WebhookCall

log = logging.getLogger(__name__)

_SKEW = 300.0  # seconds that a signed call may be old, or from the future


def is_signed(secret: str, call: WebhookCall) -> bool:
    """Return whether Slack made a call, a short while ago."""
    at = call.headers.get("x-slack-request-timestamp", "")
    signature = call.headers.get("x-slack-signature", "")
    if not (at.isascii() and at.isdecimal() and len(at) < 20):
        return False
    try:
        expected = SignatureVerifier(secret).generate_signature(timestamp=at, body=call.body)
    except UnicodeDecodeError:
        return False
    if not hmac.compare_digest(str(expected).encode(), signature.encode()):
        return False
    if late := abs(time.time() - int(at)) > _SKEW:
        log.warning(
            "a call of Slack's is minutes old or early: is the clock of this machine right?"
        )
    return not late
