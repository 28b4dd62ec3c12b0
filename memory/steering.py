"""What a person does to a conversation: to what is in play of it, and to what is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from memory.context import compaction, emergency
from memory.context import summary as words
from memory.context.change import Change, Kind, ViewEvent, redoable, undoable
from memory.context.compaction import Wanted
from memory.context.plan import Plan, cut_of
from memory.context.strategies.split import split
from memory.context.strategies.structured import plan as structured
from memory.context.summary import Style
from memory.context.view import View
from memory.cutting import Cutting
from memory.record import daily, forget, offload, summaries, titles, transcript
from memory.record.forget import Held
from memory.record.store import StoreError
from memory.record.summaries import Job, Summary
from memory.turns import Turn

ASKED = "asked for by a person"
_EXCERPTS = 100  # turns in a section of the daily memory


@dataclass(frozen=True, slots=True)
class Cleared:
    """What was put away: turns, and their messages and tokens by the meter."""

    turns: tuple[int, ...]
    messages: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that a person asked for; `event` is None where it would not have shrunk."""

    event: ViewEvent | None
    summary: Summary


class Steering(Cutting):
    """A stage that a person steers: clear, undo, redo, pin, drop, compact, forget."""

    async def clear(self, kind: Kind = "clear") -> Cleared:
        """Put everything but the running turn away. `clear` is for forgetting: nothing is
        summarised, and what was on its way to a summary is cancelled; `new` summarises."""
        async with self._changing:
            view = self.view()
            gone = view.complete
            cleared = Cleared(
                tuple(sorted({*view.logged, *(turn.number for turn in gone)})),
                sum(len(turn.entries) for turn in gone),
                view.scale.part(sum(turn.tokens for turn in gone)),
            )
            if kind == "clear":
                await self.scribe.cancel()
                left = await self._room.store.read(lambda db: summaries.undone_of(db, self._row))
                self._take_up(left)  # their summaries are written already
            if cleared.turns or view.preface is not None:
                await self._put_away(cleared, view, kind)
            return cleared

    async def _put_away(self, cleared: Cleared, view: View, kind: Kind) -> None:
        seqs = [e.seq for t in view.whole if t.is_complete for e in t.entries]
        roll = max(cleared.turns, default=0) + 1
        change = Change(cut=max(seqs, default=0) + 1, roll=roll, preface=-1)
        plan = Plan(change, ASKED, cleared.turns, view.tokens - cleared.tokens, kind=kind)
        wanted = self._wanted_for(plan, "person")
        job = None
        if kind == "new" and cleared.turns:
            job = Job(0, wanted.turns, wanted.after, wanted.focus, wanted.style)
        await self._carry_out(self._event(plan, view, "person"), job)

    async def undo(self) -> ViewEvent | None:
        """Take the newest standing event back; returns it, or None when there is none."""
        async with self._changing:
            events = await self.history()
            held = undoable(events)
            return await self._turn_back("undo", held[-1], events) if held else None

    async def redo(self) -> ViewEvent | None:
        """Bring the event that was undone last into force again."""
        async with self._changing:
            events = await self.history()
            undone = redoable(events)
            return await self._turn_back("redo", undone, events) if undone else None

    async def _turn_back(
        self, kind: Kind, event: ViewEvent, events: Sequence[ViewEvent]
    ) -> ViewEvent:
        move = ViewEvent(
            at=datetime.now(UTC),
            kind=kind,
            actor="person",
            reason=ASKED,
            change=Change(target=event.id),
            turn=self._last_turn,
            tokens_before=self.view().tokens,
        )
        await self._reload([*events, move])
        try:
            stored, _ = await self._store_event(replace(move, tokens_after=self.view().tokens))
        except StoreError:
            await self._reload(events)  # what is not on disk does not hold
            raise
        self._outcome = replace(self._outcome, move=stored)
        self._house.on_change(self)
        return event

    async def change(self, kind: Kind, change: Change, why: str = ASKED) -> ViewEvent:
        """Pin, unpin or drop turns, by a person's wish. Turns that are not there yet are left out,
        and the running one can't be dropped."""
        async with self._changing:
            there = frozenset(range(1, self._last_turn + 1))
            change = replace(
                change,
                pin=change.pin & there,
                unpin=change.unpin & there,
                drop=(change.drop & there) - {t.number for t in self._whole if not t.is_complete},
            )
            view = self.view()
            after = view.moved_by(change).tokens
            plan = Plan(change, why, tokens_after=after, kind=kind)
            return await self._carry_out(self._event(plan, view, "person"))

    async def compact(self, focus: str = "") -> Compacted | None:
        """Summarise all complete turns but the newest, now, and what stands in the activity log;
        nothing is written if it would not shrink the context. None: there is nothing to compact."""
        view = self.view()
        leaving = view.movable[:-1] or view.movable
        if not leaving:
            return None
        numbers = tuple(sorted({*view.logged, *(turn.number for turn in leaving)}))
        style = compaction.style_of(Plan(Change(), ASKED), self.limits, "person")
        wanted = self._wanted(numbers, style, focus)
        scribe = self.scribe
        summary = await scribe.write(wanted)
        async with self._changing:
            if scribe is not self.scribe:
                return None  # forgotten meanwhile, the summary too
            return await self._compact_by(summary, wanted, leaving)

    async def _compact_by(
        self, summary: Summary, wanted: Wanted, leaving: tuple[Turn, ...]
    ) -> Compacted:
        view = self.view()
        there = {*view.logged, *(turn.number for turn in view.turns)}
        is_same = wanted == self._wanted(wanted.turns, wanted.style, wanted.focus)
        if not is_same or not there.issuperset(wanted.turns):
            return Compacted(None, summary)  # something else cut meanwhile
        roll = leaving[-1].number + 1
        change = replace(cut_of(view, leaving), roll=roll, preface=summary.id)
        after = replace(
            view.moved_by(change), preface=self._as_preface(summary, self._snapshot(view))
        )
        if after.raw_tokens >= view.raw_tokens:
            return Compacted(None, summary)
        why = f"{ASKED}: {wanted.focus}" if wanted.focus else ASKED
        plan = Plan(change, why, wanted.turns, after.tokens)
        event = replace(self._event(plan, view, "person"), snapshot=self._snapshot(view))
        job = Job(0, wanted.turns, wanted.after, wanted.focus, wanted.style, summary.id)
        return Compacted(await self._carry_out(event, job), summary)

    async def free(self) -> ViewEvent | None:
        """The emergency compaction, asked for from outside (Digitorn): it cuts at once, and no
        model is waited for; what leaves is summarised in the background. None: nothing would."""
        async with self._changing:
            plan = emergency.halved(self.view(), self.limits, "asked for from outside")
            return await self._cut(plan, actor="emergency") if plan else None

    async def rename(self, title: str) -> None:
        """Give this conversation a title; "" takes it away."""
        await self._room.store.write(lambda db: titles.rename(db, self._row, title))

    async def title(self) -> str:
        """The title that was given; "" without one."""
        return await self._room.store.read(lambda db: titles.title(db, self._row))

    async def compact_by_rule(
        self, strategy: str = "", keep_recent: int = 0, summary_max_tokens: int = 0, why: str = ""
    ) -> ViewEvent | None:
        """Digitorn's action compact_context: a safe split, with `truncate` or `summarize` ("" and
        0: as the settings say). None: nothing was to leave, an undo holds cuts off, or a listener
        had a veto."""
        limits = self.limits
        keep = keep_recent or limits.keep_recent
        chosen = strategy or limits.strategy
        style: Style = "reminder" if chosen == "truncate" else "recap"

        def planned(view: View) -> Plan | None:
            if compaction.is_held(view, limits, self._outcome.move):
                return None
            return split(view, keep, why or "a rule asked for it")

        return await self._compact_as(planned, style, summary_max_tokens)

    async def compress_context(self, **config: float) -> ViewEvent | None:
        """AgentScope's compress_context(): nothing below the threshold. `config` overrides for this
        call: trigger_ratio, reserve_ratio, summary_max_tokens."""
        limits = replace(self.limits, **config)  # type: ignore[arg-type]
        style: Style = "structured"
        return await self._compact_as(
            lambda view: structured(view, limits), style, int(config.get("summary_max_tokens", 0))
        )

    async def _compact_as(
        self, planned: Callable[[View], Plan | None], style: Style, max_tokens: int
    ) -> ViewEvent | None:
        """Carry out what is planned once its summary is there; the plan is made anew then."""
        plan = planned(self.view())
        if plan is None or await self._is_vetoed(plan):
            return None
        scribe = self.scribe
        await scribe.ahead(self._ordered(plan, style, max_tokens))
        async with self._changing:
            plan = planned(self.view())
            if plan is None or scribe is not self.scribe:
                return None
            return await self._cut(plan, wanted=self._ordered(plan, style, max_tokens))

    def _ordered(self, plan: Plan, style: Style, max_tokens: int) -> Wanted:
        return replace(self._wanted(plan.leaving, style), max_tokens=max_tokens)

    # --- deletion --------------------------------------------------------------------------

    async def held(self, turns: Collection[int] | None = None) -> Held:
        """What is kept of these turns (None: of all of this conversation)."""
        held = await self._room.store.read(lambda db: forget.held(db, self._row, turns))
        which, data = self._sections(held, turns), self._room.data
        sections = 0
        for place in (data, daily.quarantine(data)):
            sections += await asyncio.to_thread(daily.count, place, self.key.audience, which)
        return replace(held, sections=sections)

    def _sections(self, held: Held, turns: Collection[int] | None) -> daily.Which:
        return daily.Which(frozenset(held.jobs), "" if turns is not None else self.key.id)

    async def forget(self, turns: Collection[int] | None = None) -> Held:
        """Delete these turns (None: all of this conversation) from all that this room keeps;
        returns what was there. Summaries that were made from them go too, and what they held of
        other turns is summarised anew. No turn may be running."""
        data, audience = self._room.data, self.key.audience
        async with self._changing:
            await self.scribe.halt()
            try:
                gone = await self.held(turns)
                which = self._sections(gone, turns)
                for place in (data, daily.quarantine(data)):
                    await asyncio.to_thread(daily.remove, place, audience, which)
                await self._delete(turns)
            finally:
                await self._read_all()
        self._house.on_change(self)
        self._mirror()
        return gone

    async def retire(self) -> bool:
        """Delete the transcript, after its content has reached the daily memory files, which stay.
        False: it has not, so nothing was deleted. No turn may be running."""
        await self.clear("new")
        await self.scribe.idle()
        await self._keep_excerpts()
        async with self._changing:
            jobs = await self._room.store.read(lambda db: summaries.undone_of(db, self._row))
            if jobs:
                return False
            await self.scribe.halt()
            await self._delete(None)
            await self._read_all()
        return True

    async def _keep_excerpts(self) -> None:
        """Bring to the daily memory what no summary tells of: of each turn the question and the
        final reply, in sections of their own where they hold what came from outside."""
        untold = await self._untold()
        for is_outside in (False, True):
            some = [turn.number for turn in untold if turn.has_outside == is_outside]
            for first in range(0, len(some), _EXCERPTS):
                job = Job(0, tuple(some[first : first + _EXCERPTS]), 0, "", "excerpt")
                row = await self._room.store.write(
                    lambda db, job=job: summaries.insert_job(db, self._row, job)  # type: ignore[misc]
                )
                self._take_up([replace(job, id=row)])
        await self.scribe.idle()

    async def _untold(self) -> list[Turn]:
        """The turns whose content is not in the daily memory, without what a person took away."""

        def read(db: Any) -> tuple[list[tuple[int, int]], list[tuple[Job, Summary]]]:
            return transcript.places(db, self._row), summaries.told_of(db, self._row)

        places, told = await self._room.store.read(read)
        outcome = self._outcome
        away = outcome.boundaries.dropped
        there = {turn for seq, turn in places if seq >= outcome.cleared and turn not in away}
        by_model = {
            turn for job, made in told if made.model or job.style == "excerpt" for turn in job.turns
        }
        extracts = {turn: made.text for job, made in told if not made.model for turn in job.turns}
        rest = sorted(there - by_model)
        found: list[Turn] = []
        for first in range(0, len(rest), _EXCERPTS):
            found += await self.turns(rest[first : first + _EXCERPTS])
        return [turn for turn in found if not words.is_told_by(extracts.get(turn.number, ""), turn)]

    async def _delete(self, turns: Collection[int] | None) -> None:
        async with self._filing:
            await self._delete_files(turns)
            await self._room.store.write(lambda db: forget.delete(db, self.key, self._row, turns))

    async def _delete_files(self, turns: Collection[int] | None) -> None:
        files = await self._room.store.read(
            lambda db: forget.attached(db, self.key, self._row, turns)
        )
        if turns is None:
            await asyncio.to_thread(forget.delete_folder, self.folder)
        else:
            await asyncio.to_thread(offload.forget, self.folder, turns, files.staying)
        folder = self._room.audience_folder(self.key.audience)
        await asyncio.to_thread(forget.delete_pictures, folder, files.lone)
