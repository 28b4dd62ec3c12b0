"""Runs of jobs: a reminder is sent, or a prompt is added to the conversation's queue and becomes a
turn, whose limits and outcome are kept here."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from agent.loop import Agent
from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.app import Kernel
from bot.delivery import to_received
from bot.received import Received, RunHandler, command_line, key_of
from bot.sending import address_of
from bot.spending import BudgetedModel, BudgetSpent
from channels.language import _
from channels.message import Address, Reply
from memory.conversation import Conversation
from memory.keys import ConversationKey
from memory.messages import Mark
from memory.record import mailbox
from memory.record.database import Database
from memory.record.mailbox import InboxRow, OutboxRow
from memory.record.store import StoreError
from plugins.jobs import record as rows
from plugins.jobs.plans import (
    BRANCH_GONE,
    SHUT_OUT,
    classify_result,
    describe_run,
    plan_ended,
    to_message,
)
from plugins.jobs.record import JobRow, Outcome, RunRow
from plugins.jobs.settings import JobSettings
from plugins.wording import money


class JobRunner:
    """The operations that change a job's state and run it."""

    def __init__(self, kernel: Kernel) -> None:
        self.store, self.access, self.config = kernel.store, kernel.access, kernel.config
        self.kernel, self.clock = kernel, time.time
        self._delivery, self._turns = kernel.delivery, kernel.turns

    def settings(self, key: ConversationKey) -> JobSettings:
        """Return the settings of jobs for a conversation."""
        return self.config.book.effective(key.id).section(JobSettings)

    @property
    def zone(self) -> ZoneInfo:
        return self.config.book.effective().zone

    def midnight(self) -> float:
        """Return the beginning of the current day, in seconds since 1970."""
        now = datetime.now(self.zone)
        return now.replace(hour=0, minute=0, second=0, microsecond=0).timestamp()

    def resolve(self, job: JobRow) -> ConversationKey:
        """Return the conversation that a job currently belongs to."""
        key = self._turns.resolve(address_of(job.place))
        return key.branch(job.branch) if job.branch else key

    def speaking_to(self, job: JobRow) -> AbstractContextManager[None]:
        """Return a context in which the bot uses the language of the person who gets the job's
        messages."""
        return self._delivery.speaking_to(address_of(job.place), self.resolve(job).id)

    def home_of(self, address: Address) -> str:
        """Return the chat's conversation that an address resolves to."""
        return self._turns.resolve(address).home

    async def find_why_not(self, job: JobRow) -> str:
        """Return the reason why a job may no longer run; "" if it may. A job of a branch runs only
        in that branch."""
        if self.access.identify(address_of(job.place)) is None:
            return SHUT_OUT
        branches = self.kernel.conversations.branches
        return BRANCH_GONE if job.branch and await branches.is_deleted(self.resolve(job)) else ""

    async def wake(self) -> None:
        """Set the timer for the next due job."""
        at = await self.store.read(rows.next_due)
        if at > self.clock():
            self.kernel.schedule.wake_at(at)

    async def move(self, before: JobRow, after: JobRow) -> None:
        """Store the new state of a job, unless it was changed meanwhile."""
        await self.store.write(lambda db: rows.claim(db, before, after))

    async def pause(self, job: JobRow, why: str) -> None:
        """Pause a job."""
        await self.move(job, replace(job, state="paused", why=why, retry_at=0.0))

    async def note_run(
        self, job: JobRow, after: JobRow, outcome: Outcome, why: str, now: float
    ) -> None:
        """Store the outcome of a run without a message."""

        def work(db: Database) -> None:
            if rows.claim(db, job, after):
                rows.begin_run(db, RunRow(job.id, job.due, now, outcome, why, ended=now))

        await self.store.write(work)

    async def notify_run(
        self,
        job: JobRow,
        after: JobRow,
        reply: Reply,
        outcome: Outcome,
        now: float,
        why: str = "",
    ) -> None:
        """Send a message about a job to its chat, as a complete run."""

        def put(db: Database, parts: list[OutboxRow]) -> list[int]:
            if not rows.claim(db, job, after):
                return []
            run = rows.begin_run(db, RunRow(job.id, job.due, now, outcome, why, ended=now))
            return rows.enqueue_reply(db, run, parts)

        await self._delivery.notify_if(address_of(job.place), reply, put)

    async def notify_together(
        self, moved: Sequence[tuple[JobRow, JobRow]], reply: Reply, now: float
    ) -> None:
        """Send one message for several reminders of a place, and store the next state of each.
        Raises StoreError, and sends nothing, if one of them was changed meanwhile."""

        def put(db: Database, parts: list[OutboxRow]) -> list[int]:
            ids: list[int] = []
            for job, after in moved:
                if not rows.claim(db, job, after):
                    raise StoreError(f"job {job.id} was changed just now")
                run = rows.begin_run(db, RunRow(job.id, job.due, now, "told", ended=now))
                if ids:
                    rows.set_outbox_ids(db, run, ids)
                else:
                    ids = rows.enqueue_reply(db, run, parts)
            return ids

        await self._delivery.notify_if(address_of(moved[0][0].place), reply, put)

    async def run(
        self,
        job: JobRow,
        key: ConversationKey,
        after: JobRow,
        now: float,
        due: float = 0.0,
        found: str = "",
    ) -> bool:
        """Put a prompt into the inbox and its conversation's queue, unless an earlier run of it is
        still running; return whether it was added. `found` is the result of its condition, which is
        untrusted text."""
        address = address_of(job.place)
        text = "\n\n".join(filter(None, (to_message(job), found)))

        def work(db: Database) -> InboxRow | None:
            if rows.is_running(db, job.id):
                rows.claim(db, job, replace(after, found=job.found))
                return None
            if not rows.claim(db, job, after):
                return None
            run = rows.begin_run(db, RunRow(job.id, due or job.due, now))
            branch = key.id if key.id != key_of(address).id else ""
            name = f"job-{job.id}-{run}"
            message = InboxRow(0, job.place, name, text, "", now, branch=branch)
            message = replace(message, is_outside=bool(found))
            return rows.enqueue_prompt(
                db, run, message, hashlib.sha256(text.encode()).hexdigest()[:32]
            )

        row = await self.store.write(work)
        if row is not None:
            line = command_line(text) if job.kind == "command" else None
            self.kernel.bot.dispatch(to_received(row, key, line))
        return row is not None


