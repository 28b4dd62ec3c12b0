"""Runs of jobs as turns: their limits, and the storing of their outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.loop import Agent
from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.received import Received, RunHandler
from bot.spending import BudgetedModel, BudgetSpent
from channels.language import _
from channels.message import Reply
from memory.conversation import Conversation
from memory.messages import Mark
from memory.record import mailbox
from memory.record.database import Database
from plugins.jobs import record as rows
from plugins.jobs.plans import BRANCH_GONE, classify_result, describe_run, plan_ended
from plugins.jobs.record import JobRow, RunRow
from plugins.jobs.runner import JobRunner
from plugins.wording import money


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
            said = replace(reply, text=f"{reply.text}\n\n({note})")
            await self._delivery.answer(received, said, turn, also)
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
