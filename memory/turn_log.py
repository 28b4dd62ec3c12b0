"""The turns of a conversation as they run: opened, extended, closed; and the open turn, as the
agent sees it and records to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Protocol

from msgspec.structs import replace

from memory.calibration import Calibration, CutPrompt
from memory.compactor import Compactor
from memory.context.meter import PromptPrefix
from memory.context.settings import Limits
from memory.context.view import View
from memory.context_state import ContextState
from memory.events import NOTHING, Event, EventName, Verdict
from memory.ledger import Bill, Spent
from memory.messages import Image, Mark, Message, ToolCall, format_truncation
from memory.record import mailbox, offload, transcript
from memory.record.database import Database
from memory.request_fitter import Overflow, RequestFitter
from memory.services import MemoryServices, OutgoingRequest
from memory.tasks import run_shielded
from memory.turns import Entry, Turn

BROKEN_OFF = "This call was ended before it was done; it is not known whether it had any effect."
"""The result of an interrupted turn's call."""

_MOST_BYTES = 4  # of a character in UTF-8

LEFT_OPEN = "This was not answered: it could not be saved, or the bot was restarted."
"""The end of a turn that was interrupted by a database fault or the end of the process."""


class AnswerRows(Protocol):
    """The rows that are written in the transaction of a turn's final message."""

    def insert(self, database: Database) -> None: ...


class TurnHost(Protocol):
    """The part of the bot that runs a turn."""

    async def before_step(self, turn: OpenTurn) -> None:
        """Add new messages to the turn (`OpenTurn.add_messages`)."""
        ...

    async def after_answer(self, turn: OpenTurn, answer: Message) -> AnswerRows | None:
        """Return the rows that belong to the final message of a turn, or None."""
        ...


class TurnOwner(Protocol):
    """The conversation that the turns belong to."""

    def turn_ended(self) -> None:
        """Handle the end of a turn, or the addition of whole turns."""
        ...

    async def handle_words(self, texts: Sequence[str]) -> None:
        """Handle new messages of people, once they are on disk."""
        ...


