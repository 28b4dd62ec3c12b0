"""The changes of the view by a person: clear, undo, redo, expand, pin, unpin, drop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from memory.compactor import Compactor
from memory.context.change import Change, ViewEvent
from memory.context.forms import ASIDE, CLEARED, DROPPED, WHOLE, TurnForm, assign_form
from memory.context.layout import RemovedTurns, newest_undoable, redoable, undoable
from memory.context.plan import ASKED, Plan
from memory.context.view import View, apply_layout
from memory.context_state import ContextState
from memory.record import summaries
from memory.record.database import Database
from memory.record.summaries import Job, Summary
from memory.services import MemoryServices

_READ_AT_ONCE = 50  # turns


class ClearResult(Struct, frozen=True):
    """The result of a clear: the removed turns, and their messages and tokens by the meter; `event`
    is None if there was nothing to clear."""

    turns: tuple[int, ...]
    messages: int
    tokens: int
    event: ViewEvent | None = None


class ExpandResult(Struct, frozen=True):
    """The result of expanding summaries: the turns that came back, those that did not fit, and
    those that the person has removed. `event` is None if none came back, `room` the tokens that
    were free for them."""

    event: ViewEvent | None
    back: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    away: tuple[int, ...] = ()
    room: int = 0


class ContextEditor:
    """The editor for a person's changes of the context; each change is an event that can be undone.
    `on_taken` is called after turns were removed or brought back, with the turns that were removed
    before; `on_undone` after an event was undone or redone."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        compactor: Compactor,
        on_taken: Callable[[RemovedTurns], Awaitable[None]],
        on_undone: Callable[[], Awaitable[None]],
    ) -> None:
        self._services, self._state, self._compactor = services, state, compactor
        self._on_taken, self._on_undone = on_taken, on_undone

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Hold the lock for changes of the context. At the end, turns removed meanwhile are deleted
        from the model's files, and turns brought back are written to them again."""
        before = self._state.layout.removed_turns
        async with self._state.changing:
            yield
        if self._state.layout.removed_turns != before:
            await self._on_taken(before)

    async def clear(
        self, kind: Literal["clear", "new"] = "clear", told: Collection[int] = ()
    ) -> ClearResult:
        """Remove everything but the running turn. `clear` is for forgetting: nothing is summarised,
        and pending summaries are cancelled. `new` summarises all turns but those recorded elsewhere
        (`told`)."""
        state = self._state
        async with self._change():
            view = state.view()
            removed = view.complete
            summed = (turn for one in view.layout.ranges for turn in one.turns)
            cleared = ClearResult(
                tuple(sorted({*view.logged, *summed, *(turn.number for turn in removed)})),
                sum(len(turn.entries) for turn in removed),
                view.scale.part(sum(turn.tokens for turn in removed) + view.range_tokens),
            )
            if kind == "clear":
                await self._compactor.summaries.cancel()
            if cleared.turns or view.preface is not None:
                event = await self._clear_turns(cleared, view, kind, told)
                cleared = replace(cleared, event=event)
            return cleared

    async def _clear_turns(
        self, cleared: ClearResult, view: View, kind: Literal["clear", "new"], told: Collection[int]
    ) -> ViewEvent:
        last = max((t.number for t in view.whole if t.is_complete), default=0)
        last = max(last, *cleared.turns, *(span.last for span in view.layout.forms), 0)
        removed = TurnForm("gone", CLEARED if kind == "clear" else ASIDE)
        # A clear includes turns that were summarised or dropped before.
        numbers = (
            range(1, last + 1) if kind == "clear" else self._without_removed(range(1, last + 1))
        )
        change = Change.clearing(assign_form(numbers, removed))
        after = replace(view.apply(change), preface=None).tokens
        plan = Plan(change, ASKED, cleared.turns)
        job, untold = None, tuple(turn for turn in cleared.turns if turn not in told)
        if kind == "new" and untold:
            spec = self._compactor.forecaster.spec(replace(plan, leaving=untold), "person")
            job = Job(0, spec)
        event = await self._compactor.record(self._state.event(plan, view, after), job)
        await self._compactor.approval.drop()
        return event

    def _without_removed(self, numbers: Iterable[int]) -> list[int]:
        away = self._state.layout.removed_turns
        return [number for number in numbers if not away.has(number)]

    async def undo(self, event_id: int = 0) -> ViewEvent | None:
        """Undo an event (0: the newest, `newest_undoable`); return it, or None if there is no such
        event."""
        async with self._change():
            events = await self._state.history()
            named = (event for event in undoable(events) if event.id == event_id)
            event = next(named, None) if event_id else newest_undoable(events)
            if event is not None:
                await self._state.set_undone("undo", event, "person", ASKED)
        await self._on_undone()
        return event

    async def redo(self, event_id: int = 0) -> ViewEvent | None:
        """Redo the event that was undone last; if one is named, only if it is that one."""
        async with self._change():
            undone = redoable(await self._state.history())
            if undone is None or event_id not in (0, undone.id):
                return None
            await self._state.set_undone("redo", undone, "person", ASKED)
        await self._on_undone()
        return undone

    async def expand(self, numbers: Collection[int]) -> ExpandResult:
        """Bring back these turns, which are in summaries, the newest first and as many as fit. A
        summary all of whose turns are back is no longer shown; in front, it is replaced by the one
        that it continues."""
        state = self._state
        async with self._change():
            there = await state.kept_turns()
            taken = state.layout.removed_turns
            whole = {turn.number for turn in state.view().turns} - {*state.layout.turns("tail")}
            away = [n for n in numbers if n in there and taken.has(n)]
            wanted = sorted({n for n in numbers if n in there} - whole - {*away}, reverse=True)
            room = self._tokens_left()
            back = await self._find_fitting(wanted, room)
            found = ExpandResult(
                None, tuple(sorted(back)), tuple(sorted({*wanted} - {*back})), tuple(away), room
            )
            if not back:
                return found
            left = {n for n in there if not taken.has(n)} - whole - {*back}
            change, before = await self._expansion(back, left), state.view()
            event = state.event(Plan(change, ASKED), before, 0)
            return replace(found, event=await state.record_measured(event, before))

    async def _expansion(self, back: Sequence[int], left: Collection[int]) -> Change:
        """Return the change that brings turns back. A summary in front all of whose turns are back
        is replaced by the one that it continues."""
        layout, change = self._state.layout, Change(assign_form(back, WHOLE))
        front, text = layout.front, layout.preface
        writer = self._compactor.summaries
        summary = await writer.read(text) if text else None
        while summary is not None and not {*summary.turns} & {*left}:
            summary = await writer.read(summary.prior) if summary.prior else None
        is_same = summary is not None and summary.id == text
        if (
            front is None
            or not text
            or (is_same and not await self._is_pending_for(front, back, left))
        ):
            return change
        rest = [turn for turn in layout.turns("summary") if turn in left]
        if summary is None:
            removed = assign_form(rest, TurnForm("gone", ASIDE))  # no summary covers them any more
            return replace(change.with_forms(removed), reference="")
        slot = await self._state.read(summaries.event_of, summary.origin) or -summary.id
        return change.with_forms(assign_form(rest, TurnForm("summary", slot))).with_summary(
            summary.id, slot
        )

    async def _is_pending_for(self, front: int, back: Sequence[int], left: Collection[int]) -> bool:
        """Return whether the summary in front is not written yet, and all its turns are back."""
        if front in self._state.layout.texts:
            return False
        events = await self._state.history()
        own = next((event.leaving for event in events if event.id == front), ())
        return not set(own).isdisjoint(back) and set(own).isdisjoint(left)

    def _tokens_left(self) -> int:
        """Return the tokens that are free before turns are removed again."""
        limits = self._state.limits
        most = min(limits.threshold or limits.ceiling, limits.ceiling)
        return max(0, most - self._state.view().tokens)

    async def _find_fitting(self, wanted: Sequence[int], room: int) -> list[int]:
        """Return the first of these turns that fit into this many tokens; all of them if they fit
        once the summaries that cover them are removed."""
        view = self._state.view()
        part, layout = view.scale.part, view.layout.apply(Change(assign_form(wanted, WHOLE)))
        freed = view.range_tokens - replace(view, layout=layout).range_tokens
        size, fitting = 0, list[int]()
        for first in range(0, len(wanted), _READ_AT_ONCE):
            turns = await self._state.turns(wanted[first : first + _READ_AT_ONCE])
            for turn in reversed(apply_layout(turns, layout)):
                size += turn.tokens
                if part(size) > room + part(freed):
                    return fitting
                if part(size) <= room:
                    fitting.append(turn.number)
        return list(wanted)

    async def pin(self, turns: Collection[int]) -> ViewEvent | None:
        """Pin turns, for a person; turns that do not exist yet are ignored."""
        return await self._put_unless_empty(Change.pinning(self._known(turns)))

    async def unpin(self, turns: Collection[int]) -> ViewEvent | None:
        """Unpin turns."""
        return await self._put_unless_empty(Change.unpinning(self._known(turns)))

    def _known(self, turns: Collection[int]) -> frozenset[int]:
        return frozenset(range(1, self._state.newest + 1)).intersection(turns)

    async def _put_unless_empty(self, change: Change) -> ViewEvent | None:
        async with self._change():
            return None if change.is_empty else await self._put(change, ASKED)

    async def drop(self, turns: Collection[int], why: str = ASKED) -> ViewEvent | None:
        """Drop turns, for a person, except the running one. The other turns of a summary that
        covers one of them, or a part of one, come back; in front, it is replaced by the newest one
        that covers none. None: they were dropped already, for example by the same request sent
        twice; a second event would remain after the undo of the first."""
        state = self._state
        async with self._change():
            running = {turn.number for turn in state.whole if not turn.is_complete}
            removed = {turn for turn in turns if 1 <= turn <= state.newest} - running
            dropped = state.layout.turns_removed_by(DROPPED)
            if removed <= dropped:
                return None
            hit = (one.turns for one in state.layout.ranges if not removed.isdisjoint(one.turns))
            change = await self._without_front(removed)
            change = change.with_forms(assign_form({n for turns in hit for n in turns}, WHOLE))
            gone = assign_form(removed, TurnForm("gone", DROPPED))
            return await self._put(change.with_forms(gone), why)

    async def _without_front(self, removed: Collection[int]) -> Change:
        """Return the change that brings back the turns of the summaries in front from the first on
        that covers one of these turns; empty if none does."""
        layout, chain = self._state.layout, list[Summary]()

        def read(db: Database, row: int) -> None:
            number = layout.preface
            while number and (one := summaries.summary(db, number)) is not None:
                chain.append(one)
                number = one.prior

        await self._state.read(read)
        hit = [place for place, one in enumerate(chain) if not {*one.turns}.isdisjoint(removed)]
        if not hit:
            return Change()
        summed = {turn for one in chain[: hit[-1] + 1] for turn in one.turns}
        there, away = await self._state.kept_turns(), layout.removed_turns
        left = {n for n in there - summed if not (away.has(n) or layout.shows(n))}
        halves = {n for n in summed if layout.form(n).by is not None}
        back = summed.intersection(there, halves.union(layout.turns("summary")))
        return await self._expansion(sorted(back.difference(removed)), left.difference(removed))

    async def _put(self, change: Change, why: str) -> ViewEvent:
        state, view = self._state, self._state.view()
        event = state.event(Plan(change, why), view, view.apply(change).tokens)
        if change.restores_turns or change.summaries:  # their size is known once they are read
            return await state.record_measured(event, view)
        return await self._compactor.record(event)
