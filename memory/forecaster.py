"""The forecast of the next removal of turns from a conversation's view, without side effects.

Also the compactions that wait for a person's approval (`context.compaction_approval: ask`).
"""

from __future__ import annotations

import logging
import time
from typing import Literal

from msgspec.structs import replace

from memory.context import emergency
from memory.context.change import Actor, Change, ViewEvent
from memory.context.forecast import (
    Preview,
    apply_emergency_steps,
    certain,
    forecast,
    is_far,
    with_question,
)
from memory.context.plan import Plan, SummarySpec
from memory.context.settings import Limits
from memory.context.strategies import STRATEGIES, next_cut, next_plan, slim, style_of
from memory.context.summary import OUT_OF_CONTEXT
from memory.context.view import View
from memory.context_state import ContextState
from memory.record import proposals, summaries
from memory.record.database import Database
from memory.record.proposals import Proposal
from memory.record.summaries import Summary
from memory.services import CutNotice, MemoryServices
from memory.summary.writer import SummaryWriter

HELD_TURNS = 5
HELD_GROWTH = 1.2
"""After an undo, automatic compaction waits for 5 turns, a fifth more tokens, or the ceiling."""
SOFT_MARK = 2
"""A summary is prepared as soon as the next compaction is at most this many turns away."""


Pending = Literal["", "coming", "ready"]
"""The state of a summary that is not shown yet: it is being written, or is written and waits for
the next turn."""


def hold_limit(move: ViewEvent, view: View) -> int:
    """Return the tokens of a view at which a person's change no longer holds compactions off. Both
    are of the view's own scale, since a later report or another model may count differently from
    the one at the time of the change."""
    since = sum(turn.tokens for turn in view.turns if turn.number > move.turn)
    return view.scale.tokens(round((view.raw_tokens - since) * HELD_GROWTH))


