"""Trying again, for all channels: when the platform says so, or after longer and longer waits; and
the words to people about a channel that does not work.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable

import tenacity
from tenacity import AsyncRetrying, RetryCallState

log = logging.getLogger(__name__)

Sleep = Callable[[float], Awaitable[None]]
Trouble = Callable[[BaseException], None]
Told = Callable[[BaseException], float | None]

LONGEST_WAIT = 30.0  # seconds
TROUBLE = 6
"""Attempts that failed one after the other, over half a minute and more, of which somebody should
hear."""
_backoff = tenacity.wait_exponential_jitter(initial=1, max=LONGEST_WAIT)


def patient(
    is_passing: Callable[[BaseException], bool],
    told: Told,
    trouble: Trouble,
    sleep: Sleep = asyncio.sleep,
) -> AsyncRetrying:
    """Return a retrying call, which calls a function until it succeeds or fails for good: `await
    patient(…)(function)`.

    `is_passing` says which errors are worth another attempt, `told` how many seconds the platform
    itself asks to wait after one (None: it says nothing); `trouble` is called with each error once
    many attempts have failed, unless the platform is there and asks to wait: how often somebody is
    told is not decided here, and the one to be told may come only later. No attempt is the last
    one: what is to be sent stays to be sent, and a bot that is told to stop cancels it.
    """

    def wait(state: RetryCallState) -> float:
        seconds = told(_error(state))
        return _backoff(state) if seconds is None else seconds

    def log_retry(state: RetryCallState) -> None:
        log.info("attempt %d failed, another follows: %s", state.attempt_number, _error(state))
        if state.attempt_number >= TROUBLE and told(_error(state)) is None:
            trouble(_error(state))

    return AsyncRetrying(
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
"""The query of an address: for some platforms, a ticket that lets anybody in."""


class MessageLeftOut(Exception):
    """A message, of this id, is not read any more, since the bot came to its end over it."""


def reason_of(error: BaseException) -> str:
    """Return an error, in a line."""
    said = _TICKET.sub("…", " ".join(str(error).split()))
    return said[:300] or type(error).__name__
