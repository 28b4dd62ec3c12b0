"""All requests to Telegram pass here: not too many, and again when they failed in passing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, Final

from aiolimiter import AsyncLimiter
from telegram.error import BadRequest, NetworkError, RetryAfter
from telegram.ext import BaseRateLimiter

from channels.retry import Trouble, patient
from channels.telegram.rhythm import Rhythm

os.environ.setdefault("PTB_TIMEDELTA", "true")  # the SDK's own switch: `retry_after` is a timedelta

ONCE: Final = "once"
"""For what is void a moment later, a draft or "typing": one attempt, and none that would wait."""
_SPARE = 5  # messages of a group's limit that drafts leave to others
_MESSAGES = ("send", "edit")
_NO_MESSAGE = "sendChatAction"


class Busy(Exception):
    """A request that is worth one attempt would have to wait."""


def is_passing(error: BaseException) -> bool:
    """Whether a request may succeed when it is made again."""
    is_network = isinstance(error, NetworkError) and not isinstance(error, BadRequest)
    return is_network or isinstance(error, RetryAfter)


def asked(error: BaseException) -> float | None:
    """The seconds that Telegram asks to wait; None when it does not."""
    if not isinstance(error, RetryAfter):
        return None
    return error.retry_after.total_seconds()  # type: ignore[union-attr]  # see PTB_TIMEDELTA


class Pace(BaseRateLimiter[str]):
    """The SDK's place for limits. A chat in which Telegram asks to wait is left alone until then,
    whatever is to be sent to it; the others go on."""

    def __init__(self, rhythm: Rhythm, trouble: Trouble) -> None:
        self._rhythm, self._trouble = rhythm, trouble
        self._overall = AsyncLimiter(rhythm.overall, 1)
        self._groups: dict[int, AsyncLimiter] = {}
        self._holds: dict[int, asyncio.Future[None]] = {}

    async def initialize(self) -> None:
        """Nothing to do."""

    async def shutdown(self) -> None:
        for hold in tuple(self._holds.values()):
            hold.cancel()
        await asyncio.gather(*self._holds.values(), return_exceptions=True)

    async def process_request(
        self,
        callback: Callable[..., Coroutine[Any, Any, Any]],
        args: Any,
        kwargs: dict[str, Any],
        endpoint: str,
        data: dict[str, Any],
        rate_limit_args: str | None,
    ) -> Any:
        """Make a request. Raises what Telegram's last word on it was; with ONCE, also Busy."""
        chat = int(data.get("chat_id") or 0)
        is_message = endpoint.startswith(_MESSAGES) and endpoint != _NO_MESSAGE

        async def attempt() -> Any:
            await self._admission(chat if is_message else 0, chat, rate_limit_args == ONCE)
            try:
                return await callback(*args, **kwargs)
            except RetryAfter as error:
                self._hold(chat, asked(error) or 0)
                raise

        if rate_limit_args == ONCE:
            return await attempt()
        again = patient(is_passing, _already_held, self._trouble, self._rhythm.sleep)
        return await again(attempt)

    async def _admission(self, counted: int, chat: int, is_once: bool) -> None:
        """Wait until a request may be made, or raise Busy."""
        group = self._group(counted) if counted < 0 else None
        if is_once and (chat in self._holds or (group and not group.has_capacity(_SPARE))):
            raise Busy
        if hold := self._holds.get(chat):
            await asyncio.wait({hold})
        if group:
            await group.acquire()
        if counted:
            await self._overall.acquire()

    def _group(self, chat: int) -> AsyncLimiter:
        return self._groups.setdefault(
            chat, AsyncLimiter(self._rhythm.per_group, self._rhythm.group_time)
        )

    def _hold(self, chat: int, seconds: float) -> None:
        if chat not in self._holds:
            hold = asyncio.ensure_future(self._rhythm.sleep(seconds))
            hold.add_done_callback(lambda _: self._holds.pop(chat))
            self._holds[chat] = hold


def _already_held(error: BaseException) -> float | None:
    return 0 if isinstance(error, RetryAfter) else None
