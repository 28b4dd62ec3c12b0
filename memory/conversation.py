"""The room's door: a conversation, what of it is in play, and the turn that runs in it.

A `Conversation` is one line of talk: it is used from the event loop only, and one turn at a time
(`bot/turns` sees to that); everything else (`/context`, `/context clear`, …) may come at any
moment, also in the middle of a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from memory.context import compaction, emergency
from memory.context.change import Boundaries
from memory.context.limits import Limits
from memory.context.log import log_lines
from memory.context.meter import Frame, calibrated, is_absurd
from memory.context.plan import Plan
from memory.context.view import Scale, View, shown
from memory.errand import Errand
from memory.events import NOTHING, Event, EventName, Verdict
from memory.messages import Image, Message, truncated
from memory.open_turn import OpenTurn
from memory.record import ledger, mailbox, offload, transcript
from memory.record.ledger import Bill, Spent
from memory.stage import Anchor
from memory.steering import Steering
from memory.turns import Entry, Turn

_SMALL = 200  # raw tokens below which a report says little about a model's ratio
_DRIFT = 0.02  # a ratio is stored again when it moved by more than this share
_BELIEVED = 3.0  # how far the meter may be off by what an overflow says


class Conversation(Steering):
    """One conversation: its turns, and the requests that fit."""

    async def tell(self, event: Event) -> Verdict:
        """Tell who listens that something happens in this conversation."""
        return await self._room.events.emit(event)

    def is_heard(self, name: EventName) -> bool:
        """Whether anyone wants to hear such an event; where no one does, none need be made."""
        return self._room.events.minds(name)

    async def bill_for(self, purpose: str) -> Bill:
        """What calls for a purpose have cost in this conversation: "answer", "summary"."""
        return await self._room.store.read(lambda db: ledger.bill(db, self._row, purpose=purpose))

    async def begin_session(self) -> Verdict:
        """Tell who listens that this is the first turn since the conversation was loaded."""
        if self._is_in_session:
            return NOTHING
        self._is_in_session = True
        return await self.tell(Event("session_start", self, self._current))

    async def end_session(self) -> None:
        """Tell who listens that the session that was begun is over."""
        if self._is_in_session:
            self._is_in_session = False
            await self.tell(Event("session_end", self))

    async def turn(
        self,
        text: str,
        speaker: str = "",
        inbox: int | None = None,
        images: tuple[Image, ...] = (),
        person: str = "",
    ) -> OpenTurn:
        """Open a turn. One that was opened for the same inbox row before a crash goes on where it
        was; another that was left open is closed with a mark. `person` is who pays for it."""
        if inbox is not None and (known := await self._known_turn(inbox)) is not None:
            return known
        await self._close_left_open()
        async with self._changing:
            await self._switch(self._room.limits_for(self.key).strategy)
            await self._reframe()
            await self._inject()
            number = self._last_turn + 1
            question = Message("user", text, speaker=speaker, images=images)
            entry = await self._entry(question, number)
            await self._room.store.write(
                lambda db: transcript.insert(
                    db, self._row, [entry], [] if inbox is None else [inbox], person
                ),
                is_synced=inbox is None,  # else the inbox has the message, for the next start
            )
            self._last_inbox = max(self._last_inbox, inbox or 0)
            self._person = person
            self._begin(number)
            self._append([entry])
        return OpenTurn(self, Turn(number, (entry,)))

    async def append(
        self, turns: Sequence[Sequence[Message]], times: Sequence[datetime] = ()
    ) -> tuple[Turn, ...]:
        """Add whole turns at the end; waits for the running turn. `times` says when each message
        was said, one after the other; left out, it is now."""
        while True:
            await self._idle.wait()
            await self._close_left_open()
            async with self._changing:
                if not self._current:
                    return await self._insert(turns, times)

    async def _insert(
        self, turns: Sequence[Sequence[Message]], times: Sequence[datetime]
    ) -> tuple[Turn, ...]:
        first = self._last_turn + 1
        entries = []
        for number, messages in enumerate(turns, first):
            entries += [await self._entry(message, number) for message in messages]
            await asyncio.sleep(0)  # counting many is work, and others live in this loop
        if times:
            entries = [replace(e, at=at) for e, at in zip(entries, times, strict=True)]
        await self._room.store.write(lambda db: transcript.insert(db, self._row, entries))
        self._append(entries)
        self._mirror()
        return self._whole[-len(turns) :]

    async def _known_turn(self, inbox: int) -> OpenTurn | None:
        """The turn that was opened for this inbox row, if one was. Rows are numbered upwards."""
        if inbox > self._last_inbox:
            return None

        def find(db: Any) -> tuple[list[Entry], frozenset[str]]:
            number = transcript.turn_of_inbox(db, self._row, inbox)
            if not number:
                return [], frozenset()
            entries = transcript.entries_of_turns(db, self._row, [number])
            return entries, transcript.begun_calls(db, self._row, number)

        entries, begun = await self._room.store.read(find)
        if not entries:
            return None
        turn = transcript.as_turns(entries)[0]
        if not turn.is_complete:
            self._begin(turn.number)
        return OpenTurn(self, turn, not turn.is_complete, begun)

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
        self._house.indexer.turn_ended(self._row)
        self._house.on_change(self)
        self._mirror()

    async def _entry(self, message: Message, turn: int) -> Entry:
        message, tokens = await self.weighed(message)
        self._last_seq += 1
        return Entry(self._last_seq, turn, message, tokens, datetime.now(UTC))

    async def weighed(self, message: Message) -> tuple[Message, int]:
        """A message as it arrives, cut where it is a result that is too long; and its tokens."""
        limits = self.limits
        tokens = await self._room.meter.message(message, limits.picture)
        if message.role == "tool" and tokens > limits.longest_result:
            message = await self._cut_on_arrival(message, limits.longest_result)
            tokens = await self._room.meter.message(message)
        return message, tokens

    async def _cut_on_arrival(self, message: Message, limit: int) -> Message:
        """AgentScope's limit: the model is shown the beginning, with the marker after it, which
        names the file that holds the whole."""
        offloader, meter = self._room.offloader_for(self.key), self._room.meter
        file = ""
        if offloader is not None:
            file = await offload.attempted(offloader.offload_tool_result(self.key.id, message))
        beginning = meter.beginning(message.text, max(1, limit - meter.count(truncated(file))))
        return replace(message, kept=max(1, len(beginning)), offloaded=file)

    def _append(self, entries: Sequence[Entry]) -> None:
        self._whole = _with(self._whole, entries)
        self._shown = _with(self._shown, entries)
        if self.strategy.preface == "exchange":
            fresh = {entry.turn for entry in entries}
            turns = (turn for turn in self._whole if turn.number in fresh)
            self._lines += log_lines(turns, self._room.meter)
        self._last_turn = entries[-1].turn
        self._house.on_change(self)

    async def add(
        self,
        turn: int,
        messages: Sequence[Message],
        spent: Spent | None,
        inbox: Sequence[int] = (),
    ) -> list[Entry]:
        """Add messages to the running turn, with what the model's reply cost; or with the inbox
        rows that they came in with, which need no answer of their own then."""

        def insert(db: Any) -> None:
            transcript.insert(db, self._row, entries, inbox)
            for row in inbox:
                mailbox.close(db, row)
            if spent is not None:
                ledger.insert(db, self._row, turn, spent)

        async with self._changing:
            entries = [await self._entry(message, turn) for message in messages]
            # A final reply goes into the outbox next, and that commit, which is synced, makes both
            # last; without it the turn is answered again.
            await self._room.store.write(insert, is_synced=not messages[-1].is_final)
            if spent is not None:
                self._spent(spent)
            self._last_inbox = max(self._last_inbox, *inbox, 0)
            self._append(entries)
        return entries

    async def fit(self, frame: Frame) -> View:
        """Do what the strategy in force wants done now, see to it that the request is below the
        ceiling, and return what the model sees then. Raises NoRoom."""
        is_free = await self._is_free_to_cut(frame)
        async with self._changing:
            limits = self.limits
            view = await self._climb(self.view(frame, limits), frame, limits, 0)
            plan = compaction.due(view, limits, self._outcome.move)
            if plan is not None and is_free:
                await self._cut(plan)
                view = self.view(frame, limits)
            for step in emergency.STEPS[1:]:
                if view.tokens <= limits.ceiling:
                    return view
                view = await self._climb(view, frame, limits, step)
            if view.tokens > limits.ceiling:
                raise emergency.no_room(view, limits)
            return view

    async def _is_free_to_cut(self, frame: Frame) -> bool:
        """Whether no listener has a veto against the cut that is due. Where the strategy waits for
        its summary, that is there afterwards."""
        if not (self.strategy.waits or self.is_heard("pre_compact")):
            return True
        plan = self.due(frame)
        if plan is None:
            return True
        if await self._is_vetoed(plan):
            return False
        if self.strategy.waits and plan.leaving:
            await self.scribe.ahead(self._wanted_for(plan))
        return True

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
            self.believe(view, limits, window)
            limits = self.limits
            for step in emergency.STEPS[min(attempt, 3) - 1 :]:
                before = self._boundaries
                await self._climb(self.view(frame, limits), frame, limits, step)
                if self._boundaries != before:
                    return True
            return False

    def believe(self, view: View, limits: Limits, window: int) -> None:
        """The request was longer than the meter said: scale it up to what the window says, unless
        that is so far off that the provider means something else."""
        if 0 < window < limits.window:
            self._house.windows[limits.model] = window
        factor = (window or limits.window) * 1.05 / max(1, view.tokens)
        if 1 < factor <= _BELIEVED:
            ratio = self._house.ratios.get(limits.model, 1.0)
            self._house.ratios[limits.model] = ratio * factor
            self._anchor = None

    async def begin_call(self, turn: int, call: str) -> None:
        """Keep that a tool call has begun; on disk when this returns."""
        await self._room.store.write(lambda db: transcript.begin_call(db, self._row, turn, call))

    async def errand(self, turn: int, task: str, call: str) -> Errand:
        """What a sub-agent works on that a call in this turn sent: its task alone."""
        message, tokens = await self.weighed(Message("user", task))
        return Errand(self, Entry(1, turn, message, tokens, datetime.now(UTC)), call)

    def alone(self, turn: Turn, boundaries: Boundaries, frame: Frame) -> View:
        """The view of a turn that stands by itself, as a sub-agent's does."""
        limits = self.limits
        return View(
            (turn,),
            shown((turn,), boundaries),
            self._room.meter.frame(frame),
            boundaries,
            Scale(self._house.ratios.get(limits.model, 1.0)),
            current=turn.number,
            newest=turn.number,
        )

    async def clipped(self, view: View, plan: Plan) -> Boundaries:
        """The boundaries of `view` after the clips of a plan, counted."""
        change = await compaction.measured(plan.change, view, self._room.meter)
        return view.boundaries.moved_by(change)

    async def book(self, turn: int, spent: Spent) -> None:
        """Put a call to a model on this conversation's bill."""
        await self._room.store.write(lambda db: ledger.insert(db, self._row, turn, spent))
        self._spent(spent)

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Correct the meter by what the provider counted for the request made from `view`."""
        raw = view.raw_tokens
        has_pictures = any(message.images for message in view.messages)  # whose size is a guess
        if is_absurd(reported, raw) and not has_pictures:
            return
        self._anchor = Anchor(reported, raw, model, view.boundaries)
        old = self._house.ratios.get(model, 1.0)
        new = calibrated(old, reported, raw) if raw >= _SMALL and not has_pictures else old
        if abs(new - old) > _DRIFT * old:
            self._house.ratios[model] = new
            await self._room.store.write(
                lambda db: ledger.save_ratio(db, model, new), is_synced=False
            )


def _with(turns: tuple[Turn, ...], entries: Sequence[Entry]) -> tuple[Turn, ...]:
    """The turns with entries added at the end."""
    for entry in entries:
        if turns and turns[-1].number == entry.turn:
            turns = (*turns[:-1], turns[-1].plus(entry))
        else:
            turns = (*turns, Turn(entry.turn, (entry,)))
    return turns