class TurnLog:
    """Opens turns and adds to them; each entry is on disk before it is in memory. Turns without an
    `owner` belong to no conversation. `is_in_session` says whether listeners were notified of a
    session that has not ended."""

    def __init__(
        self,
        services: MemoryServices,
        state: ContextState,
        calibration: Calibration,
        compactor: Compactor,
        owner: TurnOwner | None,
    ) -> None:
        self.services, self.state, self.calibration = services, state, calibration
        self.compactor, self._owner = compactor, owner
        self.fitter = RequestFitter(services, state, calibration, compactor)
        self.requests = services.request_log(services.redactor)
        self.is_in_session = False

    async def open(
        self,
        text: str,
        speaker: str = "",
        inbox: int | None = None,
        images: tuple[Image, ...] = (),
        person: str = "",
        files: tuple[str, ...] = (),
        is_tainted: bool = False,
    ) -> OpenTurn:
        """Open a turn. A turn that was opened for the same inbox row before a crash is resumed;
        another open turn is closed with a mark. `person` pays for it."""
        state = self.state
        if (
            inbox is not None
            and inbox <= state.last_inbox  # rows are numbered upwards
            and (known := await self._find_known_turn(inbox)) is not None
        ):
            return known
        await self._close_left_open()
        async with state.changing:
            await self.fitter.flush()
            number = state.newest + 1
            question = Message(
                "user", text, speaker=speaker, images=images, files=files, is_tainted=is_tainted
            )
            entry = await self._entry(question, number)
            await self.services.store.write(
                lambda db: transcript.insert(
                    db, state.row, [entry], [] if inbox is None else [inbox], person
                ),
                is_synced=inbox is None,  # otherwise the inbox has the message for the next start
            )
            state.last_inbox = max(state.last_inbox, inbox or 0)
            state.person = person
            self._begin(number)
            state.append([entry])
        await self._notify_words([entry])
        return OpenTurn(self, state.whole[-1])

    async def append(
        self,
        turns: Sequence[Sequence[Message]],
        times: Sequence[datetime] = (),
        may: Callable[[], bool] = lambda: True,
    ) -> tuple[Turn, ...]:
        """Append whole turns; waits for the running turn. `times` are the times of the messages, in
        order; by default, now. `may` is called while the conversation is locked; if it returns
        False, nothing is added."""
        while True:
            await self.state.idle.wait()
            await self._close_left_open()
            async with self.state.changing:
                if not self.state.current:
                    added = await self._insert(turns, times) if may() else ()
                    break
        await self._notify_words([entry for turn in added for entry in turn.entries])
        return added

    async def _insert(
        self, turns: Sequence[Sequence[Message]], times: Sequence[datetime]
    ) -> tuple[Turn, ...]:
        state = self.state
        entries = []
        for number, messages in enumerate(turns, state.newest + 1):
            entries += [await self._entry(message, number) for message in messages]
            await asyncio.sleep(0)  # counting tokens takes time, so let other tasks run
        if times:
            entries = [replace(e, at=at) for e, at in zip(entries, times, strict=True)]
        await self.services.store.write(lambda db: transcript.insert(db, state.row, entries))
        state.append(entries)
        if self._owner is not None:
            self._owner.turn_ended()
        return state.whole[-len(turns) :]

    async def _notify_words(self, entries: Sequence[Entry]) -> None:
        """Notify the owner of what people wrote in these entries, which are on disk."""
        texts = [entry.message.text for entry in entries if entry.message.role == "user"]
        if texts and self._owner is not None:
            await self._owner.handle_words(texts)

    async def _find_known_turn(self, inbox: int) -> OpenTurn | None:
        """Return the turn that was opened for this inbox row, if one was."""
        row = self.state.row

        def find(db: Any) -> tuple[list[Entry], dict[str, bool]]:
            number = transcript.turn_of_inbox(db, row, inbox)
            if not number:
                return [], {}
            entries = transcript.entries_of_turns(db, row, [number])
            return entries, transcript.list_begun_calls(db, row, number)

        entries, begun = await self.services.store.read(find)
        if not entries:
            return None
        turn = transcript.as_turns(entries)[0]
        if not turn.is_complete:
            self._begin(turn.number)
        await self._notify_words(entries)  # the process may have died before this
        return OpenTurn(self, turn, not turn.is_complete, begun)

    async def _close_left_open(self) -> None:
        whole = self.state.whole
        if whole and not whole[-1].is_complete:
            left = OpenTurn(self, whole[-1])
            await left.end_early("failed", "", LEFT_OPEN)

    def _begin(self, number: int) -> None:
        self.state.current = number
        self.state.prefix_sent = None
        self.state.idle.clear()

    def end(self, number: int) -> None:
        """Mark the turn as ended: it may be removed from the context from now on."""
        if self.state.current == number:
            self.state.current = 0
            self.state.idle.set()
        self.compactor.after_turn()
        self.state.notify()
        if self._owner is not None:
            self._owner.turn_ended()

    async def add(
        self,
        turn: int,
        messages: Sequence[Message],
        spent: Spent | None,
        inbox: Sequence[int] = (),
        sent: Sequence[Any] = (),
        rows: AnswerRows | None = None,
    ) -> list[Entry]:
        """Add messages to the running turn, with the cost of the model's reply and the requests
        that were sent for it; or with the inbox rows that they came from, which are then done.
        `rows` are written in the same transaction."""
        state, limits, ledger = self.state, self.state.limits, self.services.ledger

        def insert(db: Any) -> None:
            transcript.insert(db, state.row, entries, inbox)
            for row in inbox:
                mailbox.close(db, row)
            for message in messages:
                if message.role == "tool":
                    transcript.end_call(db, state.row, turn, message.call_id)
            if spent is not None:
                ledger.insert(db, state.row, turn, spent, state.person)
            self.requests.insert(db, state.row, sent, limits)
            if rows is not None:
                rows.insert(db)

        async with state.changing:
            entries = [await self._entry(message, turn) for message in messages]
            # Without `rows`, a final reply is written to the outbox next; that synced commit makes
            # both durable. If it fails, the turn is answered again.
            is_synced = rows is not None or not messages[-1].is_final
            await self.services.store.write(insert, is_synced=is_synced)
            state.last_inbox = max(state.last_inbox, *inbox, 0)
            state.append(entries)
        if inbox:
            await self._notify_words(entries)
        return entries

    async def _entry(self, message: Message, turn: int) -> Entry:
        message, tokens = await self.receive(message)
        self.state.last_seq += 1
        return Entry(self.state.last_seq, turn, message, tokens, datetime.now(UTC))

    async def receive(self, message: Message) -> tuple[Message, int]:
        """Return an incoming message, truncated if it is a result that is too long; and its
        tokens."""
        meter = self.services.meter
        if message.role != "tool" and not message.images:  # no limit applies
            return message, await meter.message(message)
        limits = self.state.limits
        longest, text = limits.longest_result, message.text
        # A token has at least a byte; of a long text only the shown part is counted.
        may_be_long = message.role == "tool" and _MOST_BYTES * len(text) > longest
        if may_be_long and len(await meter.clip_in_thread(text, longest)) < len(text):
            message = await self._cut_on_arrival(message, longest)
        return message, await meter.message(message, limits.picture)

    async def _cut_on_arrival(self, message: Message, limit: int) -> Message:
        """Apply AgentScope's limit: the model sees the beginning, followed by the marker with the
        file of the whole."""
        key, meter = self.state.key, self.services.meter
        offloader = self.services.rules.offloader(key)
        file = ""
        if offloader is not None:
            file = await offload.attempt(lambda: offloader.offload_tool_result(key.id, message))
        room = max(1, limit - meter.count(format_truncation(file)))
        beginning = await meter.clip_in_thread(message.text, room)
        return replace(message, kept=max(1, len(beginning)), offloaded=file)

    async def begin_call(self, turn: int, call: str, *, is_once: bool) -> None:
        """Store that a tool call has begun, for a start after a crash. It survives a power cut only
        if the call must not run twice."""
        row = self.state.row
        await self.services.store.write(
            lambda db: transcript.begin_call(db, row, turn, call, is_once), is_synced=is_once
        )

    async def book(self, turn: int, spent: Spent) -> None:
        """Add a call to a model to this conversation's bill."""
        await self.state.pay(spent, turn)

    # --- listeners -------------------------------------------------------------------------------

    async def begin_session(self) -> Verdict:
        """Notify listeners of the first turn since the conversation was loaded."""
        if self.is_in_session:
            return NOTHING
        self.is_in_session = True
        begins = Event("session_start", self.state.key, self.state.current)
        return await self.services.events.emit(begins)

    async def end_session(self) -> None:
        """Notify listeners of the end of the session."""
        if self.is_in_session:
            self.is_in_session = False
            await self.services.events.emit(Event("session_end", self.state.key))


