"""The scheduler, which fires the jobs that are due, and their conditions: a tool is called without
a model, and the job runs only if the result has changed since the last check."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from typing import Literal
from uuid import uuid4
from zoneinfo import ZoneInfo

import orjson
from msgspec.structs import replace

from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.sending import address_of
from channels.language import ENGLISH, _, speaking
from channels.message import Reply
from memory.conversations import Conversations
from memory.keys import ConversationKey
from memory.messages import ToolCall, mark_untrusted
from memory.record.mailbox import AddressColumns
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from plugins.jobs import record as rows
from plugins.jobs.plans import (
    CATCH_UP,
    GRACE,
    describe_lateness,
    is_doubtful,
    list_late,
    plan_after,
    plan_tomorrow,
    quiet_hours_of,
    to_reminder,
)
from plugins.jobs.record import JobRow
from plugins.jobs.recurrence import count_missed, format_time, postpone
from plugins.jobs.runs import JobRunner
from plugins.wording import money

log = logging.getLogger(__name__)

REPORTED, RESTS = 3, 10
"""The number of consecutive failed checks after which the chat is notified, and after which the job
is paused."""
AT_ONCE = 4
"""The maximum number of concurrent checks."""
PATIENCE = 120.0
"""The timeout of a check in seconds."""
LONGEST = 8_000
"""The maximum number of characters of a result that the model gets."""
Finding = Literal["new", "same", "failed"]
_PRINTED = re.compile(r"Exit code 0\.\n(.+)", re.DOTALL)


def digest_of(text: str) -> str:
    """Return the digest of a result, which is stored."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def judge_found(condition: str, before: str, text: str, *, is_error: bool) -> Finding:
    """Return whether a result is new compared with the digest `before`. A command is new if it
    succeeds and its output differs; the first result of other tools is only stored. A missing file
    is a result like any other, but a page that can't be read is not."""
    tool = condition.partition(":")[0]
    if tool == "shell" and not is_error:
        is_new = _PRINTED.match(text) is not None and digest_of(text) != before
        return "new" if is_new else "same"
    if is_error and tool != "read_file":
        return "failed"
    return "new" if before and digest_of(text) != before else "same"


class JobConditions:
    """The checks of conditions. They run in the background, so that a slow page delays nothing."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner, self._conversations = runner, runner.kernel.conversations
        self._looking: set[int] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self.tasks = BackgroundTasks()

    def check(self, job: JobRow, key: ConversationKey, quiet: str = "") -> None:
        """Start the check of a job that is due or new, and run the job if the result is new; do
        nothing if a check is already running."""
        if job.id not in self._looking:
            self._looking.add(job.id)
            self.tasks.start(self._check(job, key, quiet), f"look for job {job.id}")

    async def _check(self, job: JobRow, key: ConversationKey, quiet: str) -> None:
        try:
            async with self._room:
                text, is_error = await self._call(job, key)
            await self._apply_result(job, key, quiet, text, is_error)
            await self._runner.wake()
        except StoreError as error:
            log.warning("what job %d found was not kept; it looks again: %s", job.id, error)
        except Exception:
            log.exception("job %d could not look", job.id)
        finally:
            self._looking.discard(job.id)

    async def _call(self, job: JobRow, key: ConversationKey) -> tuple[str, bool]:
        """Return the result of the call, and whether it is an error."""
        address = address_of(job.place)
        conversation = await self._conversations.get(key)
        agent = self._runner.config.agent(conversation, address)
        name, _colon, text = job.condition.partition(":")
        argument = agent.toolbox.find_text_argument(name)
        if not argument:
            return f"The tool {name} is not offered here any more.", True
        person = self._runner.access.identify(address)
        approve = _approve_look(may_own=person is not None and person.is_owner)
        surroundings = replace(agent.surroundings, approve=approve, place=None, delegate=None)
        call = ToolCall(f"call_{uuid4().hex}", name, orjson.dumps({argument: text}).decode())
        try:
            async with asyncio.timeout(PATIENCE):
                with speaking(ENGLISH):  # the model reads the result as well
                    return await agent.toolbox.run(call, surroundings)
        except TimeoutError:
            return f"{name} took longer than {PATIENCE:g} s.", True

    async def _apply_result(
        self, job: JobRow, key: ConversationKey, quiet: str, text: str, is_error: bool
    ) -> None:
        now = self._runner.clock()
        finding = judge_found(job.condition, job.found, text, is_error=is_error)
        if job.due > now:  # a new job; later checks are compared with this result
            after = replace(job, looked_at=now, found=job.found if is_error else digest_of(text))
            await self._runner.move(job, after)
            return
        is_again = job.retry_at > 0  # a run for the same result has failed
        moved = replace(plan_after(job, now, quiet), looked_at=now)
        if finding == "failed":
            await self._fail(job, moved, text, now)
        elif finding == "new" or (is_again and job.found == digest_of(text)):
            after = replace(moved, found=digest_of(text))
            shown = mark_untrusted(text[:LONGEST], job.condition.partition(":")[0])
            await self._runner.run(job, key, after, now, found=shown)
        else:
            await self._runner.move(job, replace(moved, found=digest_of(text), failures=0))

    async def _fail(self, job: JobRow, moved: JobRow, why: str, now: float) -> None:
        """Store that a check has failed; the next check is at the job's next time."""
        why = " ".join(why.split())[:300]
        after = replace(moved, failures=job.failures + 1)
        if after.failures >= RESTS and after.state == "active":
            after = replace(after, state="paused", why=f"{RESTS} runs in a row failed")
        if after.failures not in (REPORTED, RESTS):
            await self._runner.note_run(job, after, "failed", why, now)
            return
        with self._runner.speaking_to(job):
            text = _("Job {n} could not check for news: {why}", n=job.id, why=why)
            if after.state == "paused":
                text += "\n\n" + _("It is paused now; /jobs resume {n} resumes it.", n=job.id)
        await self._runner.notify_run(job, after, Reply(text), "failed", now, why)
        sentence = f"Job {job.id} failed: {why}"
        await self._runner.kernel.alerts.job_failed(job.id, sentence, address_of(job.place))


