"""Scheduled work: at the start, each night, every few minutes, and of features every minute; and
protection from a clock that jumped. Where the clock says that weeks have passed, an owner is
notified, and deletion by age waits until the bot has run with it for a day."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from bot.forgetting import Forgetter
from bot.settings import SettingsStore
from memory.record import bot_state
from memory.record.bot_state import Clock
from memory.record.store import Store
from memory.tasks import BackgroundTasks

log = logging.getLogger(__name__)

DAY = 86_400
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
    notify: Callable[[str], Awaitable[bool]]
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
            self._kept = await self.store.read(bot_state.load_clock) or Clock(now, now)
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
        if not kept.is_told and await self.notify(sentence):
            await self._keep(replace(self._kept or kept, is_told=True))

    async def _keep(self, kept: Clock) -> None:
        self._kept = kept
        if not self.is_kept:
            return
        # Not synced: a power cut costs minutes of a day's probation.
        await self.store.write(lambda db: bot_state.save_clock(db, kept), is_synced=False)


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


if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler


HOUR = 4
"""The hour of the nightly tick, in the bot's time zone."""
FARTHEST_NIGHT = DAY + 7_200
"""The maximum number of seconds to the next night: a day may have an extra hour."""
OFTEN = 10
"""Minutes."""
MINUTE = 60.0
"""Seconds, by a monotonic clock."""


class Schedule:
    """A schedule that runs `tick`, never twice at the same time; one that fails is logged and
    retried the next night. `often` runs every few minutes. Work added by `every_minute` runs every
    minute, and at the times given to `wake_at`."""

    def __init__(
        self,
        zone: Callable[[], tzinfo],
        tick: Callable[[], Awaitable[None]],
        often: Sequence[Callable[[], Awaitable[object]]],
    ) -> None:
        self._zone, self._tick, self._often = zone, tick, often
        self._minutely: list[Callable[[], Coroutine[Any, Any, None]]] = []
        self._scheduler: AsyncIOScheduler | None = None
        self._ticking, self._firing = BackgroundTasks(), BackgroundTasks()
        self._beating, self._rarely = BackgroundTasks(), BackgroundTasks()

    def every_minute(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run this every minute once the schedule has started, and at the times of `wake_at`."""
        self._minutely.append(work)

    async def start(self) -> None:
        """Tick now, and every night from now on."""
        scheduler = await asyncio.to_thread(_scheduler, self._zone())
        scheduler.add_job(self.due, "cron", id="night", hour=HOUR)
        scheduler.start()
        self._scheduler = scheduler
        await self.due()
        await self.fire()
        self._beating.start(self._beat(scheduler), "minutes")

    async def _beat(self, scheduler: AsyncIOScheduler) -> None:
        """Run the work of every minute and every few minutes, whatever happens to the clock:
        setting it back must not stop the work, and setting it forward makes jobs due."""
        for count in itertools.count(1):
            await asyncio.sleep(MINUTE)
            coming = self.next_tick
            if coming and coming.timestamp() - time.time() > FARTHEST_NIGHT:
                scheduler.reschedule_job("night", trigger="cron", hour=HOUR)
            scheduler.wakeup()  # otherwise it would sleep for as long as planned
            await self.fire()
            if count % OFTEN == 0 and not self._rarely:
                self._rarely.start(self._do_often(), "every few minutes")

    async def _do_often(self) -> None:
        for work in self._often:
            try:
                await work()
            except Exception:
                log.exception("what is done every %d minutes failed", OFTEN)

    async def fire(self) -> None:
        """Run the work of every minute, unless it is running."""
        if not self._firing:
            for work in self._minutely:
                self._firing.start(work(), "every minute")

    def wake_at(self, at: float) -> None:
        """Run the work of every minute at this time as well (seconds since 1970)."""
        if self._scheduler is not None:
            run_at = datetime.fromtimestamp(at, UTC)
            self._scheduler.add_job(
                self.fire, "date", id="wake", run_date=run_at, replace_existing=True
            )

    @property
    def next_tick(self) -> datetime | None:
        """Return the time of the next tick, or None."""
        job = self._scheduler.get_job("night") if self._scheduler else None
        return job.next_run_time if job else None

    async def idle(self) -> None:
        """Wait until no tick is running."""
        await self._ticking.idle()
        await self._firing.idle()

    async def stop(self) -> None:
        """Stop ticking; a running tick is cancelled."""
        await self._beating.stop()
        await self._rarely.stop()
        self._ticking.cancel()
        self._firing.cancel()
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # it shuts down in the loop's next iteration
        await self.idle()

    async def due(self) -> None:
        """Run a tick, unless one is running."""
        if not self._ticking:
            self._ticking.start(self._tick_once(), "tick")

    async def _tick_once(self) -> None:
        try:
            await self._tick()
        except Exception:
            log.exception("what is done each night failed; it is tried again the next night")


def _scheduler(zone: tzinfo) -> AsyncIOScheduler:
    # A slow import, which must not delay the first prompt.
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415

    # A machine that slept at that hour ticks once when it wakes up.
    return AsyncIOScheduler(
        timezone=zone, job_defaults={"misfire_grace_time": None, "coalesce": True}
    )


class Retention(Struct, frozen=True):
    """The deletion of conversations that were idle for `session_retention_days` (0: never), unless
    the clock is not trusted; `now` returns seconds since 1970."""

    forgetting: Forgetter
    book: SettingsStore
    clock: ClockWatch
    now: Callable[[], float] = time.time

    async def __call__(self) -> None:
        days = self.book.effective().session_retention_days
        is_believed = await self.clock.check()
        if days:
            await self.clock.warn()
        if not is_believed:
            return
        if days and (count := await self.forgetting.retire(self.now() - days * DAY)):
            log.info("%d conversations were idle for over %d days and are deleted", count, days)
