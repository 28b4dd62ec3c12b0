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
"""The time that a connection must last for earlier failures to be forgotten."""


class HealthRecord:
    """A counter of consecutive failures, which reports them once they are many; the receiver limits
    how often it reports."""

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
        """Count a webhook call that was not from the platform."""
        self.forged += 1
        log.warning("%s: a call to the webhook was refused, the %d.", self._name, self.forged)
        self.on_change()

    def is_troubled(self, error: BaseException) -> None:
        """Note that an attempt to listen has failed, and is retried."""
        was_up = self._state.state == "up" and self._now() - self._state.since > _LASTING
        self.failures = 1 if was_up else self.failures + 1
        log.info("%s: attempt %d failed, another follows: %s", self._name, self.failures, error)
        since = self._state.since if self._state.state == "troubled" else self._now()
        self._change(ChannelHealth("troubled", since, reason_of(error)))
        if self.failures >= TROUBLE:
            self.tell(error)

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

    def tell(self, error: BaseException) -> None:
        """Report a persistent failure to an owner."""
        if self.bot is not None:
            self.bot.trouble(self._name, error)


def _nobody() -> None:
    """Ignore the change."""