def describe_cut_prompt(model: str, cut: CutPrompt) -> str:
    """Return a notice about a server that truncates prompts, with advice."""
    return (
        f"**{model} has read only about {cut.read:,} of the {cut.sent:,} tokens that were sent.** "
        "Its server truncates longer prompts without telling, so its answers may ignore most of "
        "what you said. Make the server's window larger (Ollama: `num_ctx` of the model, or "
        "OLLAMA_CONTEXT_LENGTH for the server), or say how large it is, as in `/config "
        f"context.max_tokens {cut.read}`, and no more than that is sent."
    )


class OpenTurn:
    """An open turn; it ends with a final message. `is_resumed` says whether it continues after a
    crash; `host` is the part of the bot that runs it; `bill` is its cost so far, in this process.
    `reply` is the final reply, once there is one.
    `begun` are the ids of calls that had begun when the process died, with whether each must not
    run twice. `finish` is the end of the model's last reply ("complete", "length"). `notices` are
    sentences for the person besides the reply."""

    is_alone = False
    """The turn is in no transcript: it can't start sub-agents or show pictures, and its requests
    can't be reproduced."""
    _given = 0
    """The number of the first entries that are a client's."""

    def __init__(
        self,
        log: TurnLog,
        turn: Turn,
        is_resumed: bool = False,
        begun: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        self.log = log
        self.begun = dict(begun)
        self.number, self.id = turn.number, turn.id
        self.entries = list(turn.entries)
        self.reply = self._to_reply(self.entries[-1].message)
        self.is_resumed = is_resumed
        self.host: TurnHost | None = None
        self.bill = Bill()
        self.finish = ""
        self.notices: tuple[str, ...] = ()
        self._overflows = 0
        self._is_doubtful = False
        self._has_seen_outside = False
        self._cut = ""
        self._event = 0  # the newest event in the view of the next request
        self._fitted: View | None = None  # the view of the latest request, fitted
        self._limits: Limits  # of its step
        self._sent: list[Any] = []  # rows of requests that are not recorded yet

    def _to_reply(self, last: Message) -> Message | None:
        """Return the last message if it ends the turn."""
        return last if last.is_final else None

    @property
    def steps(self) -> int:
        """The number of model replies so far."""
        return sum(entry.message.role == "assistant" for entry in self.entries[self._given :])

    @property
    def unanswered(self) -> list[ToolCall]:
        """The calls without a result, in the order in which the model made them."""
        messages = [entry.message for entry in self.entries[self._given :]]
        answered = {message.call_id for message in messages if message.role == "tool"}
        return [c for m in messages for c in m.tool_calls if c.id not in answered]

    @property
    def has_outside(self) -> bool:
        """Return whether the model sees text from outside, or has seen it in this turn, or text
        that was derived from it."""
        is_here = self._has_seen_outside or any(e.message.has_outside for e in self.entries)
        return is_here or self.log.state.view().has_outside

    async def count_tokens(self, text: str) -> int:
        """Return the raw tokens of a reply, for figures that no provider reported."""
        return await self.log.services.meter.message(Message("assistant", text)) if text else 0

    def find_known_result(self, call: ToolCall) -> Message | None:
        """Return the result of an identical call, once an overflow may have hidden it from the
        model: so no tool runs twice because of that."""
        if not self._overflows:
            return None
        messages = [entry.message for entry in self.entries]
        same = {c.id for m in messages for c in m.tool_calls if c.id != call.id and c.is_like(call)}
        return next((m for m in messages if m.role == "tool" and m.call_id in same), None)

    async def begin_call(self, call: ToolCall, *, is_once: bool) -> None:
        """Record that a tool is about to run: it may crash the process, or it must not run twice
        (`is_once`)."""
        await self.log.begin_call(self.number, call.id, is_once=is_once)
        if is_once:
            self.begun[call.id] = True

    async def begin(self) -> None:
        """Notify listeners of the start of the turn, and run the strategy's work for it, before the
        first step. For a resumed turn this was done before."""
        if len(self.entries) == 1:
            session = await self.log.begin_session()
            turn = await self.notify("turn_start", self.entries[0].message.text)
            if inject := session.inject + turn.inject:
                await self.note(inject)
            await self.log.compactor.at_turn_start()

    async def notify(
        self,
        name: EventName,
        text: str = "",
        call: ToolCall | None = None,
        *,
        is_error: bool = False,
    ) -> Verdict:
        """Notify listeners of an event in this turn; cheap without listeners."""
        events = self.log.services.events
        if not (listeners := events.find_interested(name)):
            return NOTHING
        tool, arguments = (call.name, call.arguments) if call else ("", "")
        key = self.log.state.key
        event = Event(name, key, self.number, text, tool, arguments, is_error)
        return await events.emit(event, listeners)

    async def note(self, texts: Iterable[str]) -> None:
        """Record notes of the bot to the model. Never between a call and its results, which some
        providers refuse."""
        if notes := [Message("note", text) for text in texts]:
            await self.record(*notes)

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the view that the model sees at this step, within the current limits. Raises
        NoRoom."""
        view, self._limits = await self.log.fitter.fit(prefix)
        self._fitted, self._event = view, self.log.state.last_event
        return self._note_seen(view)

    @property
    def keeps_requests(self) -> bool:
        """Return whether the turn's requests are stored for people to inspect."""
        return not self.is_alone and bool(self.log.requests.most_kept(self._limits))

    def note_sent(
        self,
        view: View,
        prefix: PromptPrefix,
        pictures: Sequence[Mapping[str, Any]],
        body: Mapping[str, Any],
        content: bytes,
    ) -> None:
        """Record that the request made from `view` is sent now. It is written to disk with its
        outcome, in the same commit."""
        sent = OutgoingRequest(view, self._event, prefix, pictures, body, content)
        self._sent.append(self.log.requests.describe(sent, self._limits))

    def _note_seen(self, view: View) -> View:
        """Record that the view is sent next, and return it. Later messages are tainted by its
        content, even if that is removed from the context before the answer."""
        self._has_seen_outside |= view.has_outside
        return view

    def _mark_tainted(self, message: Message) -> Message:
        """Return a message for the record: any message that is not the person's may repeat what the
        model has seen."""
        is_tainted = self._has_seen_outside and message.role != "user"
        return replace(message, is_tainted=True) if is_tainted else message

    async def shrink_request(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the emergency ladder, after the provider refused the request made
        from `view` as too long, or perhaps so. Return False if none is left."""
        if not overflow.is_sure and not await self._treat_as_overflow(view):
            return False
        self._overflows += 1
        self._sent = self.log.requests.finish(self._sent, "too long")
        return await self.log.fitter.shrink_request(view, prefix, overflow, self._overflows)

    async def restore_removed(self) -> None:
        """Restore the messages that were removed for another model's smaller window, before the
        first model is called again."""
        if self.log.state.has_passing_steps:
            await self.log.fitter.restore_removed()

    async def _treat_as_overflow(self, view: View) -> bool:
        """Return whether an unclear refusal is treated as an overflow: the request had several
        turns, no request as long was accepted lately, and there was no such refusal since the last
        accepted request. After a failed attempt, the removed turns are restored."""
        calibration, model = self.log.calibration, self.log.state.limits.model
        is_first = model not in calibration.doubted
        calibration.doubted.add(model)
        lately = calibration.models.accepted.get(model, ())
        if is_first and len(view.movable) > 1 and view.tokens > max(lately, default=0):
            self._is_doubtful = True
            return True
        if self._is_doubtful:
            self._is_doubtful = False
            await self.log.fitter.undo_emergency()
        return False

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Return the view that would be sent now, if the model's token ratio matters and is
        unknown; None otherwise."""
        state, calibration = self.log.state, self.log.calibration
        if model in calibration.models.ratios or model in calibration.models.measured:
            return None
        view = state.view(prefix)
        is_much = 2 * view.raw_tokens > state.limits.ceiling
        has_pictures = any(message.images for message in view.messages)  # their size is an estimate
        return view if is_much and not has_pictures else None

    async def measure(self, view: View, counted: int, model: str) -> None:
        """Correct the meter by a model's count of `view`, which was not sent to it (0: no
        count)."""
        await self.log.calibration.measure(view, counted, model)

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Correct the meter by the provider's count for the request made from `view`. If the
        provider has not read all of it, notify the person, once."""
        calibration = self.log.calibration
        is_whole = await calibration.learn(view, reported, model, cached)
        if is_whole or model in calibration.cuts.notified:
            return
        calibration.cuts.notified.add(model)
        self._cut = describe_cut_prompt(model, calibration.cuts.newest[model])

    async def list_notices(self) -> list[str]:
        """List the notices for the person besides the reply; they are shown with it, and sent in no
        request."""
        notices = [*self.notices, self._cut, await self.log.fitter.emergency_in(self.number)]
        if self._fitted is not None:
            stuck = self.log.compactor.describe_stuck(self.number, self._fitted, self._limits)
            notices.append(stuck)
        return notices

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages to the turn; on disk when this returns. A final one ends the turn."""
        if self.reply is not None:
            raise RuntimeError(f"{self.id} is over; nothing can be added to it")
        await run_shielded(self._add(messages, spent))

    async def book(self, spent: Spent) -> None:
        """Add the cost of a failed call to the bill."""
        await run_shielded(self.log.book(self.number, spent))
        self.bill = self.bill.plus(spent)

    async def add_messages(self, messages: Sequence[Message], inbox: Sequence[int]) -> None:
        """Add new messages to the turn and mark their `inbox` rows as done, in one transaction."""
        await run_shielded(self._add(messages, None, inbox))

    async def _add(
        self, messages: Sequence[Message], spent: Spent | None, inbox: Sequence[int] = ()
    ) -> None:
        marked = [self._mark_tainted(message) for message in messages]
        requests = self.log.requests
        sent = requests.finish(self._sent, "answered", spent) if spent else self._sent
        if spent is not None:  # regardless of the reply's fate
            self.log.state.book(spent)
            self.bill = self.bill.plus(spent)
        rows, reply = None, self._to_reply(marked[-1])
        if self.host is not None and reply is not None:
            rows = await self.host.after_answer(self, reply)
        self.entries += await self.log.add(self.number, marked, spent, inbox, sent, rows)
        self._sent, self.reply = [], reply
        if reply is not None:
            self.log.end(self.number)

    async def end_early(self, mark: Mark, text: str, sentence: str) -> None:
        """End the turn early: calls without a result get one that says so, and the model's partial
        text is kept. `sentence` is for the person only. A turn that has ended is left unchanged."""
        if self.entries[-1].message.is_final:
            return
        results = [
            Message("tool", BROKEN_OFF, call_id=call.id, tool=call.name, is_error=True)
            for call in self.unanswered
        ]
        message = Message("assistant", text.strip() and text.rstrip(), mark=mark, notice=sentence)
        await self.record(*results, message)
