"""A clock that jumped is not believed at once: what is deleted by age would be gone for nothing.

A battery runs out, somebody mistypes a year, a machine was off for long: the clock says that weeks
have passed since the bot ran last. Whether that is true cannot be seen from here, so an owner hears
of it, and it is believed after the bot has run with it for a day.
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
"""Seconds that the clock may be away from where it was, moved on by the time that the bot ran."""
PROBATION = DAY
"""Seconds that the bot runs with a clock that jumped until it is believed."""


def judge(kept: Clock, now: float, ran: float) -> Clock:
    """Return the state to keep of a clock that says `now`, `ran` seconds of running after what is
    kept. It is believed where `believed` is `now` then. Steps of a clock that already is on
    probation begin that anew."""
    if abs(now - kept.believed - ran) <= FARTHEST:
        return Clock(now, now)
    is_steady = abs(now - kept.seen - ran) <= FARTHEST and kept.seen != kept.believed
    waited = kept.waited + ran if is_steady else 0.0
    if waited >= PROBATION:
        return Clock(now, now)
    return Clock(kept.believed + ran, now, waited, kept.is_told and is_steady)


class ClockWatch(Struct):
    """Looks at the clock (seconds since 1970) whenever it is asked to, and keeps on disk for how
    long the bot has run (by `uptime`, in seconds, which no jump moves)."""

    store: Store
    tell: Callable[[str], Awaitable[bool]]
    zone: Callable[[], tzinfo]
    clock: Callable[[], float] = time.time
    uptime: Callable[[], float] = time.monotonic
    is_kept: bool = True
    """False for a process that only looks, and writes nothing."""
    _kept: Clock | None = None
    _looked: float = 0.0

    async def look(self) -> bool:
        """Return whether the clock is to be believed now. Raises StoreError."""
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
        """The time that is believed now: what the clock says, or while that is in doubt, when the
        bot ran last, moved on by the time that it has run since. Keeps nothing."""
        now = self.clock()
        if self._kept is None:
            return now
        return judge(self._kept, now, max(0.0, self.uptime() - self._looked)).believed

    async def warn(self) -> None:
        """Tell an owner once that the clock is not believed. Raises StoreError."""
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
        # Not synced: a power cut takes back minutes of a day's probation.
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
