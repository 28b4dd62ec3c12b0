"""A turn under way: what the agent sees of it and records in it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from memory.context.meter import Frame
from memory.context.view import View
from memory.events import NOTHING, Event, EventName, Verdict
from memory.messages import Mark, Message, ToolCall
from memory.record.ledger import Bill, Spent
from memory.turns import Turn

if TYPE_CHECKING:
    from memory.conversation import Conversation


T = TypeVar("T")


async def unbroken(work: Coroutine[Any, Any, T]) -> T:
    """Do what must not be cut in half: a `/stop` in its middle holds from its end on. What is
    committed and not known in memory would be done again."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


async def _silence() -> None:
    """Nothing is said between steps."""


class OpenTurn:
    """It is over when a final message stands in it. `is_resumed` says whether it goes on after a
    crash; `between_steps` is awaited before each step, so that more can be said to it (`hear`);
    `bill` is what was spent on it so far, by this process; `begun` are the ids of calls that must
    not run twice and were about to; `finish` is the protocol's reason why the model ended its last
    reply ("stop", "length")."""

    def __init__(
        self,
        conversation: Conversation,
        turn: Turn,
        is_resumed: bool = False,
        begun: frozenset[str] = frozenset(),
    ) -> None:
        self.conversation = conversation
        self.begun = begun
        self.number = turn.number
        self.entries = list(turn.entries)
        self.is_resumed = is_resumed
        self.between_steps: Callable[[], Awaitable[None]] = _silence
        self.bill = Bill()
        self.finish = ""
        self._overflows = 0
        self._has_seen_outside = False

    @property
    def id(self) -> str:
        return f"t{self.number}"

    @property
    def reply(self) -> Message | None:
        """The final reply, once there is one."""
        last = self.entries[-1].message
        return last if last.is_final else None

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

    @property
    def has_outside(self) -> bool:
        """Whether the model has text before it that came from outside, or has had it in this turn;
        or what was made of such text."""
        is_here = self._has_seen_outside or any(e.message.has_outside for e in self.entries)
        return is_here or self.conversation.view().has_outside

    def known_result(self, call: ToolCall) -> Message | None:
        """The result of an identical call, once an overflow may have hidden it from the model: no
        tool runs twice because of that."""
        if not self._overflows:
            return None
        messages = [entry.message for entry in self.entries]
        same = {
            c.id
            for m in messages
            for c in m.tool_calls
            if (c.name, c.arguments) == (call.name, call.arguments) and c.id != call.id
        }
        return next((m for m in messages if m.role == "tool" and m.call_id in same), None)

    async def begin_call(self, call: ToolCall) -> None:
        """A tool is about to run that must not run twice: that is on disk when this returns."""
        await self.conversation.begin_call(self.number, call.id)
        self.begun |= {call.id}

    async def begin(self) -> None:
        """Tell who listens that the turn begins, before its first step; a turn that is taken up
        again after a crash has begun already."""
        if len(self.entries) == 1:
            session = await self.conversation.begin_session()
            turn = await self.tell("turn_start", self.entries[0].message.text)
            await self.note(session.plus(turn).inject)

    async def tell(
        self,
        name: EventName,
        text: str = "",
        call: ToolCall | None = None,
        *,
        is_error: bool = False,
    ) -> Verdict:
        """Tell who listens that something happens in this turn; costs nothing where no one does."""
        if not self.conversation.is_heard(name):
            return NOTHING
        tool, arguments = (call.name, call.arguments) if call else ("", "")
        about = Event(name, self.conversation, self.number, text, tool, arguments, is_error)
        return await self.conversation.tell(about)

    async def note(self, texts: Iterable[str]) -> None:
        """Record what the house says to the model. Never between a call and its results: some
        providers refuse that."""
        if notes := [Message("note", text) for text in texts]:
            await self.record(*notes)

    async def fit(self, frame: Frame) -> View:
        """What the model sees at this step, within the limits in force now. Raises NoRoom."""
        return self._seen(await self.conversation.fit(frame))

    def _seen(self, view: View) -> View:
        """This is asked next: what is written from now on is tainted by what stands in it, also
        when that leaves before the answer is there."""
        self._has_seen_outside |= view.has_outside
        return view

    def _stained(self, message: Message) -> Message:
        """A message as it is recorded: whatever is not the person's own word may repeat what the
        model has seen."""
        is_tainted = self._has_seen_outside and message.role != "user"
        return replace(message, is_tainted=True) if is_tainted else message

    async def make_room(self, view: View, frame: Frame, window: int) -> bool:
        """The provider said that the request made from `view` was too long, and named its window
        (0: it did not): take the next step of the emergency ladder. False: there is none left."""
        self._overflows += 1
        return await self.conversation.make_room(view, frame, window, self._overflows)

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Correct the meter by what the provider counted for the request made from `view`."""
        await self.conversation.calibrate(view, reported, model)

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages to the turn; on disk when this returns. A final one ends the turn."""
        if self.entries[-1].message.is_final:
            raise RuntimeError(f"{self.id} is over; nothing can be added to it")
        try:
            await unbroken(self._add(messages, spent))
        finally:
            if self.reply is not None:
                self.conversation.end(self.number)

    async def hear(self, messages: Sequence[Message], inbox: Sequence[int]) -> None:
        """Add what was said meanwhile to the turn, and take it off the inbox, in one transaction:
        `inbox` are the rows that the messages came in with."""
        await unbroken(self._add(messages, None, inbox))

    async def _add(
        self, messages: Sequence[Message], spent: Spent | None, inbox: Sequence[int] = ()
    ) -> None:
        said = [self._stained(message) for message in messages]
        self.entries += await self.conversation.add(self.number, said, spent, inbox)
        if spent is not None:
            self.bill = self.bill.plus(spent)

    async def break_off(self, mark: Mark, text: str, sentence: str) -> None:
        """End the turn before its time: calls without a result get one that says so, and what the
        model had said so far is kept, with `sentence` after it. A turn that is over stays."""
        if self.entries[-1].message.is_final:
            return
        results = [
            Message("tool", sentence, call_id=call.id, tool=call.name, is_error=True)
            for call in self.unanswered
        ]
        whole = f"{text.rstrip()}\n\n({sentence})" if text.strip() else f"({sentence})"
        await self.record(*results, Message("assistant", whole, mark=mark))
