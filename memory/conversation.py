"""The room's door: a conversation, what of it is in play, and the turn that runs in it.

A `Conversation` is one line of talk: it is used from the event loop only, and one turn at a time
(`bot/turns` sees to that); everything else (`/context`, `/context clear`, …) may come at any
moment, also in the middle of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from memory.context import compaction, emergency
from memory.context.change import (
    Actor,
    Boundaries,
    Change,
    Kind,
    ViewEvent,
    redoable,
    standing,
    summed,
    undoable,
)
from memory.context.compaction import Wanted
from memory.context.forecast import FARTHEST, Forecast, forecast
from memory.context.limits import Limits
from memory.context.meter import Frame, calibrated
from memory.context.plan import Plan
from memory.context.preview import Preview, climbed, with_question
from memory.context.scribe import Scribe
from memory.context.strategies.trim import cut_of
from memory.context.view import Preface, Scale, View, in_play, marked, shown
from memory.keys import ConversationKey
from memory.messages import TRUNCATED, Message
from memory.open_turn import OpenTurn
from memory.recollection import Recollection
from memory.record import daily, forget, ledger, mailbox, search, summaries, transcript
from memory.record.forget import Held
from memory.record.ledger import Bill, Spent
from memory.record.search import Found
from memory.record.summaries import Job, Summary
from memory.room import Room
from memory.turns import Entry, Turn

ASKED = "asked for by a person"
_SMALL = 200  # raw tokens below which a report says little about a model's ratio
_DRIFT = 0.02  # a ratio is stored again when it moved by more than this share
_BELIEVED = 3.0  # how far the meter may be off by what an overflow says
SOFT_MARK = 2
"""A summary is prepared as soon as the next cut is at most so many turns away."""


class Conversations:
    """All conversations of one store; each is restored from disk when it is first asked for."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.ratios: dict[str, float] = {}
        self.windows: dict[str, int] = {}
        self.on_change: Callable[[Conversation], None] = lambda conversation: None
        self.on_spent: Callable[[ConversationKey, Spent], None] = lambda key, spent: None
        self._open: dict[str, asyncio.Task[Conversation]] = {}

    async def get(self, key: ConversationKey, is_restart: bool = True) -> Conversation:
        """The conversation of this key; asked for twice at once, it is loaded once. Who only looks
        after it does not want the cut that a restart makes (`is_restart` False)."""
        task = self._open.get(key.id)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._open[key.id] = asyncio.create_task(self._load(key, is_restart))
        return await asyncio.shield(task)

    async def _load(self, key: ConversationKey, is_restart: bool) -> Conversation:
        await self.room.meter.ready()
        conversation = Conversation(self, key)
        await conversation.restore(is_restart)
        return conversation

    async def take_up(self) -> None:
        """Read each model's calibration, and go on with the jobs that a crash left undone."""
        self.ratios = await self.room.store.read(ledger.ratios)
        for key, _ in await self.room.store.read(summaries.unfinished):
            await self.get(key)  # a conversation takes its own jobs up when it is restored

    async def idle_since(self, before: float) -> list[ConversationKey]:
        """Conversations in which nothing was said since a time (seconds since 1970), and of which
        something is kept."""
        return await self.room.store.read(lambda db: transcript.idle_since(db, before))

    async def of_audience(self, audience: str) -> list[ConversationKey]:
        """All conversations of an audience."""
        return await self.room.store.read(lambda db: transcript.of_audience(db, audience))

    async def delete_mail_before(self, before: float) -> None:
        """Delete what came in and was answered before a time (seconds since 1970)."""
        await self.room.store.write(lambda db: mailbox.delete_before(db, before))

    async def settle(self) -> None:
        """Wait until all summaries under way are in the daily memory."""
        for conversation in self._loaded():
            await conversation.scribe.idle()

    async def close(self) -> None:
        """Stop what runs in the background; it goes on at the next start."""
        for conversation in self._loaded():
            await conversation.scribe.close()

    def _loaded(self) -> list[Conversation]:
        tasks = [task for task in self._open.values() if task.done() and not task.cancelled()]
        return [task.result() for task in tasks if not task.exception()]


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


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The last request that the provider counted: its tokens by the provider, and raw."""

    reported: int
    raw: int
    model: str
    boundaries: Boundaries


class Conversation:
    """One conversation: its turns in play, its boundaries, its meter."""

    def __init__(self, house: Conversations, key: ConversationKey) -> None:
        self.key = key
        self.bill = Bill()
        self._house, self._room = house, house.room
        self._row = self._last_seq = self._last_turn = 0
        self._events: list[ViewEvent] = []
        self._whole: tuple[Turn, ...] = ()
        self._shown: tuple[Turn, ...] = ()
        self._boundaries = Boundaries()
        self._strategy = ""
        self._preface: Preface | None = None
        self._current = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._anchor: _Anchor | None = None
        self._changing = asyncio.Lock()

    async def restore(self, is_restart: bool) -> None:
        """Read what is on disk, as a restart restores it, and take up what was left undone."""
        await self._read_all()
        if is_restart:
            await self._restart()

    async def _read_all(self) -> None:

        def read(db: Any) -> tuple[Any, ...]:
            row = transcript.find_or_create(db, self.key)
            jobs = summaries.jobs_of(db, row.id)
            return row, transcript.events_of(db, row.id), jobs, ledger.bill(db, row.id)

        row, self._events, jobs, self.bill = await self._room.store.write(read)
        self._row, self._last_seq, self._last_turn = row.id, row.last_seq, row.last_turn
        self._strategy = self.limits.strategy
        self.scribe = Scribe(self._room, self.key, self._row, jobs, self._spent)
        self._boundaries, self._preface, self._anchor = Boundaries(), None, None
        await self._reload()
        for job in jobs:
            if not job.is_done:
                self.scribe.add(job, self._wanted_by(job))

    # --- what is there ---------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """The limits in force now: a window that the provider has named is believed, and a changed
        strategy holds from the next turn on."""
        limits = self._room.limits_for(self.key)
        window = min(limits.window, self._house.windows.get(limits.model, limits.window))
        return replace(limits, window=window, strategy=self._strategy or limits.strategy)

    @property
    def frame(self) -> Frame:
        """What would be sent besides the conversation now."""
        return self._room.frame_for(self.key)

    @property
    def events(self) -> Sequence[ViewEvent]:
        """All that ever changed the view, oldest first."""
        return tuple(self._events)

    @property
    def last_cut(self) -> ViewEvent | None:
        """The newest standing event that put something away."""
        cuts = [e for e in undoable(self._events) if e.kind not in ("pin", "unpin")]
        return cuts[-1] if cuts else None

    @property
    def memory(self) -> Recollection:
        """What this conversation's audience remembers."""
        return Recollection(self._room, self.key.audience)

    @property
    def current(self) -> int:
        """The number of the turn that runs, or 0."""
        return self._current

    @property
    def newest(self) -> int:
        """The number of the newest turn, in play or not; 0 before the first."""
        return self._last_turn

    def view(self, frame: Frame | None = None, limits: Limits | None = None) -> View:
        """What the model would see now."""
        sizes = self._room.meter.frame(frame or self.frame)
        view = View(
            self._whole,
            self._shown,
            sizes,
            self._boundaries,
            preface=self._preface,
            current=self._current,
            newest=self._last_turn,
        )
        return replace(view, scale=self._scale(view, limits or self.limits))

    def due(self) -> Plan | None:
        """What the strategy in force would do before the next step."""
        limits = self.limits
        return compaction.due(self.view(limits=limits), limits, self._events)

    def forecast(self, within: int = FARTHEST) -> Forecast | None:
        """When the next cut comes, if it is due within so many turns and no undo holds it off."""
        limits = self.limits
        view = self.view(limits=limits)
        held = compaction.is_held(view, limits, self._events)
        return None if held else forecast(view, limits, within)

    async def preview(self) -> Preview:
        """What the next request will hold, and what is done for that; nothing is done by it."""
        limits, now = self.limits, self.view()
        if not self._current:
            late = self._late()
            preface = await self._read_preface(late[1]) if late else now.preface
            now = with_question(now, preface)
        preview = climbed(Preview(now, now), limits, emergency.STEPS[:1])
        plan = compaction.due(preview.then, limits, self._events)
        if plan is not None:
            summary = self.scribe.prepared(self._wanted(plan.leaving))
            preface = await self._read_preface(summary.id) if summary else None
            preview = preview.after(plan, preface)
        return climbed(preview, limits, emergency.STEPS[1:])

    async def wait_for_turn(self) -> None:
        """Wait until no turn is open."""
        await self._idle.wait()

    async def tokens_of(self, text: str) -> int:
        """Raw tokens of a text, for figures that no provider reported."""
        return await self._room.meter.message(Message("assistant", text))

    async def count(self) -> int:
        """How many messages the transcript holds, in play or not."""
        return await self._room.store.read(lambda db: transcript.count_messages(db, self._row))

    async def turns(self, numbers: Sequence[int]) -> tuple[Turn, ...]:
        """Turns of the transcript, in play or not."""
        return transcript.as_turns(
            await self._room.store.read(
                lambda db: transcript.entries_of_turns(db, self._row, numbers)
            )
        )

    async def search(self, words: Sequence[str], most: int) -> Found:
        """The messages of the transcript that hold the most of these words, in play or not."""
        return await self._room.store.read(lambda db: search.search(db, self._row, words, most))

    def _scale(self, view: View, limits: Limits) -> Scale:
        ratio = self._house.ratios.get(limits.model, 1.0)
        anchor = self._anchor
        if anchor is None or anchor.model != limits.model:
            return Scale(ratio)
        raw = view.raw_tokens
        is_measured = anchor.boundaries == self._boundaries and anchor.raw <= raw
        return Scale(ratio, anchor.reported - ratio * anchor.raw, is_measured)

    # --- boundaries ------------------------------------------------------------------------

    async def _reload(self) -> None:
        """Build the turns in play anew from the transcript and the events that hold."""
        boundaries = summed(self._events, self._strategy)
        entries = await self._room.store.read(
            lambda db: (
                transcript.entries_of_turns(db, self._row, boundaries.keep)
                + transcript.entries_from(db, self._row, boundaries.cut)
            )
        )
        unique = {entry.seq: entry for entry in entries}
        whole = transcript.as_turns(unique[seq] for seq in sorted(unique))
        await self._show(whole, boundaries)

    async def _show(self, whole: tuple[Turn, ...], boundaries: Boundaries) -> None:
        if boundaries.preface != self._boundaries.preface:
            self._preface = await self._read_preface(boundaries.preface)
        self._boundaries = boundaries
        self._whole = in_play(whole, boundaries)
        self._shown = shown(self._whole, boundaries)

    async def _read_preface(self, summary_id: int) -> Preface | None:
        summary = await self.scribe.read(summary_id) if summary_id else None
        if summary is None:
            return None
        return Preface(summary.text, self._room.meter.count(marked(summary.text)))

    async def _carry_out(self, event: ViewEvent, job: Job | None = None) -> ViewEvent:
        """Store an event, and with it the job for what leaves; then move the boundaries by it."""
        stored, kept = await self._store_event(event, job)
        await self._show(self._whole, self._boundaries.moved_by(stored.change))
        if kept is not None:
            self.scribe.add(kept, self._wanted_by(kept))
        self._house.on_change(self)
        return stored

    async def _store_event(
        self, event: ViewEvent, job: Job | None = None
    ) -> tuple[ViewEvent, Job | None]:
        def insert(db: Any) -> tuple[ViewEvent, Job | None]:
            stored = replace(event, id=transcript.insert_event(db, self._row, event))
            if job is None:
                return stored, None
            kept = replace(job, event=stored.id)
            return stored, replace(kept, id=summaries.insert_job(db, self._row, kept))

        stored, kept = await self._room.store.write(insert)
        self._events.append(stored)
        return stored, kept

    async def _cut(self, plan: Plan, kind: Kind = "compact", actor: Actor = "strategy") -> None:
        """Carry a plan out. What leaves by it is on its way to the daily memory; a summary that
        was prepared for exactly this stands in the very next request."""
        limits = self.limits
        view = self.view(limits=limits)
        change = await compaction.measured(plan.change, view, self._room.meter)
        if not plan.leaving:
            await self._carry_out(self._event(replace(plan, change=change), view, kind, actor))
            return
        wanted = self._wanted(plan.leaving)
        ready = self.scribe.prepared(wanted)
        if ready is not None:
            change = replace(change, preface=ready.id)
        job = Job(0, wanted.turns, wanted.after, wanted.focus, ready.id if ready else 0)
        await self._carry_out(self._event(replace(plan, change=change), view, kind, actor), job)

    def _event(self, plan: Plan, view: View, kind: Kind, actor: Actor) -> ViewEvent:
        return compaction.event_of(plan, view, self.limits, kind, actor)

    def _wanted(self, turns: tuple[int, ...], focus: str = "") -> Wanted:
        before = compaction.last_cut(self._events, self.limits.strategy)
        return Wanted(turns, before.id if before else 0, focus, self._boundaries.pinned)

    def _wanted_by(self, job: Job) -> Wanted:
        return Wanted(job.turns, job.prior, job.focus, self._boundaries.pinned)

    async def _restart(self) -> None:
        limits = self.limits
        if limits.strategy != "trim" or self._room.restores_exactly():
            return
        plan = compaction.restart(self.view(limits=limits), limits)
        if plan is not None:
            await self._cut(plan, "restart", "restart")

    async def _switch(self, strategy: str) -> None:
        """Plan by another strategy from now on, over all that the others leave in play."""
        if strategy == self._strategy:
            return
        before = self.view()
        why = f"the strategy was changed from {self._strategy} to {strategy}"
        self._strategy = strategy
        await self._reload()
        plan = Plan(Change(), why, tokens_after=self.view().tokens)
        await self._store_event(self._event(plan, before, "rebase", "person"))

    def _late(self) -> tuple[ViewEvent, int] | None:
        """The last cut and its summary, if that came after the cut and is not in front yet."""
        cut = compaction.last_cut(self._events, self.limits.strategy)
        summary = self.scribe.summary_of(cut.id) if cut else 0
        if cut is None or not summary or summary == self._boundaries.preface:
            return None
        if any(e.kind == "inject" and e.change.target == cut.id for e in standing(self._events)):
            return None
        return cut, summary

    async def _inject(self) -> None:
        """Put a late summary in front; between turns only, so that no request of a running turn
        is rewritten."""
        if (late := self._late()) is None:
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
        """Have the summary of the next cut written when that is near."""
        near = self.forecast(SOFT_MARK)
        if near and near.plan.leaving:
            self.scribe.prepare(self._wanted(near.plan.leaving))

    # --- what a person does to the view ----------------------------------------------------

    async def clear(self, kind: Kind = "clear") -> Cleared:
        """Put everything but the running turn away. `clear` is for forgetting: nothing is
        summarised, and what was on its way to a summary is cancelled; `new` summarises."""
        async with self._changing:
            view = self.view()
            gone = view.complete
            cleared = Cleared(
                tuple(turn.number for turn in gone),
                sum(len(turn.entries) for turn in gone),
                view.scale.part(sum(turn.tokens for turn in gone)),
            )
            if kind == "clear":
                await self.scribe.cancel()
            if gone or view.preface is not None:
                await self._put_away(cleared, view, kind)
            return cleared

    async def _put_away(self, cleared: Cleared, view: View, kind: Kind) -> None:
        seqs = [e.seq for t in view.whole if t.number != self._current for e in t.entries]
        change = Change(cut=max(seqs, default=0) + 1, preface=-1)
        plan = Plan(change, ASKED, cleared.turns, view.tokens - cleared.tokens)
        wanted = self._wanted(cleared.turns)
        job = None
        if kind == "new" and cleared.turns:
            job = Job(0, wanted.turns, wanted.after, wanted.focus)
        await self._carry_out(self._event(plan, view, kind, "person"), job)

    async def undo(self) -> ViewEvent | None:
        """Take the newest standing event back; returns it, or None when there is none."""
        async with self._changing:
            held = undoable(self._events)
            return await self._turn_back("undo", held[-1]) if held else None

    async def redo(self) -> ViewEvent | None:
        """Bring the event that was undone last into force again."""
        async with self._changing:
            undone = redoable(self._events)
            return await self._turn_back("redo", undone) if undone else None

    async def _turn_back(self, kind: Kind, event: ViewEvent) -> ViewEvent:
        before = self.view()
        move = ViewEvent(
            at=datetime.now(UTC),
            kind=kind,
            actor="person",
            reason=ASKED,
            change=Change(target=event.id),
            turn=self._last_turn,
            tokens_before=before.tokens,
        )
        held = summed([*self._events, replace(move, id=-1)], self.limits.strategy)
        after = await self._weighed(held)
        await self._store_event(replace(move, tokens_after=after))
        await self._reload()
        self._house.on_change(self)
        return event

    async def _weighed(self, boundaries: Boundaries) -> int:
        """Tokens of the view behind other boundaries, which may bring turns back."""
        entries = await self._room.store.read(
            lambda db: transcript.entries_from(db, self._row, boundaries.cut)
        )
        turns = shown(transcript.as_turns(entries), boundaries)
        view = self.view()
        raw = view.raw_tokens + sum(t.tokens for t in turns) - sum(t.tokens for t in view.turns)
        return view.scale.tokens(raw)

    async def change(self, kind: Kind, change: Change, why: str = ASKED) -> ViewEvent:
        """Pin, unpin or drop turns, by a person's wish. Turns that are not there yet are left out,
        and the running one can't be dropped."""
        async with self._changing:
            there = frozenset(range(1, self._last_turn + 1))
            change = replace(
                change,
                pin=change.pin & there,
                unpin=change.unpin & there,
                drop=(change.drop & there) - {self._current},
            )
            view = self.view()
            after = view.moved_by(change).tokens
            plan = Plan(change, why, tokens_after=after)
            return await self._carry_out(self._event(plan, view, kind, "person"))

    async def compact(self, focus: str = "") -> Compacted | None:
        """Summarise all complete turns but the newest, now; nothing is written if it would not
        shrink the context. None: there is nothing to compact."""
        movable = self.view().movable
        leaving = movable[:-1] or movable
        if not leaving:
            return None
        wanted = self._wanted(tuple(turn.number for turn in leaving), focus)
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
        in_view = {turn.number for turn in view.turns}
        if wanted != self._wanted(wanted.turns, wanted.focus) or not in_view.issuperset(
            wanted.turns
        ):
            return Compacted(None, summary)  # something else cut meanwhile
        change = replace(cut_of(view, leaving), preface=summary.id)
        preface = await self._read_preface(summary.id)
        after = replace(view.moved_by(change), preface=preface)
        if after.raw_tokens >= view.raw_tokens:
            return Compacted(None, summary)
        why = f"{ASKED}: {wanted.focus}" if wanted.focus else ASKED
        plan = Plan(change, why, wanted.turns)
        event = self._event(replace(plan, tokens_after=after.tokens), view, "compact", "person")
        job = Job(0, wanted.turns, wanted.after, wanted.focus, summary.id)
        return Compacted(await self._carry_out(event, job), summary)

    # --- deletion --------------------------------------------------------------------------

    async def held(self, turns: Collection[int] | None = None) -> Held:
        """What is kept of these turns (None: of all of this conversation)."""
        held = await self._room.store.read(lambda db: forget.held(db, self._row, turns))
        which, data = self._sections(held, turns), self._room.data
        sections = await asyncio.to_thread(daily.count, data, self.key.audience, which)
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
                await asyncio.to_thread(daily.remove, data, audience, which)
                await self._delete(turns)
            finally:
                await self._read_all()
        self._house.on_change(self)
        return gone

    async def retire(self) -> bool:
        """Delete the transcript, after its content has reached the daily memory files, which stay.
        False: it has not, so nothing was deleted. No turn may be running."""
        await self.clear("new")
        await self.scribe.idle()
        async with self._changing:
            jobs = await self._room.store.read(lambda db: summaries.jobs_of(db, self._row))
            if not all(job.is_done for job in jobs):
                return False
            await self._delete(None)
            await self._read_all()
        return True

    async def _delete(self, turns: Collection[int] | None) -> None:
        await asyncio.to_thread(forget.delete_folder, self._room.session_folder(self.key))
        await self._room.store.write(lambda db: forget.delete(db, self.key, self._row, turns))

    # --- turns -----------------------------------------------------------------------------

    async def turn(self, text: str, speaker: str = "", inbox: int | None = None) -> OpenTurn:
        """Open a turn. One that was opened for the same inbox row before a crash goes on where it
        was; another that was left open is closed with a mark."""
        if inbox is not None and (known := await self._known_turn(inbox)) is not None:
            return known
        await self._close_left_open()
        async with self._changing:
            await self._switch(self._room.limits_for(self.key).strategy)
            await self._inject()
            number = self._last_turn + 1
            entry = await self._entry(Message("user", text, speaker=speaker), number)
            await self._room.store.write(
                lambda db: transcript.insert(db, self._row, [entry], inbox)
            )
            self._begin(number)
            self._append([entry])
        return OpenTurn(self, Turn(number, (entry,)))

    async def append(self, turns: Sequence[Sequence[Message]]) -> tuple[Turn, ...]:
        """Add whole turns at the end, as if they had been said now; waits for the running turn."""
        while True:
            await self._idle.wait()
            await self._close_left_open()
            async with self._changing:
                if not self._current:
                    return await self._insert(turns)

    async def _insert(self, turns: Sequence[Sequence[Message]]) -> tuple[Turn, ...]:
        first = self._last_turn + 1
        entries = []
        for number, messages in enumerate(turns, first):
            entries += [await self._entry(message, number) for message in messages]
            await asyncio.sleep(0)  # counting many is work, and others live in this loop
        await self._room.store.write(lambda db: transcript.insert(db, self._row, entries))
        self._append(entries)
        return self._whole[-len(turns) :]

    async def _known_turn(self, inbox: int) -> OpenTurn | None:
        def find(db: Any) -> list[Entry]:
            number = transcript.turn_of_inbox(db, self._row, inbox)
            return transcript.entries_of_turns(db, self._row, [number]) if number else []

        entries = await self._room.store.read(find)
        if not entries:
            return None
        turn = transcript.as_turns(entries)[0]
        if not turn.is_complete:
            self._begin(turn.number)
        return OpenTurn(self, turn)

    async def _close_left_open(self) -> None:
        if self._whole and not self._whole[-1].is_complete:
            left = OpenTurn(self, self._whole[-1])
            await left.break_off("failed", "", "The bot was restarted before it could answer.")

    def _begin(self, number: int) -> None:
        self._current = number
        self._idle.clear()

    def end(self, number: int) -> None:
        """The turn is over: it may leave from now on."""
        if self._current == number:
            self._current = 0
            self._idle.set()
        self._prepare()
        self._house.on_change(self)

    async def _entry(self, message: Message, turn: int) -> Entry:
        tokens = await self._room.meter.message(message)
        limit = self.limits.longest_result
        if message.role == "tool" and tokens > limit:
            message = self._cut_on_arrival(message, limit)
            tokens = await self._room.meter.message(message)
        self._last_seq += 1
        return Entry(self._last_seq, turn, message, tokens, datetime.now(UTC))

    def _cut_on_arrival(self, message: Message, limit: int) -> Message:
        """AgentScope's limit: the model is shown the beginning, with the marker after it."""
        meter = self._room.meter
        beginning = meter.beginning(message.text, max(1, limit - meter.count(TRUNCATED)))
        return replace(message, kept=max(1, len(beginning)))

    def _append(self, entries: Sequence[Entry]) -> None:
        self._whole = _with(self._whole, entries)
        self._shown = _with(self._shown, entries)
        self._last_turn = entries[-1].turn
        self._house.on_change(self)

    async def add(self, turn: int, messages: Sequence[Message], spent: Spent | None) -> list[Entry]:
        """Add messages to the running turn, with what the model's reply cost."""

        def insert(db: Any) -> None:
            transcript.insert(db, self._row, entries)
            if spent is not None:
                ledger.insert(db, self._row, turn, spent)

        async with self._changing:
            entries = [await self._entry(message, turn) for message in messages]
            await self._room.store.write(insert)
            if spent is not None:
                self._spent(spent)
            self._append(entries)
        return entries

    def _spent(self, spent: Spent) -> None:
        self.bill = self.bill.plus(spent)
        self._house.on_spent(self.key, spent)

    async def fit(self, frame: Frame) -> View:
        """Do what the strategy in force wants done now, see to it that the request is below the
        ceiling, and return what the model sees then. Raises NoRoom."""
        async with self._changing:
            limits = self.limits
            view = await self._climb(self.view(frame, limits), frame, limits, 0)
            plan = compaction.due(view, limits, self._events)
            if plan is not None:
                await self._cut(plan)
                view = self.view(frame, limits)
            for step in emergency.STEPS[1:]:
                if view.tokens <= limits.ceiling:
                    return view
                view = await self._climb(view, frame, limits, step)
            if view.tokens > limits.ceiling:
                raise emergency.no_room(view, limits)
            return view

    async def _climb(self, view: View, frame: Frame, limits: Limits, step: int) -> View:
        """Take one step of the ladder, if the request is over the ceiling or was refused."""
        plan = emergency.plan(view, limits, step)
        if plan.change.is_empty:
            return view
        await self._cut(plan, actor="emergency")
        return self.view(frame, limits)

    async def make_room(self, view: View, frame: Frame, window: int, attempt: int) -> bool:
        """After the provider refused the request made from `view`: believe it, and take the next
        step. The first attempt corrects the meter, and only goes as far as that calls for."""
        async with self._changing:
            limits = self.limits
            self._believe(view, limits, window)
            limits = self.limits
            for step in emergency.STEPS[min(attempt, 3) - 1 :]:
                before = self._boundaries
                await self._climb(self.view(frame, limits), frame, limits, step)
                if self._boundaries != before:
                    return True
            return False

    def _believe(self, view: View, limits: Limits, window: int) -> None:
        """The request was longer than the meter said: scale it up to what the window says, unless
        that is so far off that the provider means something else."""
        if 0 < window < limits.window:
            self._house.windows[limits.model] = window
        factor = (window or limits.window) * 1.05 / max(1, view.tokens)
        if 1 < factor <= _BELIEVED:
            ratio = self._house.ratios.get(limits.model, 1.0)
            self._house.ratios[limits.model] = ratio * factor
            self._anchor = None

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Correct the meter by what the provider counted for the request made from `view`."""
        raw = view.raw_tokens
        self._anchor = _Anchor(reported, raw, model, view.boundaries)
        old = self._house.ratios.get(model, 1.0)
        new = calibrated(old, reported, raw) if raw >= _SMALL else old
        if abs(new - old) > _DRIFT * old:
            self._house.ratios[model] = new
            await self._room.store.write(lambda db: ledger.save_ratio(db, model, new))


def _with(turns: tuple[Turn, ...], entries: Sequence[Entry]) -> tuple[Turn, ...]:
    """The turns with entries added at the end."""
    for entry in entries:
        if turns and turns[-1].number == entry.turn:
            turns = (*turns[:-1], turns[-1].plus(entry))
        else:
            turns = (*turns, Turn(entry.turn, (entry,)))
    return turns
