"""Fires what is due."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from zoneinfo import ZoneInfo

from bot.jobs.plans import (
    CATCH_UP,
    SHUT_OUT,
    describe_lateness,
    is_doubtful,
    plan_after,
    quiet_hours_of,
    to_reminder,
)
from bot.jobs.runner import JobRunner
from bot.sending import address_of
from channels.language import _
from channels.message import Address, Reply
from memory.conversations import Conversations
from memory.record import jobs as rows
from memory.record.jobs import JobRow
from memory.record.store import StoreError
from plugins.recurrence import count_missed, format_time, postpone

log = logging.getLogger(__name__)


class Jobs:
    """All jobs, those that other processes own too, of which it fires its own."""

    def __init__(self, runner: JobRunner, conversations: Conversations) -> None:
        self._runner, self._conversations = runner, conversations
        self._ticking = asyncio.Lock()

    async def tick(self) -> None:
        """Fire what is due, and have this happen again when something is."""
        async with self._ticking:
            try:
                for job in await self._runner.store.read(
                    lambda db: rows.list_due(db, self._runner.clock())
                ):
                    await self._try_to_fire(job)
                await self._runner.wake()
            except StoreError:
                log.exception("what is due could not be looked up; it is tried again in a minute")

    async def _try_to_fire(self, job: JobRow) -> None:
        try:
            await self._fire(job)
        except StoreError as error:
            log.warning("job %d was not fired, and is tried again in a minute: %s", job.id, error)
        except Exception:  # one row must not hold up the others
            log.exception("job %d could not be fired", job.id)

    async def _fire(self, job: JobRow) -> None:
        now, key = self._runner.clock(), self._runner.lead(job)
        if not self._conversations.is_ours(key.id):
            return
        if is_doubtful(job, now, self._runner.rules.believed()):
            return
        quiet = quiet_hours_of(job, self._runner.rules.settings(key))
        later = postpone(now, quiet, ZoneInfo(job.zone))
        address = address_of(job.place)
        if later > now and not job.retry_at:
            await self._runner.move(job, replace(job, next_at=later))
        elif self._runner.access.identify(address) is None:
            await self._runner.pause(job, SHUT_OUT)
        elif job.kind == "reminder":
            await self._remind(job, address, now, quiet)
        elif now - job.due > CATCH_UP and job.kind == "command":
            await self._runner.move(job, plan_after(job, now))
        elif now - job.due > CATCH_UP and not job.retry_at:
            await self._pass_over(job, address, now, quiet)
        else:
            await self._runner.run(job, key, plan_after(job, now, quiet), now)

    async def _remind(self, job: JobRow, address: Address, now: float, quiet: str) -> None:
        zone = ZoneInfo(job.zone)
        missed = count_missed(job.rule, job.anchor, job.due, now, zone)
        with self._runner.speaking_to(job):
            late = describe_lateness(job.due, now, zone, missed)
            reply = to_reminder(job, late)
        await self._runner.tell_run(job, plan_after(job, now, quiet), reply, "told", now)

    async def _pass_over(self, job: JobRow, address: Address, now: float, quiet: str) -> None:
        """Say that a prompt was not run, since that would have been too late."""
        zone = ZoneInfo(job.zone)
        with self._runner.speaking_to(job):
            text = _(
                "Job {n} was due on {due}, when I was not running. That is over a day ago, so it "
                "was not run. `/jobs run {n}` runs it now.",
                n=job.id,
                due=format_time(job.due, zone),
            )
        await self._runner.tell_run(job, plan_after(job, now, quiet), Reply(text), "refused", now)
