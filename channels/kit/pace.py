"""The pacing of all requests to a platform: rate limits, retries after passing failures, and the
health of a messenger, as its channel knows it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from aiolimiter import AsyncLimiter
from msgspec.structs import replace

from channels.base import Bot, ChannelError, ChannelHealth
from channels.kit.platform import Location, Platform, PlatformFailure
from channels.retry import LONGEST_WAIT, TROUBLE, Sleep, make_retrying, reason_of

log = logging.getLogger(__name__)

_LASTING = timedelta(seconds=10)
"""The time that a connection must last for earlier failures to be forgotten."""


class HealthRecord:
    """A counter of consecutive failures, which reports them once they are many; the receiver limits
    how often it reports."""

    def __init__(self, name: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._name, self._now = name, now
        self._state = ChannelHealth("starting", now())
        self.failures = self.forged = 0
        self.on_change: Callable[[], None] = _ignore_change
        self.bot: Bot | None = None

    @property
    def state(self) -> ChannelHealth:
        return replace(self._state, forged=self.forged)

    def is_good(self) -> None:
        """Note that the platform was reached."""
        if self._state.state != "up":
            self._change(ChannelHealth("up", self._now()))

    def _change(self, state: ChannelHealth) -> None:
        is_news = state.state != self._state.state
        self._state = state
        if is_news:
            self.on_change()

    def count_forged(self) -> None:
        """Count a webhook call that was not from the platform."""
        self.forged += 1
        log.warning("%s: a call to the webhook was refused, the %d.", self._name, self.forged)
        self.on_change()

    def has_trouble(self, error: BaseException) -> None:
        """Note that an attempt to listen has failed, and is retried."""
        was_up = self._state.state == "up" and self._now() - self._state.since > _LASTING
        self.failures = 1 if was_up else self.failures + 1
        log.info("%s: attempt %d failed, another follows: %s", self._name, self.failures, error)
        since = self._state.since if self._state.state == "troubled" else self._now()
        self._change(ChannelHealth("troubled", since, reason_of(error)))
        if self.failures >= TROUBLE:
            self.notify(error)

    @property
    def wait(self) -> float:
        """The seconds until the next attempt, with jitter, so that clients do not reconnect all at
        once."""
        if self.failures < 2:
            return 0.0  # an orderly disconnection is resumed at once
        growing: float = 2 ** min(self.failures, 7) / 4
        return min(LONGEST_WAIT, growing + random.random())

    def is_over(self, error: BaseException) -> None:
        """Note that the channel can't continue."""
        self._change(ChannelHealth("down", self._now(), reason_of(error)))

    def notify(self, error: BaseException) -> None:
        """Report a persistent failure to an owner."""
        if self.bot is not None:
            self.bot.trouble(self._name, error)


def _ignore_change() -> None:
    """Ignore the change."""


_SPARE = 5  # messages of a chat's limit that drafts leave to others
_MOST_CHATS = 10_000  # chats whose limits are kept
_SHORTEST_HOLD, _LONGEST_HOLD = 0.1, 24 * 3600.0
"""The minimum and maximum seconds for which a chat is paused, whatever the platform says."""

T = TypeVar("T")


class Busy(Exception):
    """Raised if a request worth one attempt would have to wait."""


class ChatRateLimit:
    """Limits and retries of requests. A chat for which the platform asks to wait is paused for all
    requests; the others continue."""

    def __init__(self, platform: Platform, health: HealthRecord, sleep: Sleep) -> None:
        self._platform, self._health, self.sleep = platform, health, sleep
        self._overall = AsyncLimiter(platform.traits.overall, 1)
        self._chats: dict[str, AsyncLimiter] = {}
        self._holds: dict[str, asyncio.Future[None]] = {}

    async def send(
        self, place: Location, request: Callable[[], Awaitable[T]], *, is_message: bool = True
    ) -> T:
        """Make a request that sends or changes a message, with as many retries as needed. Raises
        the platform's final error, as a ChannelError if it no longer knows the bot."""

        async def attempt() -> T:
            await self._admit(place, is_once=False, is_message=is_message)
            try:
                return await request()
            except Exception as error:
                self._pause_chat(place, error)
                raise

        again = make_retrying(self._is_passing, self._is_held, self._health.notify, self.sleep)
        try:
            done: T = await again(attempt)
        except Exception as error:
            if (failure := self._platform.explain(error)).kind == "revoked":
                raise ChannelError(failure.advice) from error
            raise
        return done

    async def try_once(
        self, place: Location, request: Callable[[], Awaitable[T]], *, is_message: bool = True
    ) -> T:
        """Make a request that is soon obsolete: attempt it once, and not at all if it would have to
        wait. Raises Busy, too."""
        await self._admit(place, is_once=True, is_message=is_message)
        try:
            return await request()
        except Exception as error:
            self._pause_chat(place, error)
            raise

    async def close(self) -> None:
        for hold in tuple(self._holds.values()):
            hold.cancel()
        await asyncio.gather(*self._holds.values(), return_exceptions=True)

    def failure_of(self, error: BaseException) -> PlatformFailure:
        return self._platform.explain(error)

    async def _admit(self, place: Location, *, is_once: bool, is_message: bool) -> None:
        """Wait until a request may be made. Raises Busy."""
        limit = self._limit(place) if is_message else None
        if is_once and (place.chat in self._holds or (limit and not limit.has_capacity(_SPARE))):
            raise Busy
        if hold := self._holds.get(place.chat):
            await asyncio.wait({hold})
        if limit:
            await limit.acquire()
        if is_message:
            await self._overall.acquire()

    def _limit(self, place: Location) -> AsyncLimiter | None:
        traits = self._platform.traits
        most = traits.per_group if place.is_group else traits.per_chat
        if most is None:
            return None
        if place.chat not in self._chats and len(self._chats) >= _MOST_CHATS:
            del self._chats[next(iter(self._chats))]
        return self._chats.setdefault(place.chat, AsyncLimiter(most, traits.chat_time))

    def _pause_chat(self, place: Location, error: BaseException) -> None:
        failure = self._platform.explain(error)
        if failure.kind == "wait" and place.chat not in self._holds:
            hold = asyncio.ensure_future(self.sleep(bounded(failure.seconds)))
            hold.add_done_callback(lambda _: self._holds.pop(place.chat))
            self._holds[place.chat] = hold

    def _is_passing(self, error: BaseException) -> bool:
        return self._platform.explain(error).kind in ("passing", "wait")

    def _is_held(self, error: BaseException) -> float | None:
        """Return 0 if the platform asked to wait, since the chat's hold does the waiting."""
        return 0 if self._platform.explain(error).kind == "wait" else None


def bounded(seconds: float) -> float:
    """Return a platform's requested wait within sensible bounds: it may say anything."""
    return min(max(_SHORTEST_HOLD, seconds), _LONGEST_HOLD)