class Forecaster:
    """The forecaster: it applies the strategy in force to the present and to future views, and
    decides whether a person is asked first."""

    def __init__(self, state: ContextState, summaries: SummaryWriter) -> None:
        self._state, self._summaries = state, summaries

    @property
    def mode(self) -> str:
        """`context.compaction_approval`: `off`, `show` or `ask`."""
        return self._state.limits_as_set.context.compaction_approval

    def concerns(self, plan: Plan, actor: Actor) -> bool:
        """Return whether a compaction needs a person's approval. Folding into the log of `slim`
        does not, nor does a change that removes no turn."""
        if self.mode != "ask" or not plan.leaving or plan.name != "compact":
            return False
        return style_of(plan, self._state.limits, actor) not in OUT_OF_CONTEXT

    def asks(self, plan: Plan, actor: Actor, view: View | None = None) -> bool:
        """Return whether the person is asked before a plan is carried out on a view (None: the
        present one). A plan that is needed to stay below the ceiling does not wait."""
        limits = self._state.limits
        is_over = (view or self._state.view(limits=limits)).tokens > limits.ceiling
        return self.concerns(plan, actor) and not is_over

    def due(self, by_rule: bool = False) -> Plan | None:
        """Return the plan that the strategy in force would carry out before the next step, or at
        the beginning of a turn."""
        limits = self._state.limits
        return self.due_in(self._state.view(limits=limits), limits, by_rule)

    def due_in(self, view: View, limits: Limits, by_rule: bool = False) -> Plan | None:
        """Return the same of a view that may be another one than the present. None, too, while an
        undo holds it off."""
        is_now = STRATEGIES[limits.strategy].by_rule == by_rule
        return next_plan(view, limits) if is_now and not self.is_held(view, limits) else None

    def is_held(self, view: View, limits: Limits) -> bool:
        """Return whether a person has just taken a cut back, said no to one, or opened a summary,
        so that none is made for a while."""
        move = self._state.replayed.move
        if move is None or move.actor != "person" or not view.turns:
            return False
        if move.name not in ("undo", "hold", "expand"):
            return False
        return (
            view.turns[-1].number - move.turn < HELD_TURNS
            and view.tokens < hold_limit(move, view)
            and view.tokens <= limits.ceiling
        )

    def holds_off(self, view: View | None = None) -> bool:
        """Return whether a cut of a view (None: the present) is held off that would otherwise come
        while that lasts."""
        move, limits = self._state.replayed.move, self._state.limits
        view = view or self._state.view(limits=limits)
        if move is None or not self.is_held(view, limits):
            return False
        left = move.turn + HELD_TURNS - view.turns[-1].number
        return forecast(view, limits, left) is not None

    def forecast(self) -> Preview | None:
        """Forecast the next cut, if no undo holds it off."""
        limits = self._state.limits
        view = self._state.view(limits=limits)
        return None if self.holds_off(view) else forecast(view, limits)

    async def preview(self) -> Preview:
        """Preview the next request, and the changes made for it, without making them."""
        state, limits = self._state, self._state.limits
        if not state.current and state.waits_for_strategy:
            then = await state.under(state.limits_as_set.strategy)
            return await Forecaster(then, self._summaries).preview()
        now = state.view()
        if not state.current:
            now = with_question(await self._with_late(now))
        preview = Preview(now, now)
        if back := self.plan_unfold(limits):
            preview = Preview(now, await state.view_with(back.change, now), (back,))
        preview = apply_emergency_steps(preview, limits, emergency.STEPS[:1])
        by_rule = state.strategy.by_rule and not state.current
        plan = self.due_in(preview.then, limits, by_rule)
        if plan is not None and plan.name == "stub":
            preview = preview.after(plan)
            plan = self.due_in(preview.then, limits, by_rule)
        if plan is not None and not self.asks(plan, "strategy", preview.then):
            summary = self._summaries.find_prepared(self.spec(plan, "strategy"))
            preview = preview.after(plan)
            if summary is not None:
                shown = await state.with_summary(preview.then, summary, await state.snapshot(now))
                preview = replace(preview, then=shown, is_ready=True)
        return apply_emergency_steps(preview, limits, emergency.STEPS[1:])

    async def _with_late(self, now: View) -> View:
        if not (late := await self.find_late_summaries()):
            return now
        layout = now.layout.apply(Change.showing(late))
        texts = await self._state.read_texts(layout, now.layout)
        return replace(now, layout=layout, **texts)

    def certain_cut(self) -> Plan | None:
        """Return the plan of the next compaction, if that is near, and the turns that it removes
        are certain and exist already: the plan is made with simulated turns, which can't be
        summarised. Return None, too, while an undo holds it off."""
        limits = self._state.limits
        view = self._state.view(self._state.prefix_sent, limits)
        if is_far(view, limits, SOFT_MARK):
            return None
        plan = certain(view, limits, SOFT_MARK)
        if plan is None or not plan.leaving or plan.name == "fold":
            return None
        is_running = {turn.number for turn in view.turns} - {t.number for t in view.complete}
        if max(plan.leaving) > view.newest or not is_running.isdisjoint(plan.leaving):
            return None
        return None if self.holds_off(view) else plan

    def plan_unfold(self, limits: Limits) -> Plan | None:
        """Return the plan that restores turns which `slim` has folded with lower settings than
        those in force. None: there are none, or an undo holds it off."""
        state = self._state
        if limits.strategy != "slim":
            return None
        change = slim.outgrown(state.layout, limits)
        if change.is_empty or self.is_held(state.view(), limits):
            return None
        why = "context.full_turns or context.max_terse_entries was raised"
        return Plan(change, why)

    async def find_pending(self, slot: int | None) -> Pending:
        """Return whether the summary of the turns that this event removed is still to be shown."""
        if slot is None or slot in self._state.layout.texts:
            return ""
        return "ready" if await self._summaries.summary_of(slot) else "coming"

    async def find_late_summaries(self) -> dict[int, int]:
        """Return the late summaries that are not shown yet, by the events that removed their
        turns."""
        layout = self._state.replayed.layout
        if layout.front is None and not layout.ranges:
            return {}  # the usual case
        slots = {layout.front, *(one.event for one in layout.ranges)} - {None, *layout.texts}
        made = {event: await self._summaries.summary_of(event) for event in filter(None, slots)}
        return {event: summary for event, summary in made.items() if summary}

    def spec(self, plan: Plan, actor: Actor) -> SummarySpec:
        """Return the specification of a summary of the turns that this plan removes."""
        state, layout = self._state, self._state.layout
        front = None if plan.change.makes("range") else layout.front  # a range continues none
        leaving, last = frozenset(plan.leaving), max(plan.leaving, default=0)
        read = (turn.entries for turn in reversed(state.whole) if turn.number == last)
        return SummarySpec(
            plan.leaving,
            front or 0,
            plan.focus,
            layout.pinned,
            style_of(plan, state.limits, actor),
            plan.once,
            tuple((s.event, s.summary) for s in layout.ranges if leaving.issuperset(s.turns)),
            layout.texts[front] if front in layout.edited else 0,
            max((entry.seq for entry in next(read, ())), default=0),
        )


log = logging.getLogger(__name__)

PATIENCE = 600.0
"""The seconds to wait for an answer; then the compaction is made."""


