"""The meaning of Slack's errors ("Errors" on the page of each method in its reference)."""

from __future__ import annotations

from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError

from channels.kit.platform import PlatformFailure

REVOKED = (
    "Slack does not know this bot any more ({code}); install the app again at api.slack.com/apps, "
    "copy its tokens into .env, and restart the bot."
)
MISSING = (
    "The Slack app lacks the permission {scope}; add it at api.slack.com/apps under OAuth & "
    "Permissions, install the app again, and restart the bot."
)
_REVOKED = {
    *("invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired"),
    *("not_allowed_token_type", "team_access_not_granted", "no_permission"),
}
_GONE = {
    *("channel_not_found", "not_in_channel", "is_archived", "user_disabled", "user_not_found"),
    *("cannot_dm_bot", "messages_tab_disabled", "thread_not_found", "restricted_action"),
    *("restricted_action_thread_locked", "restricted_action_read_only_channel"),
}
_REFUSED = {
    *("invalid_blocks", "invalid_blocks_format", "msg_too_long", "msg_blocks_too_long", "no_text"),
    *("message_not_found", "cant_update_message", "cant_delete_message", "edit_window_closed"),
    *("invalid_attachments", "block_mismatch", "update_failed", "invalid_thread_ts"),
}
_PASSING = {
    *(
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
    ),
}
_WAIT = 30.0  # seconds, if Slack does not say how many


def explain(error: BaseException) -> PlatformFailure:
    match error:
        case SlackApiError():
            return _explain(error.response)
        case aiohttp.WSServerHandshakeError():  # its ticket is used up
            return PlatformFailure("passing")
        case aiohttp.ClientResponseError() if error.status < 500 and error.status != 429:
            return PlatformFailure("fatal")
        case aiohttp.ClientError() | OSError() | TimeoutError():
            return PlatformFailure("passing")
    return PlatformFailure("fatal")


def code_of(response: Any) -> str:
    """Return Slack's name of an error; "" if it did not answer as an API does."""
    return str(_data(response).get("error", ""))


def _data(response: Any) -> dict[str, Any]:
    data = getattr(response, "data", None)
    return data if isinstance(data, dict) else {}


def _explain(response: Any) -> PlatformFailure:
    """Return the failure in a response, which is the SDK's, or aiohttp's if it contained no
    JSON."""
    status = int(getattr(response, "status_code", 0) or getattr(response, "status", 200))
    code = code_of(response)
    if status == 429 or code in ("ratelimited", "rate_limited"):
        after = str(response.headers.get("Retry-After", ""))
        return PlatformFailure("wait", float(after) if after.isdecimal() else _WAIT)
    if code in _REVOKED:
        return PlatformFailure("revoked", advice=REVOKED.format(code=code))
    if code == "missing_scope":
        return PlatformFailure(
            "fatal", advice=MISSING.format(scope=_data(response).get("needed", "?"))
        )
    if code in _GONE or code in _REFUSED:
        return PlatformFailure("gone" if code in _GONE else "refused")
    return PlatformFailure("passing" if code in _PASSING or not code or status >= 500 else "fatal")
