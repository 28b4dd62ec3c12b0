"""The health of a messenger, as its channel knows it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from channels.base import Bot, ChannelHealth
from channels.retry import LONGEST_WAIT, TROUBLE, reason_of

log = logging.getLogger(__name__)

_LASTING = timedelta(seconds=10)
"""The time that a connection has to hold, so that what failed before it is forgotten."""


class HealthRecord:
    """Counts what failed one after the other. Once that is much, somebody hears of it; how often
    they are told is not decided here."""

    def __init__(self, name: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._name, self._now = name, now
        self._state = ChannelHealth("starting", now())
        self.failures = self.forged = 0
        self.on_change: Callable[[], None] = _nobody
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
        """Somebody who is not the platform called its webhook."""
        self.forged += 1
        log.warning("%s: a call to the webhook was refused, the %d.", self._name, self.forged)
        self.on_change()

    def is_troubled(self, error: BaseException) -> None:
        """Note that an attempt to listen has failed, and that another follows."""
        was_up = self._state.state == "up" and self._now() - self._state.since > _LASTING
        self.failures = 1 if was_up else self.failures + 1
        log.info("%s: attempt %d failed, another follows: %s", self._name, self.failures, error)
        since = self._state.since if self._state.state == "troubled" else self._now()
        self._change(ChannelHealth("troubled", since, reason_of(error)))
        if self.failures >= TROUBLE:
            self.tell(error)

    @property
    def wait(self) -> float:
        """Seconds until the next attempt; not all who lost the same platform come at once."""
        if self.failures < 2:
            return 0.0  # what was cut off in good order is taken up at once
        growing: float = 2 ** min(self.failures, 7) / 4
        return min(LONGEST_WAIT, growing + random.random())

    def is_over(self, error: BaseException) -> None:
        """Note that the channel can't go on."""
        self._change(ChannelHealth("down", self._now(), reason_of(error)))

    def tell(self, error: BaseException) -> None:
        """Let an owner hear of what goes on failing."""
        if self.bot is not None:
            self.bot.trouble(self._name, error)


def _nobody() -> None:
    """Nobody is told."""
