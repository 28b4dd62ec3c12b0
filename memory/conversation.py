"""The room's door: a conversation, what of it is in play, and the turn that runs in it.

A `Conversation` is one line of talk: it is used from the event loop only, and one turn at a time
(`bot/sessions` sees to that); everything else (`/context`, `/context clear`, …) may come at any
moment, also in the middle of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from memory.context import compaction
from memory.context.change import Boundaries, Change, ViewEvent, numbered, standing, summed
from memory.context.limits import Limits, LimitsFor
from memory.context.meter import Frame, Meter, calibrated
from memory.context.plan import Plan
from memory.context.view import Scale, View, shown
from memory.keys import ConversationKey
from memory.messages import Mark, Message, ToolCall
from memory.record import ledger, transcript
from memory.record.ledger import Bill, Spent
from memory.record.store import Store
from memory.turns import Entry, Turn

FrameFor = Callable[[ConversationKey], Frame]
_SMALL = 200  # raw tokens below which a report says little about a model's ratio
_DRIFT = 0.02  # a ratio is stored again when it moved by more than this share


class Conversations:
    """All conversations of one store; each is restored from disk when it is first asked for."""

    def __init__(self, store: Store, meter: Meter, limits_for: LimitsFor, frame_for: FrameFor):
        self.store, self.meter = store, meter
        self.limits_for, self.frame_for = limits_for, frame_for
        self.ratios: dict[str, float] = {}
        self.on_change: Callable[[Conversation], None] = lambda conversation: None
        self._open: dict[str, asyncio.Task[Conversation]] = {}

    async def restore_ratios(self) -> None:
        """Read each model's calibration; done once, at start."""
        self.ratios = await self.store.read(ledger.ratios)

    async def get(self, key: ConversationKey) -> Conversation:
        """The conversation of this key; asked for twice at once, it is loaded once."""
        task = self._open.get(key.id)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._open[key.id] = asyncio.create_task(self._load(key))
        return await asyncio.shield(task)

    async def _load(self, key: ConversationKey) -> Conversation:
        await self.meter.ready()
        row = await self.store.write(lambda db: transcript.find_or_create(db, key))
        events = await self.store.read(lambda db: transcript.events_of(db, row.id))
        bill = await self.store.read(lambda db: ledger.bill(db, row.id))
        conversation = Conversation(self, key, row, events, bill)
        await conversation.reload()
        return conversation


@dataclass(frozen=True, slots=True)
class Cleared:
    """What a clear put away."""

    turns: tuple[int, ...]
    messages: int
    tokens: int