def _approve_look(*, may_own: bool) -> Approve:
    """Return a check that allows the call, since the job's author wrote it; except that calls which
    only an owner may allow are refused unless `may_own`."""

    async def approve(wanted: Permission) -> None:
        if wanted.is_for_owner and not may_own:
            raise ToolError(f"{NOT_RUN} only an owner may allow it.")

    return approve


TOGETHER = 10
"""The maximum number of late reminders in one message."""


class Jobs:
    """All jobs; it fires those of this process, and skips those that other processes own."""

    def __init__(
        self, runner: JobRunner, conversations: Conversations, conditions: JobConditions
    ) -> None:
        self._runner, self._conversations = runner, conversations
        self._conditions = conditions
        self._ticking = asyncio.Lock()

    async def tick(self) -> None:
        """Fire the due jobs, and set the timer for the next one."""
        async with self._ticking:
            try:
                now = self._runner.clock()
                due = await self._runner.store.read(lambda db: rows.list_due(db, now))
                may = [job for job in due if await self._may_happen(job, now)]
                late, others = _group_late(may, now)
                for jobs in late:
                    await self._try(jobs[0], self._remind_late(jobs, now))
                for job in others:
                    await self._try(job, self._fire(job, now))
                await self._runner.wake()
            except StoreError:
                log.exception("what is due could not be looked up; it is tried again in a minute")

    async def _try(self, job: JobRow, work: Awaitable[None]) -> None:
        try:
            await work
        except StoreError as error:
            log.warning("job %d was not fired, and is tried again in a minute: %s", job.id, error)
        except Exception:  # one row must not block the others
            log.exception("job %d could not be fired", job.id)

    async def _may_happen(self, job: JobRow, now: float) -> bool:
        """Return whether a due job may be fired here and now. A job in its quiet hours is
        postponed, and one that can't run is paused."""
        try:
            key = self._runner.resolve(job)
            if not self._conversations.is_ours(key.id):
                return False
            if is_doubtful(job, now, self._runner.kernel.clock.believed):
                return False
            later = postpone(now, self._quiet(job), ZoneInfo(job.zone))
            if later > now and not job.retry_at:
                await self._runner.move(job, replace(job, next_at=later))
            elif why := await self._runner.find_why_not(job):
                await self._runner.pause(job, why)
            else:
                return True
        except Exception:  # one row must not block the others
            log.exception("job %d could not be fired", job.id)
        return False

    def _quiet(self, job: JobRow) -> str:
        return quiet_hours_of(job, self._runner.settings(self._runner.resolve(job)))

    async def _fire(self, job: JobRow, now: float) -> None:
        quiet, is_late = self._quiet(job), now - job.due > CATCH_UP
        if job.kind == "reminder":
            await self._remind(job, now, quiet)
        elif job.rule and await self._has_spent_its_day(job):
            await self._pause_until_tomorrow(job, now)
        elif job.condition:
            self._conditions.check(job, self._runner.resolve(job), quiet)
        elif is_late and job.kind == "command":
            await self._runner.move(job, plan_after(job, now))
        elif is_late and not job.retry_at:
            await self._skip(job, now, quiet)
        else:
            await self._runner.run(job, self._runner.resolve(job), plan_after(job, now, quiet), now)

    async def _has_spent_its_day(self, job: JobRow) -> bool:
        midnight = self._runner.midnight()
        spent = await self._runner.store.read(lambda db: rows.spent_since(db, job.id, midnight))
        return 0 < job.day_budget <= spent

    async def _pause_until_tomorrow(self, job: JobRow, now: float) -> None:
        """Notify the chat once that a job has used its budget for the day."""
        runner = self._runner
        after = plan_tomorrow(job, now, runner.midnight(), runner.zone)
        why = "This job has spent what it may on one day."
        if job.kind == "command":
            await self._runner.note_run(job, after, "refused", why, now)
            return
        with self._runner.speaking_to(job):
            text = _(
                "Job {n} has used its budget for one day ({most}), so it pauses until {at}.",
                n=job.id,
                most=money(job.day_budget),
                at=format_time(after.next_at, ZoneInfo(job.zone)),
            )
        await self._runner.notify_run(job, after, Reply(text), "refused", now, why)

    async def _remind(self, job: JobRow, now: float, quiet: str) -> None:
        with self._runner.speaking_to(job):
            late = describe_lateness(job.due, now, ZoneInfo(job.zone), _count_missed(job, now))
            reply = to_reminder(job, late)
        await self._runner.notify_run(job, plan_after(job, now, quiet), reply, "told", now)

    async def _remind_late(self, jobs: Sequence[JobRow], now: float) -> None:
        """Send the late reminders of one place in one message."""
        with self._runner.speaking_to(jobs[0]):
            reply = list_late([(job, _count_missed(job, now)) for job in jobs])
        moved = [(job, plan_after(job, now, self._quiet(job))) for job in jobs]
        await self._runner.notify_together(moved, reply, now)

    async def _skip(self, job: JobRow, now: float, quiet: str) -> None:
        """Notify the chat that a prompt was not run, since it was too late."""
        with self._runner.speaking_to(job):
            text = _(
                "Job {n} was due on {due}, when I was not running. That is over a day ago, so it "
                "was not run. `/jobs run {n}` runs it now.",
                n=job.id,
                due=format_time(job.due, ZoneInfo(job.zone)),
            )
        after, why = plan_after(job, now, quiet), "it was due over a day before"
        await self._runner.notify_run(job, after, Reply(text), "refused", now, why)


def _count_missed(job: JobRow, now: float) -> int:
    return count_missed(job.rule, job.anchor, job.due, now, ZoneInfo(job.zone))


def _group_late(jobs: Sequence[JobRow], now: float) -> tuple[list[list[JobRow]], list[JobRow]]:
    """Return the groups of late reminders for the same place, each small enough for one message;
    and all other jobs."""
    by_place = defaultdict[AddressColumns, list[JobRow]](list)
    for job in jobs:
        if job.kind == "reminder" and now - job.due > GRACE:
            by_place[job.place].append(job)
    parts = [
        group[at : at + TOGETHER]
        for group in by_place.values()
        for at in range(0, len(group), TOGETHER)
    ]
    together = [part for part in parts if len(part) > 1]
    grouped = {job.id for group in together for job in group}
    return together, [job for job in jobs if job.id not in grouped]
