"""The forecast of when the next turns are removed from a conversation's view, and which; asking
changes nothing."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from memory.context import compaction, emergency
from memory.context.change import Actor, Change
from memory.context.compaction import SummarySpec
from memory.context.forecast import (
    FARTHEST,
    Forecast,
    Preview,
    apply_emergency_steps,
    certain,
    forecast,
    is_far,
    with_question,
)
from memory.context.limits import Limits
from memory.context.meter import PromptPrefix
from memory.context.plan import Plan
from memory.context.strategies import slim
from memory.context.summary import OUT_OF_CONTEXT
from memory.context.summary_writer import SummaryWriter
from memory.context.view import View
from memory.context_state import ContextState

SOFT_MARK = 2
"""A summary is prepared as soon as the next cut is at most so many turns away."""


Pending = Literal["", "coming", "ready"]
"""The state of a summary that is not shown yet: it is still to come, or is there and waits for the
next turn."""


class Forecaster:
    """Asks the strategy in force about the view as it is now, and as it will be; and says whether a
    person is asked first."""

    def __init__(self, state: ContextState, summaries: SummaryWriter) -> None:
        self._state, self._summaries = state, summaries

    @property
    def mode(self) -> str:
        """`context.compaction_approval`: `off`, `show` or `ask`."""
        return self._state.limits_as_set.context.compaction_approval

    def concerns(self, plan: Plan, actor: Actor) -> bool:
        """Return whether this is a cut that the person is asked about. Folds into the log of `slim`
        are none, and neither is what leaves no turn out."""
        if self.mode != "ask" or not plan.leaving or plan.name != "compact":
            return False
        return compaction.style_of(plan, self._state.limits, actor) not in OUT_OF_CONTEXT

    def asks(self, plan: Plan, actor: Actor, view: View | None = None) -> bool:
        """Return whether the person is asked before this is carried out on a view (None: the
        present): what keeps the request below the ceiling waits for nobody."""
        limits = self._state.limits
        is_over = (view or self._state.view(limits=limits)).tokens > limits.ceiling
        return self.concerns(plan, actor) and not is_over

    def due(self, prefix: PromptPrefix | None = None, by_rule: bool = False) -> Plan | None:
        """Return the plan that the strategy in force would carry out before the next step, or as a
        turn begins."""
        limits = self._state.limits
        return self.due_in(self._state.view(prefix, limits), limits, by_rule)

    def due_in(self, view: View, limits: Limits, by_rule: bool = False) -> Plan | None:
        """Return the same of a view that may be another one than the present."""
        return compaction.due(view, limits, self._state.replayed.move, by_rule)

    def forecast(self, within: int = FARTHEST) -> Forecast | None:
        """Forecast the next cut, if it is due within so many turns and no undo holds it off."""
        limits = self._state.limits
        view = self._state.view(limits=limits)
        held = compaction.holds_off(view, limits, self._state.replayed.move)
        return None if held else forecast(view, limits, within)

    async def preview(self) -> Preview:
        """Preview the next request, and what is done for it; nothing is done by asking."""
        state, limits = self._state, self._state.limits
        if not state.current and state.waits_for_strategy:
            then = await state.under_chosen_strategy()
            return await Forecaster(then, self._summaries).preview()
        now = state.view()
        if not state.current:
            now = with_question(await self._with_late(now))
        preview = Preview(now, now)
        if back := self.find_outgrown(limits):
            preview = Preview(now, await state.view_with(back.change, now), (back,))
        preview = apply_emergency_steps(preview, limits, emergency.STEPS[:1])
        by_rule = state.strategy.by_rule and not state.current
        plan = self.due_in(preview.then, limits, by_rule)
        if plan is not None and plan.name == "stub":
            preview = preview.after(plan)
            plan = self.due_in(preview.then, limits, by_rule)
        if plan is not None and not self.asks(plan, "strategy", preview.then):
            summary = self._summaries.find_prepared(self.spec(plan, "strategy"))
            at_hand = await state.snapshot(now) if summary else None
            preface = state.preface_of(summary, at_hand) if summary else None
            preview = preview.after(plan, preface)
        return apply_emergency_steps(preview, limits, emergency.STEPS[1:])

    async def _with_late(self, now: View) -> View:
        """Return the view with the summaries that came late."""
        if not (late := await self.find_late()):
            return now
        layout = now.layout.apply(Change.showing(late))
        texts = await self._state.read_summaries(r.summary for r in layout.ranges if r.summary)
        is_new = layout.preface != now.layout.preface
        preface = await self._state.read_preface(layout.preface) if is_new else now.preface
        return replace(now, layout=layout, summaries=texts, preface=preface)

    def certain_cut(self) -> Plan | None:
        """Return the plan of the next cut, where that is near, and what it removes is known and has
        been said: the plan is made with imagined turns, of which nothing can be summarised. None
        also while an undo holds it off."""
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
        is_held = compaction.holds_off(view, limits, self._state.replayed.move)
        return None if is_held else plan

    def find_outgrown(self, limits: Limits) -> Plan | None:
        """Return the plan that brings back what `slim` has folded by lower settings than are in
        force now. None: there is nothing, or an undo holds it off."""
        state = self._state
        if limits.strategy != "slim":
            return None
        change = slim.outgrown(state.layout, limits)
        if change.is_empty or compaction.is_held(state.view(), limits, state.replayed.move):
            return None
        why = "context.full_turns or context.max_terse_entries was raised"
        return Plan(change, why)

    async def find_pending(self, slot: int | None) -> Pending:
        """Return whether the summary of what this event removed is still to be shown."""
        if slot is None or slot in self._state.layout.texts:
            return ""
        return "ready" if await self._summaries.summary_of(slot) else "coming"

    async def find_late(self) -> dict[int, int]:
        """Return the summaries that came late and are not shown yet, by the events that removed
        their turns."""
        layout = self._state.layout
        slots = (layout.front, *(one.event for one in layout.ranges))
        late = [e for e in slots if e is not None and await self.find_pending(e) == "ready"]
        return {event: await self._summaries.summary_of(event) for event in late}

    def spec(self, plan: Plan, actor: Actor) -> SummarySpec:
        """Return the request for a summary of what this plan removes."""
        state, layout = self._state, self._state.layout
        front = None if plan.change.makes("range") else layout.front  # a range continues none
        leaving, last = frozenset(plan.leaving), max(plan.leaving, default=0)
        read = (turn.entries for turn in reversed(state.whole) if turn.number == last)
        return SummarySpec(
            plan.leaving,
            front or 0,
            plan.focus,
            layout.pinned,
            compaction.style_of(plan, state.limits, actor),
            plan.once,
            tuple((s.event, s.summary) for s in layout.ranges if leaving.issuperset(s.turns)),
            layout.texts[front] if front in layout.edited else 0,
            max((entry.seq for entry in next(read, ())), default=0),
        )
