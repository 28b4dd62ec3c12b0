"""Protection from a clock that jumped: deletion by age must not trust it at once.

A battery runs out, a year is mistyped, a machine was off for long: the clock says that weeks have
passed since the bot ran last. The bot cannot tell whether that is true, so an owner is notified.
The clock is trusted after the bot has run with it for a day.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, tzinfo

from msgspec import Struct
from msgspec.structs import replace

from memory.record import clock as rows
from memory.record.clock import Clock
from memory.record.store import Store

log = logging.getLogger(__name__)

DAY = 86_400.0
FARTHEST = 7 * DAY
"""The maximum seconds between the clock and its last value plus the bot's running time."""
PROBATION = DAY
"""Seconds that the bot runs with a jumped clock until it is trusted."""


def judge(kept: Clock, now: float, ran: float) -> Clock:
    """Return the new state of a clock that says `now`, `ran` seconds of running after `kept`. The
    clock is trusted if `believed` is `now`. A jump during probation restarts it."""
    if abs(now - kept.believed - ran) <= FARTHEST:
        return Clock(now, now)
    is_steady = abs(now - kept.seen - ran) <= FARTHEST and kept.seen != kept.believed
    waited = kept.waited + ran if is_steady else 0.0
    if waited >= PROBATION:
        return Clock(now, now)
    return Clock(kept.believed + ran, now, waited, kept.is_told and is_steady)


class ClockWatch(Struct):
    """A check of the clock (seconds since 1970) on request. It stores how long the bot has run (by
    `uptime`, in seconds, which no jump affects)."""

    store: Store
    tell: Callable[[str], Awaitable[bool]]
    zone: Callable[[], tzinfo]
    clock: Callable[[], float] = time.time
    uptime: Callable[[], float] = time.monotonic
    is_kept: bool = True
    """False for a process that only reads."""
    _kept: Clock | None = None
    _looked: float = 0.0

    async def check(self) -> bool:
        """Return whether the clock is trusted now. Raises StoreError."""
        now, uptime = self.clock(), self.uptime()
        if self._kept is None:
            self._looked = uptime
            self._kept = await self.store.read(rows.load) or Clock(now, now)
        judgement = judge(self._kept, now, max(0.0, uptime - self._looked))
        self._looked = uptime
        await self._keep(judgement)
        return judgement.believed == judgement.seen

    @property
    def believed(self) -> float:
        """The trusted time: the clock, or while it is in doubt, the bot's last run plus its running
        time since. Stores nothing."""
        now = self.clock()
        if self._kept is None:
            return now
        return judge(self._kept, now, max(0.0, self.uptime() - self._looked)).believed

    async def warn(self) -> None:
        """Notify an owner once that the clock is not trusted. Raises StoreError."""
        kept = self._kept
        if kept is None or kept.believed == kept.seen:
            return
        sentence = _sentence(kept, self.zone())
        log.warning("%s", sentence)
        if not kept.is_told and await self.tell(sentence):
            await self._keep(replace(self._kept or kept, is_told=True))

    async def _keep(self, kept: Clock) -> None:
        self._kept = kept
        if not self.is_kept:
            return
        # Not synced: a power cut costs minutes of a day's probation.
        await self.store.write(lambda db: rows.save(db, kept), is_synced=False)


def _sentence(kept: Clock, zone: tzinfo) -> str:
    left = max(2, round((PROBATION - kept.waited) / 3600))
    return (
        f"The clock of this machine says {_day(kept.seen, zone)}, but the bot ran last on "
        f"{_day(kept.believed, zone)}. If the clock is wrong, correct it. Until the bot has run "
        f"for {left} more hours, no idle conversation is deleted."
    )


def _day(at: float, zone: tzinfo) -> str:
    try:
        return f"{datetime.fromtimestamp(at, zone):%d %B %Y, %H:%M}"
    except (ValueError, OverflowError, OSError):
        return "a time beyond any calendar"
