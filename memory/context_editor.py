"""The changes of the view by a person: clear, undo, redo, expand, pin, unpin, drop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from memory.compactor import Compactor
from memory.context.change import Change, Kind, ViewEvent
from memory.context.compaction import ASKED
from memory.context.plan import Plan
from memory.context.replay import TakenAway, is_move, newest_undoable, redoable, undoable
from memory.context.view import View, apply_boundaries
from memory.context_state import ContextState
from memory.record import summaries
from memory.record.store import StoreError
from memory.services import MemoryServices

_READ_AT_ONCE = 50  # turns


class Cleared(Struct, frozen=True):
    """The result of a clear: the removed turns, and their messages and tokens by the meter."""

    turns: tuple[int, ...]
    messages: int
    tokens: int


class Expanded(Struct, frozen=True):
    """The result of opening summaries: the turns that came back, those that did not fit, and those
    that the person has removed. `event` is None where none came back, `room` the tokens that were
    free for them."""

    event: ViewEvent | None
    back: tuple[int, ...] = ()
    left: tuple[int, ...] = ()
    away: tuple[int, ...] = ()
    room: int = 0


class ContextEditor:
    """Changes what is in context, by a person's wish; each change is an event that can be undone.
    `on_taken` hears that turns were removed or brought back, with what was away before."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        compactor: Compactor,
        on_taken: Callable[[TakenAway], Awaitable[None]],
    ) -> None:
        self._services, self._state, self._compactor = services, state, compactor
        self._on_taken = on_taken

    @asynccontextmanager
    async def _change(self) -> AsyncIterator[None]:
        """Nobody else changes the context meanwhile; what that takes away, or brings back, is out
        of the model's files, or in them again, when it ends."""
        before = self._state.replayed.taken_away
        async with self._state.changing:
            yield
        if self._state.replayed.taken_away != before:
            await self._on_taken(before)

    async def clear(self, kind: Kind = "clear", told: Collection[int] = ()) -> Cleared:
        """Put everything but the running turn away. `clear` is for forgetting: nothing is
        summarised, and what was on its way to a summary is cancelled; `new` summarises all but the
        turns that are `told` elsewhere."""
        state = self._state
        async with self._change():
            view = state.view()
            gone = view.complete
            summed = (turn for stand_in in view.stand_ins for turn in stand_in.turns)
            cleared = Cleared(
                tuple(sorted({*view.logged, *summed, *(turn.number for turn in gone)})),
                sum(len(turn.entries) for turn in gone),
                view.scale.part(sum(turn.tokens for turn in gone) + view.stand_in_tokens),
            )
            if kind == "clear":
                await self._cancel_summaries()
            if cleared.turns or view.preface is not None:
                await self._put_away(cleared, view, kind, told)
            return cleared

    async def _cancel_summaries(self) -> None:
        await self._compactor.summaries.cancel()
        row = self._state.row
        left = await self._services.store.read(lambda db: summaries.list_open_jobs(db, row))
        self._compactor.take_up(left)  # their summaries are written already

    async def _put_away(
        self, cleared: Cleared, view: View, kind: Kind, told: Collection[int]
    ) -> None:
        seqs = [e.seq for t in view.whole if t.is_complete for e in t.entries]
        seqs += [stand_in.seq for stand_in in view.stand_ins]
        roll = max(cleared.turns, default=0) + 1
        change = Change(cut=max(seqs, default=0) + 1, roll=roll, preface=-1)
        after = replace(view.apply(change), preface=None).tokens
        plan = Plan(change, ASKED, cleared.turns, after, kind=kind)
        untold = tuple(turn for turn in cleared.turns if turn not in told)
        is_summarised = kind == "new" and bool(untold)
        job = (
            self._compactor.job(replace(plan, leaving=untold), "person") if is_summarised else None
        )
        await self._compactor.record(self._compactor.event(plan, view, "person"), job)
        await self._compactor.approval.drop()

    async def undo(self, event_id: int = 0) -> ViewEvent | None:
        """Take an event back (0: the newest, `newest_undoable`); returns it, or None when there is
        none of this id that could be."""
        async with self._change():
            events = await self._state.history()
            newest = newest_undoable(events)
            named = (event for event in undoable(events) if event.id == event_id)
            event = next(named, None) if event_id else newest
            return await self._turn_back("undo", event, events) if event else None

    async def redo(self) -> ViewEvent | None:
        """Bring the event that was undone last into force again."""
        async with self._change():
            events = await self._state.history()
            undone = redoable(events)
            return await self._turn_back("redo", undone, events) if undone else None

    async def _turn_back(
        self, kind: Kind, event: ViewEvent, events: Sequence[ViewEvent]
    ) -> ViewEvent:
        state, before = self._state, self._state.view()
        move = ViewEvent(
            at=datetime.now(UTC),
            kind=kind,
            actor="person",
            reason=ASKED,
            change=Change(target=event.id),
            turn=state.newest,
            tokens_before=before.tokens,
        )
        await state.replay([*events, move])
        move = state.count_broken(replace(move, tokens_after=state.view().tokens), before)
        try:
            stored, _ = await state.store(move)
        except StoreError:
            await state.replay(events)  # what is not on disk does not hold
            raise
        if is_move(stored, events):
            state.replayed = replace(state.replayed, move=stored)
        state.notify()
        return event

    async def expand(self, numbers: Collection[int]) -> Expanded:
        """Bring these turns back into play, for which summaries stand, the newest first and as many
        as fit. A summary all of whose turns are back stands there no more, and where it was the one
        in front, the one before it does."""
        state = self._state
        async with self._change():
            there = await state.first_seqs()
            shown = {turn.number for turn in state.view().turns}
            away = [n for n in numbers if n in there and state.replayed.taken_away.has(there[n], n)]
            wanted = sorted({n for n in numbers if n in there} - shown - {*away}, reverse=True)
            room = self._room()
            back = await self._find_fitting(wanted, room)
            found = Expanded(
                None, tuple(sorted(back)), tuple(sorted({*wanted} - {*back})), tuple(away), room
            )
            if not back:
                return found
            away_now = {n for n, seq in there.items() if state.replayed.taken_away.has(seq, n)}
            left = there.keys() - shown - away_now - {*back}
            preface, target = await self._front_without(left)
            change = Change(back=frozenset(back), preface=preface, target=target)
            return replace(found, event=await self._bring_back(change))

    def _room(self) -> int:
        """Tokens up to where turns leave again."""
        limits = self._state.limits
        most = min(limits.threshold or limits.ceiling, limits.ceiling)
        return max(0, most - self._state.view().tokens)

    async def _find_fitting(self, wanted: Sequence[int], room: int) -> list[int]:
        """Return the first of these turns that fit into so many tokens; all of them where that is
        so once the summaries that stand for them are gone."""
        view = self._state.view()
        part, bounds = view.scale.part, view.boundaries.apply(Change(back=frozenset(wanted)))
        freed = view.stand_in_tokens - replace(view, boundaries=bounds).stand_in_tokens
        size, fitting = 0, list[int]()
        for first in range(0, len(wanted), _READ_AT_ONCE):
            turns = await self._state.turns(wanted[first : first + _READ_AT_ONCE])
            for turn in reversed(apply_boundaries(turns, bounds)):
                size += turn.tokens
                if part(size) > room + part(freed):
                    return fitting
                if part(size) <= room:
                    fitting.append(turn.number)
        return list(wanted)

    async def _front_without(self, left: Collection[int]) -> tuple[int, int]:
        """The summary in front once all but the turns `left` are back in context (0: the same; -1:
        none), and the event that it was made for."""
        writer, first = self._compactor.summaries, self._state.boundaries.preface
        summary = await writer.read(first) if first else None
        while summary is not None and not {*summary.turns} & {*left}:
            summary = await writer.read(summary.prior) if summary.prior else None
        if not first or (summary is not None and summary.id == first):
            return 0, 0
        return (summary.id, await writer.event_of(summary.origin)) if summary else (-1, 0)

    async def _bring_back(self, change: Change) -> ViewEvent:
        """Move the boundaries by a change by which turns come back."""
        state, events = self._state, await self._state.history()
        plan = Plan(change, ASKED, kind="expand")
        before = state.view()
        event = self._compactor.event(plan, before, "person")
        await state.replay([*events, event])
        event = state.count_broken(replace(event, tokens_after=state.view().tokens), before)
        try:
            stored, _ = await state.store(event)
        except StoreError:
            await state.replay(events)  # what is not on disk does not hold
            raise
        await state.replay([*events, stored])
        state.notify()
        return stored

    async def change(self, kind: Kind, change: Change, why: str = ASKED) -> ViewEvent | None:
        """Pin, unpin or drop turns, by a person's wish. Turns that are not there yet are left out,
        and the running one can't be dropped. None: they were dropped already, as by the same wish
        that came twice at once; a second event would outlive the undo of the first."""
        state = self._state
        async with self._change():
            if change.drop and change.drop <= state.boundaries.dropped:
                return None
            there = frozenset(range(1, state.newest + 1))
            change = replace(
                change,
                pin=change.pin & there,
                unpin=change.unpin & there,
                drop=(change.drop & there) - {t.number for t in state.whole if not t.is_complete},
            )
            view = state.view()
            after = view.apply(change).tokens
            plan = Plan(change, why, tokens_after=after, kind=kind)
            event = await self._compactor.record(self._compactor.event(plan, view, "person"))
            if any(not change.drop.isdisjoint(s.turns) for s in view.stand_ins):
                await state.replay(await state.history())  # the others of its turns are back
            return event