class Conversation:
    """One conversation: its turns in play, its boundaries, its meter."""

    def __init__(
        self,
        house: Conversations,
        key: ConversationKey,
        row: transcript.ConversationRow,
        events: list[ViewEvent],
        bill: Bill,
    ) -> None:
        self.key = key
        self.bill = bill
        self._house, self._store, self._row = house, house.store, row.id
        self._last_seq, self._last_turn = row.last_seq, row.last_turn
        self._events = events
        self._turns: tuple[Turn, ...] = ()
        self._boundaries = Boundaries()
        self._boundaries_for = ""
        self._current = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._anchor: _Anchor | None = None
        self._changing = asyncio.Lock()

    # --- what is there ---------------------------------------------------------------------

    @property
    def limits(self) -> Limits:
        """The limits in force now."""
        return self._house.limits_for(self.key)

    @property
    def frame(self) -> Frame:
        """What would be sent besides the conversation now."""
        return self._house.frame_for(self.key)

    @property
    def events(self) -> Sequence[ViewEvent]:
        """All that ever changed the view, oldest first."""
        return tuple(self._events)

    @property
    def last_cut(self) -> ViewEvent | None:
        """The newest standing event that put something away."""
        cuts = [event for event in standing(self._events) if event.kind not in ("pin", "unpin")]
        return cuts[-1] if cuts else None

    @property
    def is_in_turn(self) -> bool:
        return self._current != 0

    def view(self, frame: Frame | None = None, limits: Limits | None = None) -> View:
        """What the model would see now."""
        limits = limits or self.limits
        sizes = self._house.meter.frame(frame or self.frame)
        view = View(self._turns, sizes, self._boundaries, current=self._current)
        return replace(view, scale=self._scale(view, limits))

    def due(self) -> Plan | None:
        """What the strategy in force would do before the next step."""
        limits = self.limits
        return compaction.due(self.view(limits=limits), limits)

    async def wait_for_turn(self) -> None:
        """Wait until no turn is open."""
        await self._idle.wait()

    async def tokens_of(self, text: str) -> int:
        """Raw tokens of a text, for figures that no provider reported."""
        return await self._house.meter.message(Message("assistant", text))

    async def count(self) -> int:
        """How many messages the transcript holds, in play or not."""
        return await self._store.read(lambda db: transcript.count_messages(db, self._row))

    def _scale(self, view: View, limits: Limits) -> Scale:
        ratio = self._house.ratios.get(limits.model, 1.0)
        anchor = self._anchor
        if anchor is None or anchor.model != limits.model:
            return Scale(ratio)
        raw = view.raw_tokens
        is_measured = anchor.boundaries == self._boundaries and anchor.raw <= raw
        return Scale(ratio, anchor.reported - ratio * anchor.raw, is_measured)

    # --- boundaries ------------------------------------------------------------------------

    async def reload(self) -> None:
        """Build the turns in play anew from the transcript and the events that hold."""
        strategy = self.limits.strategy
        boundaries = summed(self._events, strategy)
        entries = await self._store.read(
            lambda db: (
                transcript.entries_of_turns(db, self._row, boundaries.keep)
                + transcript.entries_from(db, self._row, boundaries.cut)
            )
        )
        unique = {entry.seq: entry for entry in entries}
        turns = transcript.as_turns(unique[seq] for seq in sorted(unique))
        self._boundaries, self._boundaries_for = boundaries, strategy
        self._turns = shown(turns, boundaries)

    async def carry_out(self, event: ViewEvent) -> None:
        """Store an event that narrows the view, then move the boundaries by it."""
        await self._store_event(event)
        self._boundaries = self._boundaries.moved_by(event.change)
        self._turns = shown(self._turns, self._boundaries)
        self._house.on_change(self)

    async def _store_event(self, event: ViewEvent) -> None:
        row = await self._store.write(lambda db: transcript.insert_event(db, self._row, event))
        self._events.append(numbered(event, row))

    async def clear(self, kind: str = "clear") -> Cleared:
        """Put everything but the running turn away, by a person's wish. Nothing is deleted."""
        async with self._changing:
            view = self.view()
            gone = [turn for turn in view.turns if turn.number != self._current]
            cleared = Cleared(
                tuple(turn.number for turn in gone),
                sum(len(turn.entries) for turn in gone),
                view.scale.part(sum(turn.tokens for turn in gone)),
            )
            if gone:
                seq = max(turn.entries[-1].seq for turn in gone) + 1
                change = Change(cut=seq, drop=self._boundaries.pinned & set(cleared.turns))
                event = ViewEvent(
                    at=datetime.now(UTC),
                    kind="new" if kind == "new" else "clear",
                    actor="person",
                    reason="asked for by a person",
                    change=change,
                    tokens_before=view.tokens,
                    tokens_after=view.tokens - cleared.tokens,
                )
                await self.carry_out(event)
            return cleared

    async def undo(self) -> ViewEvent | None:
        """Take the newest standing event back; returns it, or None when there is none."""
        async with self._changing:
            if not (held := standing(self._events)):
                return None
            undone = held[-1]
            event = ViewEvent(
                at=datetime.now(UTC),
                kind="undo",
                actor="person",
                reason="asked for by a person",
                change=Change(target=undone.id),
            )
            await self._store_event(event)
            await self.reload()
            self._house.on_change(self)
            return undone

    # --- turns -----------------------------------------------------------------------------

    async def turn(self, text: str, speaker: str = "", inbox: int | None = None) -> OpenTurn:
        """Open a turn. One that was opened for the same inbox row before a crash goes on where it
        was; another that was left open is closed with a mark."""
        if inbox is not None and (known := await self._known_turn(inbox)) is not None:
            return known
        await self._close_left_open()
        number = self._last_turn + 1
        entry = await self._entry(Message("user", text, speaker=speaker), number)
        await self._store.write(lambda db: transcript.insert(db, self._row, [entry], inbox))
        self._append([entry])
        self._begin(number)
        return OpenTurn(self, Turn(number, (entry,)))

    async def _known_turn(self, inbox: int) -> OpenTurn | None:
        def find(db: Any) -> list[Entry]:
            number = transcript.turn_of_inbox(db, self._row, inbox)
            return transcript.entries_of_turns(db, self._row, [number]) if number else []

        entries = await self._store.read(find)
        if not entries:
            return None
        turn = transcript.as_turns(entries)[0]
        if not turn.is_complete:
            self._begin(turn.number)
        return OpenTurn(self, turn)

    def _begin(self, number: int) -> None:
        self._current = number
        self._idle.clear()

    def _end(self) -> None:
        self._current = 0
        self._idle.set()
        self._house.on_change(self)

    async def _close_left_open(self) -> None:
        if self._turns and not self._turns[-1].is_complete:
            left = OpenTurn(self, self._turns[-1])
            await left.break_off("failed", "", "The bot was restarted before it could answer.")

    async def _entry(self, message: Message, turn: int) -> Entry:
        tokens = await self._house.meter.message(message)
        self._last_seq += 1
        return Entry(self._last_seq, turn, message, tokens, datetime.now(UTC))

    def _append(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if self._turns and self._turns[-1].number == entry.turn:
                self._turns = (*self._turns[:-1], self._turns[-1].plus(entry))
            else:
                self._turns = (*self._turns, Turn(entry.turn, (entry,)))
            self._last_turn = entry.turn
        self._house.on_change(self)

    async def _record(self, turn: int, messages: Sequence[Message], spent: Spent | None) -> None:
        entries = [await self._entry(message, turn) for message in messages]

        def insert(db: Any) -> None:
            transcript.insert(db, self._row, entries)
            if spent is not None:
                ledger.insert(db, self._row, turn, spent)

        await self._store.write(insert)
        if spent is not None:
            self.bill = self.bill.plus(spent)
        self._append(entries)

    async def fit(self, frame: Frame) -> View:
        """Do what the strategy in force wants done now, and return what the model sees then."""
        async with self._changing:
            limits = self.limits
            if limits.strategy != self._boundaries_for:
                await self.reload()
            view = self.view(frame, limits)
            plan = compaction.due(view, limits)
            if plan is not None:
                await self.carry_out(compaction.event_of(plan, view, limits))
                view = self.view(frame, limits)
            return view

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Correct the meter by what the provider counted for the request made from `view`."""
        raw = view.raw_tokens
        self._anchor = _Anchor(reported, raw, model, view.boundaries)
        old = self._house.ratios.get(model, 1.0)
        new = calibrated(old, reported, raw) if raw >= _SMALL else old
        if abs(new - old) > _DRIFT * old:
            self._house.ratios[model] = new
            await self._store.write(lambda db: ledger.save_ratio(db, model, new))


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The last request that the provider counted: its tokens by the provider, and raw."""

    reported: int
    raw: int
    model: str
    boundaries: Boundaries


class OpenTurn:
    """A turn under way: what the agent records in it. It is over when a final message stands."""

    def __init__(self, conversation: Conversation, turn: Turn) -> None:
        self.conversation = conversation
        self.number = turn.number
        self.entries = list(turn.entries)

    @property
    def id(self) -> str:
        return f"t{self.number}"

    @property
    def reply(self) -> Message | None:
        """The final reply, once there is one."""
        last = self.entries[-1].message
        return last if last.is_final else None

    @property
    def is_over(self) -> bool:
        return self.entries[-1].message.is_final

    @property
    def steps(self) -> int:
        """Model replies so far."""
        return sum(entry.message.role == "assistant" for entry in self.entries)

    @property
    def unanswered(self) -> list[ToolCall]:
        """Calls that have no result yet, in the order in which the model made them."""
        messages = [entry.message for entry in self.entries]
        answered = {message.call_id for message in messages if message.role == "tool"}
        return [c for m in messages for c in m.tool_calls if c.id not in answered]

    async def fit(self, frame: Frame) -> View:
        """What the model sees at this step, within the limits in force now."""
        return await self.conversation.fit(frame)

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages to the turn; on disk when this returns. A final one ends the turn."""
        if self.entries[-1].message.is_final:
            raise RuntimeError(f"{self.id} is over; nothing can be added to it")
        await self.conversation._record(self.number, messages, spent)
        turn = self.conversation._turns[-1]
        self.entries = list(turn.entries)
        if self.is_over:
            self.conversation._end()

    async def break_off(self, mark: Mark, text: str, sentence: str) -> None:
        """End the turn before its time: calls without a result get one that says so, and what the
        model had said so far is kept, with `sentence` after it. A turn that is over stays."""
        if self.is_over:
            return
        results = [
            Message("tool", sentence, call_id=call.id, tool=call.name, is_error=True)
            for call in self.unanswered
        ]
        whole = f"{text.rstrip()}\n\n({sentence})" if text.strip() else f"({sentence})"
        await self.record(*results, Message("assistant", whole, mark=mark))
