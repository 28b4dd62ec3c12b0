"""Trying again, for all channels: when the platform says so, or after longer and longer waits; and
the words to people about a channel that does not work.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
Trouble = Callable[[BaseException], None]
WaitReport = Callable[[BaseException], float | None]

LONGEST_WAIT = 30.0  # seconds
TROUBLE = 6
"""Consecutive failed attempts, over half a minute or more, after which they are reported."""


def make_retrying(
    is_passing: Callable[[BaseException], bool],
    report: WaitReport,
    trouble: Trouble,
    sleep: Sleep = asyncio.sleep,
) -> AsyncRetrying:
    """Return a retrying call, which calls a function until it succeeds or fails for good: `await
    patient(…)(function)`.

    `is_passing` says which errors are worth a retry; `report` returns the seconds that the platform
    asks to wait after an error (None: it names none). `trouble` is called with each error after
    many failed attempts, unless the platform responds and asks to wait: its receiver limits how
    often it reports, and may be set later. There is no last attempt: a message remains to be sent,
    and a stopping bot cancels the call.
    """
    import tenacity  # noqa: PLC0415 - loads tornado: 1.4 MB that a terminal does not need

    backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT)

    def wait(state: RetryCallState) -> float:
        seconds = report(_error(state))
        return backoff(state) if seconds is None else seconds

    def log_retry(state: RetryCallState) -> None:
        log.info("attempt %d failed, another follows: %s", state.attempt_number, _error(state))
        if state.attempt_number >= TROUBLE and report(_error(state)) is None:
            trouble(_error(state))

    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_passing),
        wait=wait,
        sleep=sleep,
        before_sleep=log_retry,
        reraise=True,
    )


def _error(state: RetryCallState) -> BaseException:
    error = state.outcome.exception() if state.outcome else None
    assert error is not None, "only what failed is tried again"
    return error


_TICKET = re.compile(r"(?<=\?)[^\s'\")]+(?==)[^\s'\")]*")
"""The query of a URL: on some platforms it is a ticket that grants access."""


class MessageSkipped(Exception):
    """Raised for a message, by its id, that is no longer read, since the bot crashed on it."""


def reason_of(error: BaseException) -> str:
    """Return an error as one line."""
    text = _TICKET.sub("…", " ".join(str(error).split()))
    return text[:300] or type(error).__name__
