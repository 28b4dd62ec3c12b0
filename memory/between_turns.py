"""The work that is due between turns, before the next one begins, so that no request of a running
turn is rewritten."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace

from memory.context import compaction
from memory.context.change import Change, ViewEvent
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
            await self._switch(self._services.limits_for(self._state.key).strategy)
        await self._note_changed_prompt()
        await self._inject()
        await self._inject_stand_ins()

    async def _switch(self, strategy: str) -> None:
        """Plan by another strategy from now on, over all that the others leave in context."""
        state = self._state
        limits = state.limits
        if strategy == limits.strategy:
            return
        before = state.view()
        await state.switch(strategy, await state.history())
        why = f"the strategy was changed from {limits.strategy} to {strategy}"
        plan = Plan(Change(), why, tokens_after=state.view().tokens, kind="rebase")
        await state.store(
            state.count_broken(compaction.event_of(plan, before, state.limits, "person"), before)
        )

    async def _note_changed_prompt(self) -> None:
        """Record that something else stands before the conversation than in its last request."""
        state, limits, prefix = self._state, self._state.limits, self._state.prefix
        if prefix is self._fingerprint_of and limits.model == self._fingerprint.get("model"):
            return  # nearly always: a prefix is made anew only where something has changed
        now = fingerprint(prefix, limits.model)
        if now != self._fingerprint:
            view = state.view(limits=limits)
            why = describe_change(self._fingerprint, now)
            plan = Plan(Change(), why, tokens_after=view.tokens, kind="reframe")
            event = state.count_ahead(compaction.event_of(plan, view, limits, "person"))
            await self._keep_fingerprint(now, event if why else None)
        self._fingerprint, self._fingerprint_of = now, prefix

    async def _keep_fingerprint(self, now: PromptFingerprint, event: ViewEvent | None) -> None:
        row = self._state.row

        def keep(db: Any) -> None:
            conversations.keep_fingerprint(db, row, now)
            if event is not None:
                transcript.insert_event(db, row, event)

        await self._services.store.write(keep, is_synced=False)

    async def _inject(self) -> None:
        """Put a late summary in front, and a reference to what left beside it; between turns only,
        so that no request of a running turn is rewritten."""
        late, cut = await self._forecaster.find_late(), self._state.replayed.cut
        kept, summary = self._new_reference(is_late=late is not None), late[1] if late else 0
        if not kept and not summary:
            return
        why = "the summary of the cut is ready" if summary else "what left is kept elsewhere now"
        await self._state.record(
            ViewEvent(
                at=datetime.now(UTC),
                kind="inject",
                actor=cut.actor if cut else "person",
                strategy=cut.strategy if cut else self._state.limits.strategy,
                reason=why,
                change=Change(preface=summary, reference=kept, target=cut.id if cut else 0),
                turn=self._state.newest,
            )
        )

    async def _inject_stand_ins(self) -> None:
        """Put late summaries where their turns stood."""
        for one in await self._forecaster.find_late_stand_ins():
            await self._state.record(
                ViewEvent(
                    at=datetime.now(UTC),
                    kind="inject",
                    actor="person",
                    strategy=self._state.limits.strategy,
                    reason=f"the summary of {format_turns(one.turns)} is ready",
                    change=Change(stand_in=replace(one, turns=(), seq=0), target=one.event),
                    turn=self._state.newest,
                )
            )

    def _new_reference(self, *, is_late: bool) -> str:
        """Return the reference to what left, where the model does not know it, and something stands
        for what left."""
        kept = self._summaries.reference
        if not kept or kept == self._state.boundaries.reference:
            return ""
        return kept if is_late or self._state.view().front else ""
