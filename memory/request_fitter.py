"""Requests that fit: what the strategy wants is done before each step, and in an emergency the
ladder is climbed; and the work that is due between turns, so that no request of a running turn is
rewritten."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.calibration import Calibration
from memory.compactor import Compactor
from memory.context import emergency
from memory.context.change import Change
from memory.context.layout import undoable
from memory.context.meter import PromptFingerprint, PromptPrefix, describe_change, fingerprint
from memory.context.plan import Plan, frees_enough
from memory.context.settings import Limits
from memory.context.strategies import slim
from memory.context.view import View
from memory.context_state import ContextState
from memory.record import conversations, transcript
from memory.record.summaries import Job
from memory.services import MemoryServices
from memory.turns import format_turns

_SHARES = (1 / 2, 1 / 8)
"""The parts of the running turn that are tried if the window that it exceeds is unknown."""


class Overflow(Struct, frozen=True):
    """The provider refused a request as longer than its `window` in tokens (0: not named).
    `is_own`: it is the model's own, not that of a fallback model. Without `is_sure`, the error may
    have another meaning."""

    window: int = 0
    is_own: bool = True
    is_sure: bool = True

    @property
    def why(self) -> str:
        """The reason in the events of its steps."""
        if not self.is_sure:
            return emergency.DOUBTED
        return emergency.REASON if self.is_own else emergency.OF_FALLBACK


class RequestFitter:
    """The fitting of requests to the window: the running turn asks it before each request, and
    after one that was refused. A changed prompt becomes an event before the request, a changed
    strategy and late summaries between turns."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        calibration: Calibration,
        compactor: Compactor,
    ) -> None:
        self._services, self._state, self._calibration = services, state, calibration
        self._compactor, self._forecaster = compactor, compactor.forecaster
        self._emergency_in = 0  # the newest turn with a step of the ladder
        self._refused = (0, 0)  # the newest turn in which a refusal named a window, and the window
        # The newest entry as a turn was shortened blindly, and how often.
        self._shortened = (0, 0)
        self._looked_in = 0  # the turn in which all that was removed for a fallback was restored
        self.load({})

    def load(self, fingerprint: PromptFingerprint) -> None:
        """Begin with what stood before the conversation in its last request."""
        self._fingerprint = fingerprint
        self._fingerprint_of: PromptPrefix | None = None

    async def fit(self, prefix: PromptPrefix) -> tuple[View, Limits]:
        """Make the compaction of the strategy in force, keep the request below the ceiling, and
        return the resulting view and the limits of this step. A turn that is as long as one that
        the model has refused, for an unknown window, is shortened at once. Raises NoRoom."""
        view, limits = await self._fit(prefix)
        known = self._calibration.find_refused(view, limits.model)
        if known is None:
            return view, limits  # the usual case
        tighter = limits.but(window=known.target, output_reserved=0)
        return await self._run_ladder(prefix, tighter, emergency.STEPS[:1]), limits

    async def _fit(self, prefix: PromptPrefix) -> tuple[View, Limits]:
        state = self._state
        state.prefix_sent = prefix
        limits = state.limits
        await self._note_changed_prompt(prefix, limits)
        view = await self._run_ladder(prefix, limits, emergency.STEPS[:1], is_first=True)
        if limits.strategy == "slim":
            await self._unfold(prefix, limits)
            view = state.view(prefix, limits)
        settled = await self._compactor.resolve_proposal()
        now = state.limits
        if settled is not None or now is not limits:  # or a limit was changed meanwhile
            limits, view = now, state.view(prefix, now)
        if self._forecaster.due_in(view, limits) is not None:
            await self._compactor.compact_as_due(
                self._forecaster.due_in, wait=state.strategy.waits, prefix=prefix
            )
        elif view.tokens <= limits.ceiling:
            return view, limits  # the usual case
        limits = state.limits
        return await self._run_ladder(prefix, limits, emergency.STEPS[1:]), limits

    async def _unfold(self, prefix: PromptPrefix, limits: Limits) -> None:
        """Restore turns that `slim` has folded with lower settings than those in force; one event
        records the result."""
        state = self._state
        if self._forecaster.plan_unfold(limits) is None:
            return
        async with state.changing:
            if (back := self._forecaster.plan_unfold(limits)) is None:
                return
            before = state.view(prefix, limits)
            now = await state.view_with(back.change, before)
            again = slim.plan(now, limits) or Plan(Change(), back.why)
            change = back.change.combine(again.change)
            size = now.apply(again.change).tokens
            done = Plan(change, back.why, again.leaving)
            event = state.event(done, before, size, "strategy", "setting")
            spec = self._forecaster.spec(again, "strategy")
            await self._compactor.record(event, Job(0, spec) if again.leaving else None)

    async def _run_ladder(
        self,
        prefix: PromptPrefix,
        limits: Limits,
        steps: tuple[int, ...],
        *,
        is_first: bool = False,
    ) -> View:
        """Take these steps of the ladder while the request exceeds the ceiling; the last one raises
        NoRoom if that is not enough, and the first run before anything is removed if nothing is."""
        async with self._state.changing:
            view = self._state.view(prefix, limits)
            if is_first and view.tokens > limits.ceiling:
                await self._refuse_hopeless(view, limits)
            for step in steps:
                if view.tokens <= limits.ceiling and (step or not view.lines):
                    return view  # the usual case; removed turns may make a log longer
                await self._run_step(view, limits, step)
                view = self._state.view(prefix, limits)
            if view.tokens > limits.ceiling and steps[-1]:
                raise emergency.no_room(view, limits)
            return view

    async def _refuse_hopeless(self, view: View, limits: Limits) -> None:
        """Raise NoRoom before anything is removed for a request that can't be made to fit."""
        if emergency.is_hopeless(view, limits):
            last = await emergency.step_of_ladder(
                view, limits, emergency.STEPS[-1], self._services.meter
            )
            if emergency.is_hopeless(view, limits, last.change):
                raise emergency.no_room(view, limits)

    async def _run_step(
        self, view: View, limits: Limits, step: int, why: str = emergency.REASON
    ) -> bool:
        """Take a step of the ladder; return False if it changes nothing."""
        plan = await emergency.step_of_ladder(view, limits, step, self._services.meter)
        plan = replace(plan, why=why)
        if plan.change.is_empty or not frees_enough(view, plan, limits):
            return False
        if await self._compactor.execute(plan, "emergency") is None:
            return False
        self._emergency_in = self._state.current
        return True

    async def emergency_in(self, turn: int) -> str:
        """Describe the messages that were removed or clipped because the request of this turn was
        too long, in a sentence for the person; "" if there are none. It is made from the events,
        which survive a crash."""
        move = self._state.replayed.move
        is_newest = move is not None and (move.actor, move.turn) == ("emergency", turn)
        if self._emergency_in != turn and not is_newest:
            return ""
        events = [event for event in await self._state.history() if event.turn == turn]
        refused = self._refused[1] if self._refused[0] == turn else 0
        view, limits = self._state.view(), self._state.limits
        return emergency.describe(events, view, limits, turn, refused)

    async def shrink_request(
        self, view: View, prefix: PromptPrefix, overflow: Overflow, attempt: int
    ) -> bool:
        """After the provider refused the request made from `view`, the so many-th attempt of its
        turn: believe it, and take the next step. The first attempt corrects the meter, and only
        goes as far as that calls for. False: there is nothing left to do. What a fallback says
        holds for this step alone."""
        window, why = overflow.window, overflow.why
        async with self._state.changing:
            if why == emergency.REASON:
                self._calibration.accept_refusal(view, self._state.limits_as_set, window)
            limits = self._state.limits
            if why != emergency.REASON:
                limits = replace(limits, window=min(window or view.tokens // 2, limits.window))
            if window:
                self._refused = self._state.current, window
            if window and why == emergency.REASON:
                await self._refuse_hopeless(self._state.view(prefix, limits), limits)
            for step in emergency.STEPS[min(attempt, 3) - 1 :]:
                if await self._run_step(self._state.view(prefix, limits), limits, step, why):
                    return True
            return overflow.is_sure and await self._shorten_blindly(prefix, limits, why)

    async def _shorten_blindly(self, prefix: PromptPrefix, limits: Limits, why: str) -> bool:
        """Shorten the running turn although it fits by the meter: the provider refuses it, and
        nothing else is left to remove. False: it can't be shorter."""
        view = self._state.view(prefix, limits)
        own = sum(turn.tokens for turn in view.turns if turn.number == view.current)
        newest = max((entry.seq for turn in view.turns for entry in turn.entries), default=0)
        seq, tries = self._shortened
        for share in _SHARES[tries if seq == newest else 0 :]:
            self._shortened = newest, _SHARES.index(share) + 1
            most = view.tokens - round(view.scale.part(own) * (1 - share))
            tighter = limits.but(window=most, output_reserved=0)
            if await self._run_step(view, tighter, emergency.STEPS[-1], why):
                if why == emergency.REASON:
                    self._calibration.note_refused(view, limits.model)
                return True
        return False

    async def restore_removed(self) -> None:
        """Restore the messages of earlier turns that were removed for a fallback model, or for a
        refusal with an unknown reason, before this turn's first request."""
        state = self._state
        if self._looked_in == state.current:
            return
        async with state.changing:
            held = undoable(await state.history())
            out = [e for e in held if e.reason in emergency.PASSING]
            for event in reversed([e for e in out if e.turn < state.current]):
                await state.set_undone("undo", event, "emergency", event.reason)
            self._looked_in = state.current

    async def undo_emergency(self) -> None:
        """Restore what the ladder removed in this turn, since the provider refused for another
        reason."""
        state = self._state
        async with state.changing:
            held = undoable(await state.history())
            mine = [e for e in held if e.reason in emergency.REASONS]
            if not mine or mine[-1].turn != state.current:
                return
            await state.set_undone("undo", mine[-1], "emergency", mine[-1].reason)
            self._emergency_in = 0

    # --- between turns -------------------------------------------------------------------------

    async def flush(self) -> None:
        """Do what is due between turns, before the next one begins."""
        if self._state.waits_for_strategy:
            await self._switch()
        if not self._fingerprint:  # what the words of the first turn change is an event, too
            await self._note_changed_prompt(self._state.prefix, self._state.limits)
        await self._show_late()

    async def _switch(self) -> None:
        """Plan by the strategy of the settings from now on, over all that the others leave in
        context."""
        state = self._state
        before, old, new = state.view(), state.limits.strategy, state.limits_as_set.strategy
        await state.switch(new, await state.history())
        why = f"the strategy was changed from {old} to {new}"
        after = state.view()
        event = state.event(Plan(Change(), why), before, after.tokens, kind="setting")
        await state.store(state.count_broken(event, before, after))

    async def _note_changed_prompt(self, prefix: PromptPrefix, limits: Limits) -> None:
        """Record that something else stands before the conversation than in its last request."""
        state = self._state
        if prefix is self._fingerprint_of and limits.model == self._fingerprint.get("model"):
            return  # nearly always: a prefix is made anew only where something has changed
        now = fingerprint(prefix, limits.model)
        if now != self._fingerprint:
            view, why = state.view(prefix, limits), describe_change(self._fingerprint, now)
            changed = state.event(Plan(Change(), why), view, view.tokens, kind="prompt")
            event = state.count_ahead(changed)

            def keep(db: Any) -> int:
                conversations.keep_fingerprint(db, state.row, now)
                return transcript.insert_event(db, state.row, event) if why else 0

            stored = await self._services.store.write(keep, is_synced=False)
            state.last_event = max(stored, state.last_event)
        self._fingerprint, self._fingerprint_of = now, prefix

    async def _show_late(self) -> None:
        """Show the summaries that came late, and a reference to what left; between turns only, so
        that no request of a running turn is rewritten."""
        state, late = self._state, await self._forecaster.find_late_summaries()
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
        plan = Plan(Change.showing(late, front or 0, kept or None), why)
        event = state.event(plan, state.view(), 0, kind="text")
        await state.record(replace(event, tokens_before=0))  # its size is known once it is there

    def _new_reference(self, *, is_late: bool) -> str:
        """Return the reference to what left, where the model does not know it, and something stands
        for what left."""
        kept = self._compactor.summaries.reference
        if not kept or kept == self._state.layout.reference:
            return ""
        return kept if is_late or self._state.view().front else ""
