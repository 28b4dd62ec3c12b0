"""The work that is due between turns, before the next one begins, so that no request of a running
turn is rewritten; and the note of a changed prompt, also within a turn."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from memory.context import compaction
from memory.context.change import Change, ViewEvent
from memory.context.limits import Limits
from memory.context.meter import PromptFingerprint, PromptPrefix, describe_change, fingerprint
from memory.context.plan import Plan
from memory.context.summary_writer import SummaryWriter
from memory.context_state import ContextState
from memory.forecaster import Forecaster
from memory.record import conversations, transcript
from memory.services import MemoryServices
from memory.turns import format_turns


class BetweenTurns:
    """A changed strategy, a changed prompt and late summaries, each as an event."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        forecaster: Forecaster,
        summaries: SummaryWriter,
    ) -> None:
        self._services, self._state = services, state
        self._forecaster, self._summaries = forecaster, summaries
        self.load({})

    def load(self, fingerprint: PromptFingerprint) -> None:
        """Begin with what stood before the conversation in its last request."""
        self._fingerprint = fingerprint
        self._fingerprint_of: PromptPrefix | None = None

    async def settle(self) -> None:
        """Do what is due."""
        if self._state.waits_for_strategy:
            await self._switch(self._state.limits_as_set.strategy)
        await self.note_changed_prompt(self._state.prefix, self._state.limits)
        await self._show_late()

    async def _switch(self, strategy: str) -> None:
        """Plan by another strategy from now on, over all that the others leave in context."""
        state = self._state
        limits = state.limits
        if strategy == limits.strategy:
            return
        before = state.view()
        await state.switch(strategy, await state.history())
        why = f"the strategy was changed from {limits.strategy} to {strategy}"
        plan = Plan(Change(), why, tokens_after=state.view().tokens)
        event = compaction.event_of(plan, before, state.limits, "person", "setting")
        await state.store(state.count_broken(event, before))

    async def note_changed_prompt(self, prefix: PromptPrefix, limits: Limits) -> None:
        """Record that something else stands before the conversation than in its last request."""
        state = self._state
        if prefix is self._fingerprint_of and limits.model == self._fingerprint.get("model"):
            return  # nearly always: a prefix is made anew only where something has changed
        now = fingerprint(prefix, limits.model)
        if now != self._fingerprint:
            view = state.view(limits=limits)
            why = describe_change(self._fingerprint, now)
            plan = Plan(Change(), why, tokens_after=view.tokens)
            event = compaction.event_of(plan, view, limits, "person", "prompt")
            event = state.count_ahead(event)
            await self._keep_fingerprint(now, event if why else None)
        self._fingerprint, self._fingerprint_of = now, prefix

    async def _keep_fingerprint(self, now: PromptFingerprint, event: ViewEvent | None) -> None:
        row = self._state.row

        def keep(db: Any) -> int:
            conversations.keep_fingerprint(db, row, now)
            return transcript.insert_event(db, row, event) if event is not None else 0

        stored = await self._services.store.write(keep, is_synced=False)
        self._state.last_event = max(stored, self._state.last_event)

    async def _show_late(self) -> None:
        """Show the summaries that came late, and a reference to what left; between turns only, so
        that no request of a running turn is rewritten."""
        state, late = self._state, await self._forecaster.find_late()
        layout = state.replayed.layout
        front = layout.front
        kept = self._new_reference(is_late=front in late)
        if not kept and not late:
            return
        ranges = sorted(turn for one in layout.ranges if one.event in late for turn in one.turns)
        why = "what left is kept elsewhere now"
        if late:
            why = f"the summary of {format_turns(ranges)} is ready"
        if front in late:
            why = "the summary of the compaction is ready"
        await state.record(
            ViewEvent(
                at=datetime.now(UTC),
                kind="text",
                actor="person",
                strategy=state.limits.strategy,
                reason=why,
                change=Change.showing(late, front or 0, kept or None),
                turn=state.newest,
            )
        )

    def _new_reference(self, *, is_late: bool) -> str:
        """Return the reference to what left, where the model does not know it, and something stands
        for what left."""
        kept = self._summaries.reference
        if not kept or kept == self._state.layout.reference:
            return ""
        return kept if is_late or self._state.view().front else ""
