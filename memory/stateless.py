"""A turn that a client of OpenAI's protocol sent whole; it is in no transcript and no list.

The client's messages are used as sent: no strategy removes, summarises or keeps any of them. The
model's replies and the tools' results follow, within the limits of every turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import field

from memory.calibration import Calibration, KnownModels
from memory.compactor import Compactor
from memory.context.emergency import RequestTooLong
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.context_state import ContextState
from memory.events import Event
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.request_fitter import Overflow
from memory.services import MemoryServices
from memory.turn_log import TurnLog
from memory.turns import Entry, Turn
from memory.unrecorded import UnrecordedTurn, make_entry

_AT_ONCE = 50  # messages


class StatelessMessage(Message, frozen=True):
    """A message as a client sent it: `wire` is sent to the model unchanged; the meter counts the
    other fields."""

    wire: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return dict(self.wire)


class StatelessLog(TurnLog):
    """The log of a stateless turn: the limits, the meter and the listeners of a conversation,
    without database rows. `person` pays for it."""

    def __init__(
        self, services: MemoryServices, models: KnownModels, key: ConversationKey, person: str
    ) -> None:
        calibration = Calibration(services.store, models)
        state = ContextState(services, key, calibration)
        state.person = person
        compactor = Compactor(services, state)
        super().__init__(services, state, calibration, compactor, None)

    async def begin_call(self, turn: int, call: str, *, is_once: bool) -> None:
        """Do nothing: such a turn is never resumed."""

    async def book(self, turn: int, spent: Spent) -> None:
        """Add a call to the person's bill; it belongs to no conversation."""
        person, ledger = self.state.person, self.services.ledger
        await self.services.store.write(lambda db: ledger.insert(db, None, None, spent, person))
        self.state.book(spent)


class StatelessTurn(UnrecordedTurn):
    """A turn with the messages `given` by the client. With `hands_out`, the tools are the client's:
    a reply with tool calls ends the turn, and the client runs them."""

    purpose = "request"

    def __init__(self, log: TurnLog, given: Sequence[Entry], hands_out: bool = False) -> None:
        super().__init__(log, Turn(1, tuple(given)))
        self._count, self._hands_out = len(given), hands_out

    @classmethod
    async def open(
        cls, log: StatelessLog, messages: Sequence[Message], hands_out: bool
    ) -> StatelessTurn:
        """Return a turn that begins with these messages, at least one."""
        await log.services.meter.ready()
        given = []
        for place, one in enumerate(messages, 1):
            given.append(await make_entry(log, place, 1, one))
            if not place % _AT_ONCE:
                await asyncio.sleep(0)  # counting tokens takes time, so let other tasks run
        return cls(log, given, hands_out)

    @property
    def _own(self) -> list[Entry]:
        """Return the entries after the client's."""
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
        """Return True: a client's messages may come from anywhere."""
        return True

    async def begin(self) -> None:
        """Do nothing: no session begins, and no listener is notified."""

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the whole view. Raises NoRoom if it is longer than the window."""
        limits = self.log.state.limits
        view = self.view(prefix)
        if view.tokens > limits.window:
            raise RequestTooLong(
                f"This model's maximum context length is {limits.window} tokens. However, your "
                f"messages resulted in {view.tokens} tokens, tools included. Send fewer of them."
            )
        return view

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Return False: a client's messages are never removed."""
        return False

    async def close(self) -> None:
        """Notify the listeners of its tools that it has ended."""
        await self.log.services.events.emit(Event("session_end", self.log.state.key))
