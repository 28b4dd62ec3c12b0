"""The execution of compactions of a conversation's view, with their summaries."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from memory.context import emergency
from memory.context.change import Actor, ViewEvent
from memory.context.layout import list_effective
from memory.context.meter import PromptPrefix
from memory.context.plan import (
    ASKED,
    Plan,
    Planner,
    Stuck,
    explain_stuck,
    find_stuck,
    is_over,
    keeps_turn_limit,
    measure,
    plan_all,
    plan_by,
    plan_range,
    renew,
)
from memory.context.settings import Limits
from memory.context.strategies import plan_once, plan_split, trim
from memory.context.view import View
from memory.context_state import ContextState
from memory.events import Event
from memory.forecaster import CutApproval, Forecaster
from memory.record.proposals import Proposal
from memory.record.summaries import Job, Summary
from memory.services import CutNotice, MemoryServices
from memory.summary.writer import SummaryWriter

log = logging.getLogger(__name__)

COOLDOWN = 30.0
"""The seconds between two compactions of `truncate` and `summarize` at the beginning of a turn
(Digitorn's rule `_auto_compact`)."""
BY_ITSELF: tuple[Actor, ...] = ("strategy", "rule")
"""The actors whose compactions a listener may veto."""
_APPROVED = "you said yes"


class Compacted(Struct, frozen=True):
    """The result of a compaction. `event` is None if nothing was done: the context would not have
    become smaller, or another change was made while the summary was written (`is_overtaken`).
    `summary` is the one that was waited for."""

    event: ViewEvent | None = None
    summary: Summary | None = None
    is_overtaken: bool = False


class Compactor:
    """`compact` is the one way by which turns leave: for a strategy, a rule, a person, REST, an
    emergency and a restart. All of it may come at any moment, also while a turn runs."""

    def __init__(self, services: MemoryServices, state: ContextState) -> None:
        self._services, self._state = services, state
        self._clock = time.monotonic
        self.summaries = SummaryWriter(services, state, self._show_cut)
        self.forecaster = Forecaster(state, self.summaries)
        self.approval = CutApproval(services, state, self.summaries, self.forecaster)
        self._is_vetoed = False
        self._last_at_start = -COOLDOWN
        self._stuck: tuple[Stuck, int] = ("", 0)  # what the person knows, and since which turn
        self._known_restart = 0  # the restart that the person knows of

    def load(self, jobs: list[Job], reference: str, pending: Proposal | None) -> None:
        """Load the stored state, and resume unfinished summaries."""
        self.summaries.load(reference)
        self.summaries.add(*jobs)
        self.approval.load(pending)

    # --- execution -----------------------------------------------------------------------------

    async def compact(
        self, planner: Planner, actor: Actor, *, wait: bool, prefix: PromptPrefix | None = None
    ) -> Compacted | None:
        """Remove the turns that `planner` selects from the view; with `wait`, wait for their
        summary. For a person, nothing is done that would not make the context smaller. None: the
        planner selects nothing, a listener has vetoed it, or it waits for the person's approval."""
        plan = self._plan(planner, prefix)
        if plan is None:
            return None
        if actor in BY_ITSELF:
            if self.approval.current is not None and self.forecaster.concerns(plan, actor):
                return await self.resolve_proposal()
            if await self._is_blocked(plan):
                return None
            if self.forecaster.asks(plan, actor):
                await self.approval.put(plan, actor)
                return None
        summary, before = None, self._state.replayed
        if wait and plan.leaving:
            summary = await self.summaries.ahead(self.forecaster.spec(plan, actor))
            if summary is None:
                return Compacted(is_overtaken=True)
        async with self._state.changing:
            # Turns that were only appended meanwhile leave the plan valid.
            if self._state.replayed is not before:
                plan = self._plan(planner, prefix)
            if plan is None or (
                summary is not None
                and self.summaries.find_prepared(self.forecaster.spec(plan, actor)) is None
            ):
                return Compacted(None, summary, is_overtaken=True)
            return Compacted(await self.execute(plan, actor), summary)

    async def resolve_proposal(self) -> Compacted | None:
        """Make the compaction that waits for a person, if its wait is over. None: it still waits,
        or there is none."""
        proposal = self.approval.current
        why = self.approval.due_reason(proposal) if proposal is not None else ""
        return await self._execute_proposal(proposal, why) if proposal and why else None

    async def _execute_proposal(self, proposal: Proposal, how: str) -> Compacted:
        """Make a compaction exactly as the person has approved it, or not at all."""
        if (
            not proposal.summary
            and self._state.strategy.waits
            and await self.summaries.ahead(proposal.spec) is None
        ):
            return Compacted(is_overtaken=True)
        async with self._state.changing:
            if self.approval.current != proposal:
                return Compacted(is_overtaken=True)
            summary = await self.summaries.read(proposal.summary) if proposal.summary else None
            if summary is not None:  # the one that the person has seen
                self.summaries.written_ahead = (proposal.spec, summary)
            change = renew(self._state.view(), proposal.plan)
            plan = replace(proposal.plan, change=change, why=f"{proposal.plan.why}; {how}")
            event = await self.execute(plan, proposal.actor)
            await self.approval.drop()
            return Compacted(event, summary)

    async def approve(self) -> Compacted | None:
        """Make the waiting compaction, since the person approves it. Return None if none waits."""
        if (proposal := self.approval.current) is None:
            return None
        return await self._execute_proposal(proposal, _APPROVED)

    async def _show_cut(self, job: Job, summary: Summary) -> None:
        """Notify the person of an automatic compaction, if they want notices."""
        if self.forecaster.mode == "off":
            return
        held = list_effective(await self._state.history())
        event = next((event for event in held if event.id == job.event), None)
        if event is None or event.actor not in BY_ITSELF or event.reason.endswith(_APPROVED):
            return
        is_late = summary.id not in event.change.summaries
        sizes = event.tokens_before, event.tokens_after
        notice = CutNotice(summary, event.leaving, event.reason, *sizes, event.id, is_late)
        await self._services.on_cut(self._state.key, notice)

    async def compact_as_due(
        self, planner: Planner, *, wait: bool, prefix: PromptPrefix | None = None
    ) -> Compacted | None:
        """Make the compaction of the strategy. If old tool results become stubs first, also make
        the one that is still due after that, for the same request."""
        done = await self.compact(planner, "strategy", wait=wait, prefix=prefix)
        if done is None or done.event is None or done.event.name != "stub":
            return done
        return await self.compact(planner, "strategy", wait=wait, prefix=prefix) or done

    def _plan(self, planner: Planner, prefix: PromptPrefix | None) -> Plan | None:
        limits = self._state.limits
        return plan_by(planner, self._state.view(prefix, limits), limits)

    async def compact_for_person(self, focus: str = "") -> Compacted | None:
        """Summarise all complete turns but the newest, and the activity log, now. None: there is
        nothing to compact."""
        return await self.compact(lambda view, limits: plan_all(view, focus), "person", wait=True)

    async def compact_range(
        self, turns: Collection[int], focus: str = "", *, wait: bool = True
    ) -> Compacted | None:
        """Summarise those of these turns that are in context, now; the summary is put in their
        place. None: there is nothing to compact."""
        return await self.compact(
            lambda view, limits: plan_range(view, turns, focus), "person", wait=wait
        )

    async def free_range(self, turns: Collection[int]) -> ViewEvent | None:
        """Remove the same turns at once; the summary is written in the background, and is in the
        context from the next turn on. None: no turn would be removed."""
        done = await self.compact_range(turns, wait=False)
        return done.event if done else None

    async def compact_by_rule(
        self, strategy: str = "", keep_recent: int = 0, summary_max_tokens: int = 0, why: str = ""
    ) -> ViewEvent | None:
        """Digitorn's action compact_context: a safe split, with `truncate` or `summarize` ("" and
        0: from the settings). None: there was nothing to remove, an undo holds compactions off, or
        a listener has vetoed it."""

        def plan(view: View, limits: Limits) -> Plan | None:
            if self.forecaster.is_held(view, limits):
                return None
            asked = strategy, keep_recent, summary_max_tokens, why
            return plan_split(view, limits, *asked)

        done = await self.compact(plan, "rule", wait=True)
        return done.event if done else None

    async def compress_context(self, **config: Any) -> Compacted | None:
        """AgentScope's compress_context(), requested by a person. None: below the threshold, or no
        turn can be removed. `config` are validated limits by name, for this call only."""
        return await self.compact(
            lambda view, limits: plan_once(view, limits, config), "person", wait=True
        )

    async def free(self) -> ViewEvent | None:
        """Make the emergency compaction, requested by a person or over REST (Digitorn). It removes
        turns at once, without waiting for a model; they are summarised in the background. None: no
        turn would be removed."""
        done = await self.compact(
            lambda view, limits: emergency.halve(view, limits, ASKED), "emergency", wait=False
        )
        return done.event if done else None

    async def restore_recent(self) -> None:
        """Compact as a restart under `trim` with `restore: recent` does (CowAgent)."""
        if self._state.limits.strategy == "trim":
            await self.compact(trim.restart, "restart", wait=False)

    def describe_restart(self, turn: int) -> str:
        """Return a sentence, once, on the turns that the restart before this turn removed from the
        context; "" if there are none, or if the person brought them back. The event is on disk,
        since the bot may have crashed again before anybody wrote."""
        move = self._state.replayed.move
        if move is None or move.name != "restart" or turn - move.turn > 1:
            return ""
        is_known, self._known_restart = move.id == self._known_restart, move.id
        return "" if is_known else trim.describe_restart(move)

    def describe_stuck(self, turn: int, view: View, limits: Limits) -> str:
        """Return a sentence on turns that exceed a limit and can't be removed, after this view was
        sent in the turn of this number; "" if there are none. It is returned once, until it
        changes."""
        stuck = find_stuck(view, limits)
        if not stuck or (stuck != self._stuck[0] and is_over(view, limits)):
            self._stuck = stuck, turn
        return explain_stuck(view, limits) if stuck and self._stuck == (stuck, turn) else ""

    async def execute(self, plan: Plan, actor: Actor) -> ViewEvent | None:
        """Carry a plan out: its removed turns are queued for the daily memory. A summary that was
        prepared for exactly this, or needs no model, is in the very next request. Return None, and
        record nothing, if the model would see the same as before, or if that summary is no shorter
        than the turns that it replaces and no limit of turns requires it."""
        state = self._state
        view = state.view()
        change = await measure(plan.change, view, self._services.meter)
        spec = self.forecaster.spec(plan, actor)
        ready = await self.summaries.at_once(spec) if plan.leaving else None
        snapshot = await state.snapshot(view) if plan.leaving else None
        after = view.apply(change)
        is_range = change.makes("range")
        if ready is not None and (is_range or change.makes("summary")):
            change = change.with_summary(ready.id)
            after = await state.with_summary(view.apply(change), ready, snapshot, is_range=is_range)
        then, now = after.layout.ranges, view.layout.ranges
        is_same = (after.turns, after.log, then) == (view.turns, view.log, now)
        is_vain = ready and after.raw_tokens >= view.raw_tokens
        if is_same or (is_vain and not keeps_turn_limit(view, after, state.limits)):
            return None
        plan = replace(plan, change=change)
        event = replace(state.event(plan, view, after.tokens, actor), snapshot=snapshot)
        made = ready.id if ready else 0
        stored = await self.record(event, Job(0, spec, made) if plan.leaving else None)
        if actor == "emergency" and plan.leaving:  # all messages are written to memory (CowAgent)
            await self.summaries.keep_excerpts([turn.number for turn in after.complete])
        return stored

    async def record(self, event: ViewEvent, job: Job | None = None) -> ViewEvent:
        """Store an event, change the layout by it, and start its summary."""
        stored, kept = await self._state.record(event, job)
        if kept is not None:
            self.summaries.add(kept)
        return stored

    async def _is_blocked(self, plan: Plan) -> bool:
        """Return whether a listener vetoes this compaction."""
        event = Event("pre_compact", self._state.key, self._state.current, plan.why)
        verdict = await self._services.events.emit(event)
        self._is_vetoed = bool(verdict.veto)
        if verdict.veto:
            log.info("%s: not compacted: %s", self._state.key.id, verdict.veto)
        return self._is_vetoed

    # --- around a turn -------------------------------------------------------------------------

    async def at_turn_start(self) -> None:
        """Compact as `truncate` and `summarize` do at the beginning of a turn (Digitorn's rule
        `_auto_compact`)."""
        if not self._state.strategy.by_rule or self._is_cooling:
            return
        done = await self.compact_as_due(
            lambda view, limits: self.forecaster.due_in(view, limits, by_rule=True), wait=True
        )
        if done and done.event and done.event.name != "stub":
            self._last_at_start = self._clock()

    def after_turn(self) -> None:
        """Write the summary of the next compaction ahead if that is near, and the turns that it
        removes are certain. A compaction that a listener or the cooldown holds off may never
        happen; a summary before each turn would be wasted money."""
        if self._is_vetoed or (self._state.strategy.by_rule and self._is_cooling):
            return
        if self.approval.current is not None:
            return  # its summary exists already
        if plan := self.forecaster.certain_cut():
            self.summaries.prepare(self.forecaster.spec(plan, "strategy"))

    @property
    def _is_cooling(self) -> bool:
        return self._clock() - self._last_at_start < COOLDOWN