class CutApproval:
    """The approval of compactions: it presents a compaction to the person, with its prepared
    summary, and waits. Meanwhile turns continue without it. Exactly what the person sees is carried
    out: the same turns, the same summary. It is on disk, so that it survives a restart, and the
    person is asked once."""

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

    def load(self, pending: Proposal | None) -> None:
        """Load the stored proposal; ask if the person was not asked yet."""
        self._pending = pending
        if pending is None or pending.asked_at:
            return
        if self.current is not None:
            self._begin(pending)
        else:
            self._pending = None  # it was never asked, so nothing would ever end it

    @property
    def current(self) -> Proposal | None:
        """The waiting compaction; None if there is none, or if it can't be made any more as
        presented."""
        pending = self._pending
        is_good = pending is not None and self._forecaster.mode == "ask" and self._is_valid(pending)
        return pending if is_good else None

    def _is_valid(self, proposal: Proposal) -> bool:
        """Return whether the context has no changes that affect the proposal."""
        state, plan = self._state, proposal.plan
        limits, view = state.limits, state.view()
        is_needed = plan.strategy == limits.strategy and next_cut(view, limits) is not None
        if proposal.actor == "strategy" and not is_needed:
            return False  # turns were removed, for example, or a limit was raised
        there = {turn.number for turn in view.complete} | {*view.logged}
        there.update(turn for one in view.layout.ranges for turn in one.turns)
        return (
            there.issuperset(plan.leaving)
            and self._forecaster.spec(plan, proposal.actor) == proposal.spec
            and not self._forecaster.is_held(view, limits)
        )

    def due_reason(self, proposal: Proposal) -> str:
        """Return why a cut waits no longer; "" where it does."""
        limits = self._state.limits
        if 0 < proposal.asked_at <= self.clock() - PATIENCE:
            return "nobody answered in ten minutes"
        is_full = self._state.view(limits=limits).tokens > limits.ceiling
        return "the window is full" if is_full else ""

    async def put(self, plan: Plan, actor: Actor) -> None:
        """Start the summary of a compaction, then ask."""
        plan = replace(plan, strategy=plan.strategy or self._state.limits.strategy)
        await self._keep(Proposal(plan, actor, self._forecaster.spec(plan, actor)))
        if self._pending is not None:
            self._begin(self._pending)

    def _begin(self, proposal: Proposal) -> None:
        self._summaries.write_for(proposal.spec, lambda made: self._ask(proposal, made))

    async def _ask(self, proposal: Proposal, summary: Summary) -> None:
        if self._pending != proposal:
            return  # it was settled meanwhile
        if self.current is None:
            await self.drop()  # the person was not asked, so no answer will come
            return
        await self._keep(replace(proposal, summary=summary.id, asked_at=self.clock()))
        await self._services.on_cut(self._state.key, await self._to_notice(proposal.plan, summary))

    async def notice(self) -> CutNotice | None:
        """Return the notice of the waiting compaction, as shown to the person; None if there is
        none, or if it is not shown yet."""
        proposal = self.current
        if proposal is None or not proposal.summary:
            return None
        summary = await self._summaries.read(proposal.summary)
        return None if summary is None else await self._to_notice(proposal.plan, summary)

    async def _to_notice(self, plan: Plan, summary: Summary) -> CutNotice:
        """Return the notice, with the size of the context once the summary is in it."""
        view = self._state.view()
        snapshot = await self._state.snapshot(view)
        after = await self._state.with_summary(view.apply(plan.change), summary, snapshot)
        return CutNotice(summary, plan.leaving, plan.why, view.tokens, after.tokens)

    async def edit(self, proposal: Proposal, made: Summary) -> Summary:
        """Use a person's summary for a compaction; return it as stored, with the proposal."""

        def keep(db: Database, row: int) -> tuple[Summary, Proposal]:
            summary = summaries.insert_summary(db, row, made)
            changed = replace(proposal, summary=summary.id)
            proposals.save(db, row, changed)
            return summary, changed

        summary, self._pending = await self._state.write(keep)
        return summary

    async def decline(self) -> None:
        """Record that the person declined: compactions are held off, as by an undo."""
        state, proposal = self._state, self._pending
        await self.drop()  # first: after a crash in between, the person is asked again
        view = state.view()
        why = f"declined a compaction ({proposal.plan.why})" if proposal else "declined"
        await state.record(state.event(Plan(Change(), why), view, view.tokens, kind="hold"))

    async def drop(self) -> None:
        """Delete the waiting compaction."""
        if self._pending is None:
            return
        self._pending = None
        await self._state.write(proposals.delete)

    async def _keep(self, proposal: Proposal) -> None:
        await self._state.write(proposals.save, proposal)
        self._pending = proposal
