"""Runs of jobs as turns: what one may do, and what is kept of how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from agent.loop import Agent
from agent.tools import ToolError
from agent.tools.base import NOT_RUN, Approve, Permission
from bot.delivery import Delivery
from bot.jobs.plans import describe_run, judge, plan_ended
from bot.jobs.runner import JobRunner
from bot.received import Received
from bot.spending import BudgetedModel, RunBudget
from channels.language import _
from channels.message import Address, Reply
from memory.conversation import Conversation
from memory.messages import Mark
from memory.record import jobs as rows
from memory.record.database import Database
from memory.record.jobs import JobRow, RunRow


class JobTurns:
    """What turns must know of runs (`bot.turns.JobRuns`). `on_failure` hears of runs that failed
    for good."""

    def __init__(
        self,
        runner: JobRunner,
        delivery: Delivery,
        on_failure: Callable[[int, str, Address], Awaitable[None]],
    ) -> None:
        self._runner, self._delivery, self._on_failure = runner, delivery, on_failure

    async def prepare(self, received: Received, conversation: Conversation, agent: Agent) -> Agent:
        """What a run is answered with: within its budget, and with nobody there to be asked."""
        midnight = self._runner.rules.midnight()

        def look(db: Database) -> tuple[JobRow | None, float, float]:
            run = rows.find_run(db, received.run)
            job = rows.find(db, run.job) if run else None
            earlier = rows.spent_since(db, job.id, midnight) if job else 0.0
            return job, rows.cost_of(db, received.run), earlier

        job, before, earlier = await self._runner.store.read(look)
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
            self._runner.rules.is_asked(conversation.key),
            person is not None and person.is_owner,
        )
        surroundings = replace(agent.surroundings, approve=approve, keep_job=None)
        return replace(
            agent,
            model=BudgetedModel(agent.model, budget),
            surroundings=surroundings,
            max_steps=lambda: job.max_steps,
        )

    async def refusal(self, received: Received) -> str:
        """Why a run that waited does not begin; "": it does."""
        run = await self._runner.store.read(lambda db: rows.find_run(db, received.run))
        return "" if run is not None else _("The job was deleted before its turn came.")

    async def answer(
        self, received: Received, reply: Reply, turn: str | None = None, mark: Mark = ""
    ) -> None:
        """Keep what came of a run, in one transaction with its reply."""

        def look(db: Database) -> tuple[RunRow, JobRow] | None:
            run = rows.find_run(db, received.run)
            job = rows.find(db, run.job) if run else None
            return (run, job) if run and job else None

        found = await self._runner.store.read(look)
        if found is None:
            await self._delivery.answer(received, reply, turn)
            return
        run, job = found
        ending = judge(reply, mark)
        after = plan_ended(job, run, ending, self._runner.clock())
        note = describe_run(job, after, run, ending)
        said = replace(reply, text=f"{reply.text}\n\n({note})")

        def also(db: Database, ids: Sequence[int]) -> None:
            rows.end_run(db, run.id, ending.outcome, ending.why, ids)
            if (now := rows.find(db, job.id)) is not None:
                rows.claim(db, now, plan_ended(now, run, ending, self._runner.clock()))

        await self._delivery.answer(received, said, turn, also)
        await self._runner.wake()
        if ending.outcome == "failed" and not after.retry_at:
            sentence = f"Job {job.id} failed: {ending.why}"
            await self._on_failure(job.id, sentence, received.address)


def _approve_granted(job: JobRow, is_asked: bool, may_own: bool) -> Approve:
    """Allows what was granted when the job was made, and asks nobody."""
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
