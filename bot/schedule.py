"""The work that is done by the clock: one tick at the start of the bot and one each night, what is
done every few minutes, and what features do every minute."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bot.clock import ClockWatch
from bot.forgetting import Forgetting
from bot.settings import SettingsStore
from memory.tasks import BackgroundTasks

if TYPE_CHECKING:
    from apscheduler.schedulers.asyncio import AsyncIOScheduler

log = logging.getLogger(__name__)

HOUR = 4
"""The hour of the nightly tick, in the bot's time zone."""
DAY = 86_400
FARTHEST_NIGHT = DAY + 7_200
"""Seconds to the next night, at most: a day may have an hour more."""
OFTEN = 10
"""Minutes."""
MINUTE = 60.0
"""Seconds, by no clock that anybody sets."""


class Schedule:
    """Lets `tick` happen; one at a time, and one that fails is logged and tried again the night
    after. `often` happens every few minutes; what `every_minute` adds, every minute, and when
    `wake_at` wants it."""

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
        """Have this done every minute once the clock runs, and when `wake_at` wants it."""
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
        """Do what is done every minute and every few minutes, whatever becomes of the clock: one
        that is set back must not stop it, and one that is set forward makes things due."""
        for count in itertools.count(1):
            await asyncio.sleep(MINUTE)
            coming = self.next_tick
            if coming and coming.timestamp() - time.time() > FARTHEST_NIGHT:
                scheduler.reschedule_job("night", trigger="cron", hour=HOUR)
            scheduler.wakeup()  # by itself, it would sleep for as long as it had planned
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
        """Do what is done every minute, unless it is under way."""
        if not self._firing:
            for work in self._minutely:
                self._firing.start(work(), "every minute")

    def wake_at(self, at: float) -> None:
        """Do what is done every minute at a time (seconds since 1970), too."""
        if self._scheduler is not None:
            run_at = datetime.fromtimestamp(at, UTC)
            self._scheduler.add_job(
                self.fire, "date", id="wake", run_date=run_at, replace_existing=True
            )

    @property
    def next_tick(self) -> datetime | None:
        """Return the time of the next tick; None where none is planned."""
        job = self._scheduler.get_job("night") if self._scheduler else None
        return job.next_run_time if job else None

    async def idle(self) -> None:
        """Wait until no tick is under way."""
        await self._ticking.idle()
        await self._firing.idle()

    async def stop(self) -> None:
        """No more ticks; one that is under way is cut short."""
        await self._beating.close()
        await self._rarely.close()
        self._ticking.cancel()
        self._firing.cancel()
        if self._scheduler is not None:
            self._scheduler.shutdown(wait=False)
            await asyncio.sleep(0)  # it shuts down in the loop's next round
        await self.idle()

    async def due(self) -> None:
        """Let a tick happen, unless one is under way."""
        if not self._ticking:
            self._ticking.start(self._tick_once(), "tick")

    async def _tick_once(self) -> None:
        try:
            await self._tick()
        except Exception:
            log.exception("what is done each night failed; it is tried again the next night")


def _scheduler(zone: tzinfo) -> AsyncIOScheduler:
    # A slow import, which the first prompt does not wait for.
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415

    # A machine that slept at the hour ticks when it wakes up, once.
    return AsyncIOScheduler(
        timezone=zone, job_defaults={"misfire_grace_time": None, "coalesce": True}
    )


class Retention(Struct, frozen=True):
    """Deletes what was not spoken of for `session_retention_days` (0: never), unless the clock is
    not to be believed; `now` gives seconds since 1970."""

    forgetting: Forgetting
    book: SettingsStore
    clock: ClockWatch
    now: Callable[[], float] = time.time

    async def __call__(self) -> None:
        days = self.book.effective().session_retention_days
        is_believed = await self.clock.look()
        if days:
            await self.clock.warn()
        if not is_believed:
            return
        if days and (count := await self.forgetting.retire(self.now() - days * DAY)):
            log.info("%d conversations were idle for over %d days and are deleted", count, days)
