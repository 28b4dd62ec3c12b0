"""Cuts that wait for a person's word (`context.compaction_approval: ask`)."""

from __future__ import annotations

import logging
import time
from typing import Any

from msgspec.structs import replace

from memory.context import compaction
from memory.context.change import Actor, Change
from memory.context.plan import Plan
from memory.context.strategies import next_cut
from memory.context.summary_writer import SummaryWriter
from memory.context_state import ContextState
from memory.forecaster import Forecaster
from memory.record import proposals, summaries
from memory.record.proposals import Proposal
from memory.record.summaries import Summary
from memory.services import CutNotice, MemoryServices

log = logging.getLogger(__name__)

PATIENCE = 600.0
"""Seconds for which an answer is waited for; then the cut is made."""


class CutApproval:
    """Puts a cut to the person, with the summary that is written for it, and waits. Meanwhile turns
    go on uncut. What the person sees is what is done: the same turns, the same summary. It is on
    disk, so that it waits through a restart, and is asked once."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        summaries: SummaryWriter,
        forecaster: Forecaster,
    ) -> None:
        self._services, self._state = services, state
        self._summaries, self._forecaster = summaries, forecaster
        self.clock = time.time
        self._pending: Proposal | None = None
        self.answered: set[int] = set()  # events of which the person knows

    def load(self, pending: Proposal | None) -> None:
        """Begin with what is on disk; what was not asked yet is asked."""
        self._pending = pending
        if pending is None or pending.asked_at:
            return
        if self.current is not None:
            self._begin(pending)
        else:
            self._pending = None  # it was never asked, so nothing would ever end it

    @property
    def current(self) -> Proposal | None:
        """The cut that waits; None where none does, or it can't be made any more as it was put."""
        pending = self._pending
        is_good = pending is not None and self._forecaster.mode == "ask" and self._is_valid(pending)
        return pending if is_good else None

    def _is_valid(self, proposal: Proposal) -> bool:
        """Return whether nothing has happened to the context that the question did not speak of."""
        state, plan = self._state, proposal.plan
        limits, view = state.limits, state.view()
        is_wanted = plan.strategy == limits.strategy and next_cut(view, limits) is not None
        if proposal.actor == "strategy" and not is_wanted:
            return False  # turns were taken back, say, or a limit was raised
        there = {turn.number for turn in view.complete} | {*view.logged}
        there.update(turn for one in view.layout.ranges for turn in one.turns)
        return (
            there.issuperset(plan.leaving)
            and self._forecaster.spec(plan, proposal.actor) == proposal.spec
            and not compaction.is_held(view, limits, state.replayed.move)
        )

    def is_due(self, proposal: Proposal) -> bool:
        """Return whether a cut waits no longer: nobody has answered, or the window is full."""
        limits = self._state.limits
        has_waited = self.clock() - proposal.asked_at >= PATIENCE
        is_unanswered = proposal.asked_at > 0 and has_waited
        return is_unanswered or self._state.view(limits=limits).tokens > limits.ceiling

    async def put(self, plan: Plan, actor: Actor) -> None:
        """Have the summary of a cut written, and ask."""
        plan = replace(plan, strategy=plan.strategy or self._state.limits.strategy)
        await self._keep(Proposal(plan, actor, self._forecaster.spec(plan, actor)))
        if self._pending is not None:
            self._begin(self._pending)

    def _begin(self, proposal: Proposal) -> None:
        self._summaries.write_for(proposal.spec, lambda made: self._ask(proposal, made))

    async def _ask(self, proposal: Proposal, summary: Summary) -> None:
        if self._pending != proposal:
            return  # it has been settled meanwhile
        if self.current is None:
            await self.drop()  # what nobody was asked about can't wait for an answer
            return
        await self._keep(replace(proposal, summary=summary.id, asked_at=self.clock()))
        await self._services.on_cut(self._state.key, await self._to_notice(proposal.plan, summary))

    async def notice(self) -> CutNotice | None:
        """Return the notice of the cut that waits, as the person was asked; None where none does,
        or is not asked yet."""
        proposal = self.current
        if proposal is None or not proposal.summary:
            return None
        summary = await self._summaries.read(proposal.summary)
        return None if summary is None else await self._to_notice(proposal.plan, summary)

    async def _to_notice(self, plan: Plan, summary: Summary) -> CutNotice:
        """Return the question, with the size that the context will have once the summary stands
        there."""
        view = self._state.view()
        preface = self._state.preface_of(summary, await self._state.snapshot(view))
        after = replace(view.apply(plan.change), preface=preface).tokens
        return CutNotice(summary, plan.leaving, plan.why, view.tokens, after)

    async def edit(self, proposal: Proposal, made: Summary) -> Summary:
        """Let a summary that a person wrote be the one that a cut brings; return it as it is on
        disk, with the proposal."""
        row = self._state.row

        def keep(db: Any) -> tuple[Summary, Proposal]:
            summary = summaries.insert_summary(db, row, made)
            changed = replace(proposal, summary=summary.id)
            proposals.save(db, row, changed)
            return summary, changed

        summary, self._pending = await self._services.store.write(keep)
        return summary

    async def make_ready(self, proposal: Proposal) -> Summary | None:
        """Let the summary that the person has seen be the one that stands there."""
        if not proposal.summary:
            return None
        summary = await self._summaries.read(proposal.summary)
        if summary is not None:
            self._summaries.written_ahead = (proposal.spec, summary)
        return summary

    async def decline(self) -> None:
        """Note that the person said no: cuts are held off, as by an undo."""
        state, proposal = self._state, self._pending
        await self.drop()  # first: a crash in between has the person asked again, and cuts nothing
        view, limits = state.view(), state.limits
        why = f"declined a compaction ({proposal.plan.why})" if proposal else "declined"
        plan = Plan(Change(), why, tokens_after=view.tokens)
        await state.record(compaction.event_of(plan, view, limits, "person", "hold"))

    async def drop(self) -> None:
        """Nothing waits any more."""
        if self._pending is None:
            return
        self._pending = None
        row = self._state.row
        await self._services.store.write(lambda db: proposals.delete(db, row))

    async def _keep(self, proposal: Proposal) -> None:
        row = self._state.row
        await self._services.store.write(lambda db: proposals.save(db, row, proposal))
        self._pending = proposal
