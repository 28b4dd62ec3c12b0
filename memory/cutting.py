"""What the strategy in force does to the view: planned, foreseen, carried out, with its summary."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from memory.context import compaction, emergency
from memory.context.change import Actor, Change, ViewEvent
from memory.context.compaction import Wanted
from memory.context.forecast import FARTHEST, Forecast, forecast
from memory.context.framing import Framing, changed, framing
from memory.context.meter import Frame
from memory.context.plan import Plan
from memory.context.preview import Preview, climbed, with_question
from memory.context.summary import Style
from memory.context.view import View
from memory.events import Event
from memory.record import transcript
from memory.record.summaries import Job
from memory.stage import Keepsake, Stage

log = logging.getLogger(__name__)

SOFT_MARK = 2
"""A summary is prepared as soon as the next cut is at most so many turns away."""


class Cutting(Stage):
    """A stage from which turns leave, for a summary."""

    async def restore(self, is_restart: bool, keepsake: Keepsake | None = None) -> None:
        """Read what is on disk, as a restart restores it, and take up what was left undone."""
        await self._read_all()
        if keepsake is not None:
            self._anchor = keepsake.anchor
            self._is_in_session = keepsake.is_in_session
            self.scribe.remember(keepsake.prepared)
        if is_restart:
            await self._restart()

    def due(self, frame: Frame | None = None, by_rule: bool = False) -> Plan | None:
        """What the strategy in force would do before the next step, or as a turn begins."""
        limits = self.limits
        return compaction.due(self.view(frame, limits), limits, self._outcome.move, by_rule)

    def forecast(self, within: int = FARTHEST) -> Forecast | None:
        """When the next cut comes, if it is due within so many turns and no undo holds it off."""
        limits = self.limits
        view = self.view(limits=limits)
        held = compaction.holds_off(view, limits, self._outcome.move)
        return None if held else forecast(view, limits, within)

    async def preview(self) -> Preview:
        """What the next request will hold, and what is done for that; nothing is done by it."""
        limits, now = self.limits, self.view()
        if not self._current:
            late = await self._late()
            preface = await self._read_preface(late[1]) if late else now.preface
            now = with_question(now, preface)
        preview = climbed(Preview(now, now), limits, emergency.STEPS[:1])
        by_rule = self.strategy.by_rule and not self._current
        plan = compaction.due(preview.then, limits, self._outcome.move, by_rule)
        if plan is not None:
            summary = self.scribe.prepared(self._wanted_for(plan))
            preface = self._as_preface(summary, self._snapshot(now)) if summary else None
            preview = preview.after(plan, preface)
        return climbed(preview, limits, emergency.STEPS[1:])

    async def _restart(self) -> None:
        limits = self.limits
        if limits.strategy != "trim" or self._room.restores_exactly():
            return
        plan = compaction.restart(self.view(limits=limits), limits)
        if plan is not None:
            await self._cut(plan, "restart")

    async def _switch(self, strategy: str) -> None:
        """Plan by another strategy from now on, over all that the others leave in play."""
        if strategy == self._strategy:
            return
        events, before = await self.history(), self.view()
        why = f"the strategy was changed from {self._strategy} to {strategy}"
        self._strategy = strategy
        await self._reload(events)
        self._preface = await self._read_preface(self._boundaries.preface)
        plan = Plan(Change(), why, tokens_after=self.view().tokens, kind="rebase")
        await self._store_event(self._event(plan, before, "person"))

    async def _reframe(self) -> None:
        """Record that something else stands before the conversation than in its last request."""
        limits, frame = self.limits, self.frame
        if frame is self._framed_by and limits.model == self._framing.get("model"):
            return  # nearly always: a frame is made anew only where something has changed
        now = framing(frame, limits.model)
        if now != self._framing:
            view = self.view(limits=limits)
            why = changed(self._framing, now)
            plan = Plan(Change(), why, tokens_after=view.tokens, kind="reframe")
            await self._keep_framing(now, self._event(plan, view, "person") if why else None)
        self._framing, self._framed_by = now, frame

    async def _keep_framing(self, now: Framing, event: ViewEvent | None) -> None:
        def keep(db: Any) -> None:
            transcript.keep_framing(db, self._row, now)
            if event is not None:
                transcript.insert_event(db, self._row, event)

        await self._room.store.write(keep, is_synced=False)

    async def _cut(
        self, plan: Plan, actor: Actor = "strategy", wanted: Wanted | None = None
    ) -> ViewEvent:
        """Carry a plan out. What leaves by it is on its way to the daily memory; a summary that
        was prepared for exactly this stands in the very next request."""
        view = self.view()
        change = await compaction.measured(plan.change, view, self._room.meter)
        if not plan.leaving:
            return await self._carry_out(self._event(replace(plan, change=change), view, actor))
        wanted = wanted or self._wanted_for(plan, actor)
        ready = self.scribe.prepared(wanted)
        if ready is not None and wanted.style != "lines":
            change = replace(change, preface=ready.id)
        summary = ready.id if ready else 0
        job = Job(0, wanted.turns, wanted.after, wanted.focus, wanted.style, summary)
        event = self._event(replace(plan, change=change), view, actor)
        return await self._carry_out(replace(event, snapshot=self._snapshot(view)), job)

    def _event(self, plan: Plan, view: View, actor: Actor) -> ViewEvent:
        return compaction.event_of(plan, view, self.limits, actor)

    def _wanted_for(self, plan: Plan, actor: Actor = "strategy") -> Wanted:
        return self._wanted(plan.leaving, compaction.style_of(plan, self.limits, actor))

    def _wanted(self, turns: tuple[int, ...], style: Style, focus: str = "") -> Wanted:
        before = self._outcome.cut
        return Wanted(turns, before.id if before else 0, focus, self._boundaries.pinned, style)

    async def _is_vetoed(self, plan: Plan) -> bool:
        """Whether a listener holds this compaction off."""
        event = Event("pre_compact", self, self._current, plan.why)
        verdict = await self._room.events.emit(event)
        self._is_held_off = bool(verdict.veto)
        if verdict.veto:
            log.info("%s: not compacted: %s", self.key.id, verdict.veto)
        return self._is_held_off

    async def _late(self) -> tuple[ViewEvent, int] | None:
        """The last cut and its summary, if that came after the cut and is not in front yet."""
        cut = self._outcome.cut
        if cut is None or self._outcome.is_injected:
            return None
        summary = await self.scribe.summary_of(cut.id)
        return (cut, summary) if summary and summary != self._boundaries.preface else None

    async def _inject(self) -> None:
        """Put a late summary in front; between turns only, so that no request of a running turn
        is rewritten."""
        if (late := await self._late()) is None:
            return
        cut, summary = late
        change = Change(preface=summary, target=cut.id)
        await self._carry_out(
            ViewEvent(
                at=datetime.now(UTC),
                kind="inject",
                actor=cut.actor,
                strategy=cut.strategy,
                reason="the summary of the cut is ready",
                change=change,
                turn=self._last_turn,
            )
        )

    def _prepare(self) -> None:
        """Have the summary of the next cut written when that is near. One that a listener has held
        off may never come; a summary before each turn would be money for nothing."""
        if self._is_held_off:
            return
        near = self.forecast(SOFT_MARK)
        if near and near.plan.leaving and near.plan.kind != "fold":
            self.scribe.prepare(self._wanted_for(near.plan))
