"""A turn that a client of OpenAI's protocol sent whole: it stands in no transcript and no list.

What the client sent is taken at its word: no strategy cuts it, nothing of it is summarised or kept.
What the model says and what its tools return come after it, within the limits of every turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memory.context.change import Boundaries
from memory.context.emergency import NoRoom
from memory.context.meter import Frame
from memory.context.view import View
from memory.conversation import Conversation
from memory.events import Event
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.open_turn import OpenTurn
from memory.record import ledger
from memory.record.ledger import Spent
from memory.turns import Entry, Turn

if TYPE_CHECKING:
    from memory.conversations import Conversations

PURPOSE = "request"
"""What the ledger calls the calls of such a turn."""


@dataclass(frozen=True, slots=True)
class GivenMessage(Message):
    """A message as a client sent it: `wire` goes to the model as it stands; the other fields are
    what the meter counts of it."""

    wire: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return dict(self.wire)


class Ground(Conversation):
    """What a stateless turn stands on: the limits, the meter and the listeners of a conversation,
    and no row in the database. `person` pays for it."""

    def __init__(self, house: Conversations, key: ConversationKey, person: str) -> None:
        super().__init__(house, key)
        self._person = person

    async def begin_call(self, turn: int, call: str) -> None:
        """Nothing: such a turn is never taken up again."""

    async def book(self, turn: int, spent: Spent) -> None:
        """Put a call on the bill of the person; it belongs to no conversation."""
        person = self._person
        await self._room.store.write(lambda db: ledger.insert(db, None, None, spent, person))
        self._spent(spent)


class StatelessTurn(OpenTurn):
    """`given` is what the client sent. With `hands_out` the tools are the client's: a reply that
    asks for one ends the turn, and its calls are the client's to run."""

    def __init__(self, ground: Ground, given: Sequence[Entry], hands_out: bool = False) -> None:
        super().__init__(ground, Turn(1, tuple(given)))
        self._count, self._hands_out = len(given), hands_out
        self._asked: View | None = None

    @classmethod
    async def opened(
        cls,
        house: Conversations,
        key: ConversationKey,
        person: str,
        messages: Sequence[Message],
        hands_out: bool,
    ) -> StatelessTurn:
        """A turn that begins with these messages, at least one."""
        await house.room.meter.ready()
        ground = Ground(house, key, person)
        given = [await _entry(ground, place, one) for place, one in enumerate(messages, 1)]
        return cls(ground, given, hands_out)

    @property
    def _own(self) -> list[Entry]:
        """What was said since."""
        return self.entries[self._count :]

    @property
    def reply(self) -> Message | None:
        own = self._own
        last = own[-1].message if own else None
        is_end = last is not None and last.role == "assistant"
        return last if is_end and last and (last.is_final or self._hands_out) else None

    @property
    def steps(self) -> int:
        return sum(entry.message.role == "assistant" for entry in self._own)

    @property
    def unanswered(self) -> list[ToolCall]:
        messages = [entry.message for entry in self._own]
        answered = {message.call_id for message in messages if message.role == "tool"}
        return [c for m in messages for c in m.tool_calls if c.id not in answered]

    @property
    def has_outside(self) -> bool:
        """What a client sends may have come from anywhere."""
        return True

    @property
    def asked(self) -> View | None:
        """What the model was sent that has not answered yet."""
        return self._asked

    async def begin(self) -> None:
        """Nothing: no session begins, and nobody is told of a turn."""

    async def fit(self, frame: Frame) -> View:
        """All of it. Raises NoRoom where it is longer than the window."""
        self._asked = None
        limits = self.conversation.limits
        view = self.conversation.alone(Turn(self.number, tuple(self.entries)), Boundaries(), frame)
        if view.tokens > limits.window:
            raise NoRoom(
                f"This model's maximum context length is {limits.window} tokens. However, your "
                f"messages resulted in {view.tokens} tokens, tools included. Send fewer of them."
            )
        self._asked = view
        return view

    async def make_room(self, view: View, frame: Frame, window: int) -> bool:
        """Nothing is cut of what a client sent."""
        return False

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Nothing: what the meter is corrected by are the conversations' own requests."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the bill."""
        self._asked = None
        for message in messages:
            place = self.entries[-1].seq + 1
            self.entries.append(await _entry(self.conversation, place, message))
        if spent is not None:
            spent = replace(spent, purpose=PURPOSE)
            self.bill = self.bill.plus(spent)
            await self.conversation.book(self.number, spent)

    async def close(self) -> None:
        """Those who were told of its tools hear that it is over."""
        if self.conversation.is_heard("session_end"):
            await self.conversation.tell(Event("session_end", self.conversation))


async def _entry(ground: Conversation, place: int, message: Message) -> Entry:
    arrived, tokens = await ground.weighed(message)
    return Entry(place, 1, arrived, tokens, datetime.now(UTC))