class RunBudget(Struct, frozen=True):
    """The maximum cost in US dollars of a run, and of all runs of its job on one day (0: no limit).
    `spent` returns the cost of the run so far; `earlier` is the cost of the other runs of the
    day."""

    run: float
    day: float
    spent: Callable[[], float]
    earlier: float = 0.0

    def check(self, coming: float = 0.0) -> None:
        """Raise BudgetSpent if a request with at least this cost may not be sent."""
        spent = self.spent()
        today = spent + self.earlier
        if self.run and (spent >= self.run or spent + coming > self.run):
            raise BudgetSpent(
                f"A run of this job may cost {money(self.run)}. This one has cost {money(spent)}, "
                "so it ended here."
            )
        if self.day and (today >= self.day or today + coming > self.day):
            raise BudgetSpent(
                f"This job may cost {money(self.day)} a day. Its runs have cost {money(today)} "
                "today, so no more was sent to the model."
            )


class JobTurns(RunHandler):
    """The handling of runs by their turns (`bot.received.RunHandler`)."""

    def __init__(self, runner: JobRunner) -> None:
        self._runner, self._delivery = runner, runner.kernel.delivery

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """Return the agent for a run: with its budget, and without permission questions."""
        _run, job, earlier = await self._load_run(received)
        before = await self._runner.store.read(lambda db: rows.cost_of(db, received.run))
        if job is None:
            raise RuntimeError(f"the job of run {received.run} was deleted just now")
        context = conversation.context
        begun = context.bill.cost
        budget = RunBudget(
            job.run_budget, job.day_budget, lambda: before + context.bill.cost - begun, earlier
        )
        person = self._runner.access.identify(received.address)
        approve = _approve_granted(
            job,
            self._runner.config.book.effective(conversation.key.id).tools.approve == "ask",
            person is not None and person.is_owner,
        )
        surroundings = replace(agent.surroundings, approve=approve, place=None)
        return replace(
            agent,
            model=BudgetedModel(agent.model, budget),
            surroundings=surroundings,
            limits=lambda: replace(agent.limits(), steps=job.max_steps),
        )

    async def refusal(self, received: Received) -> str:
        """Return the reason why a waiting run does not start; "" if it does."""
        run, job, earlier = await self._load_run(received)
        if run is None or job is None:
            return _("The job was deleted before its turn came.")
        if job.branch and await self._runner.find_why_not(job) == BRANCH_GONE:
            return _("The branch of this job was deleted before its turn came.")
        is_spent = job.kind == "command" and 0 < job.day_budget <= earlier
        return _("This job has spent what it may on one day.") if is_spent else ""

    async def _load_run(self, received: Received) -> tuple[RunRow | None, JobRow | None, float]:
        """Return a run, its job, and the cost of the job's runs of this day."""
        midnight = self._runner.midnight()

        def load(db: Database) -> tuple[RunRow | None, JobRow | None, float]:
            run = rows.find_run(db, received.run)
            job = rows.find(db, run.job) if run else None
            return run, job, rows.spent_since(db, job.id, midnight) if job else 0.0

        return await self._runner.store.read(load)

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> bool:
        """Store the outcome of a run, in one transaction with its reply if that is sent."""
        run, job, _earlier = await self._load_run(received)
        if run is None or job is None:
            return False
        ending = classify_result(reply, mark, job.kind)
        after = plan_ended(job, run, ending, self._runner.clock())
        cost = float((reply.data or {}).get("cost") or 0.0) if job.kind == "command" else 0.0

        def also(db: Database, ids: Sequence[int]) -> None:
            rows.end_run(db, run.id, ending.outcome, ending.why, ids, cost)
            if (now := rows.find(db, job.id)) is not None:
                rows.claim(db, now, plan_ended(now, run, ending, self._runner.clock()))

        def close(db: Database) -> None:
            mailbox.close(db, received.row)
            also(db, ())

        has_failed = ending.outcome == "failed" and not after.retry_at
        if job.kind == "command" and not has_failed:
            await self._runner.store.write(close)
        else:
            note = describe_run(job, after, run, ending)
            noted = replace(reply, text=f"{reply.text}\n\n({note})")
            await self._delivery.answer(received, noted, turn, also)
        await self._runner.wake()
        if has_failed:
            sentence = f"Job {job.id} failed: {ending.why}"
            await self._runner.kernel.alerts.job_failed(job.id, sentence, received.address)
        return True


def _approve_granted(job: JobRow, is_asked: bool, may_own: bool) -> Approve:
    """Return a check that allows the tools granted when the job was created, and asks nobody."""
    granted = frozenset(job.grants.split())

    async def approve(wanted: Permission) -> None:
        is_granted = wanted.tool in granted or (wanted.covers and wanted.covers in granted)
        if not is_asked or (is_granted and (may_own or not wanted.is_for_owner)):
            return
        raise ToolError(
            f"{NOT_RUN} nobody attends this job, so nobody can allow it, and it was not granted "
            f"when the job was made (--allow {wanted.tool})."
        )

    return approve
