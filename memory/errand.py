"""A sub-agent's turn: its task alone, and what follows from it. It stands in no transcript."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from memory.context import emergency
from memory.context.change import Boundaries
from memory.context.meter import Frame
from memory.context.view import View
from memory.messages import Message, ToolCall
from memory.open_turn import OpenTurn
from memory.record.ledger import Spent
from memory.turns import Entry, Turn

if TYPE_CHECKING:
    from memory.conversation import Conversation

PURPOSE = "subagent"
"""What the ledger calls a sub-agent's calls."""


class Errand(OpenTurn):
    """An open turn in which an agent works as in any other: within the same window, on the same
    bill, with results of the same length. What is said in it is forgotten with it. `call` is the
    id of the tool call that sent it."""

    def __init__(self, conversation: Conversation, task: Entry, call: str) -> None:
        super().__init__(conversation, Turn(task.turn, (task,)))
        self._call = call
        self._boundaries = Boundaries()

    async def begin(self) -> None:
        """Nothing: it is a part of a turn that has begun. Its tool calls are heard like others."""

    async def begin_call(self, call: ToolCall) -> None:
        """What must not run twice is about to: so neither must the call that sent the sub-agent,
        which would do it all over again after a crash."""
        await self.conversation.begin_call(self.number, self._call)

    async def fit(self, frame: Frame) -> View:
        """The task and all that followed, with what is too long clipped. Raises NoRoom."""
        await self._clip(frame)
        view, limits = self._view(frame), self.conversation.limits
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return self._seen(view)

    async def make_room(self, view: View, frame: Frame, window: int) -> bool:
        """The provider refused what was made from `view`: believe it, and clip what is long."""
        self._overflows += 1
        before = self._boundaries
        self.conversation.believe(view, self.conversation.limits, window)
        await self._clip(frame)
        return self._boundaries != before

    async def calibrate(self, view: View, reported: int, model: str) -> None:
        """Nothing: what the meter is corrected by are the conversation's own requests."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the conversation's bill."""
        for message in messages:
            arrived, tokens = await self.conversation.weighed(self._stained(message))
            seq = self.entries[-1].seq + 1
            self.entries.append(Entry(seq, self.number, arrived, tokens, datetime.now(UTC)))
        if spent is not None:
            await self.conversation.book(self.number, replace(spent, purpose=PURPOSE))

    def _view(self, frame: Frame) -> View:
        turn = Turn(self.number, tuple(self.entries))
        return self.conversation.alone(turn, self._boundaries, frame)

    async def _clip(self, frame: Frame) -> None:
        view = self._view(frame)
        plan = emergency.plan(view, self.conversation.limits, 0)
        self._boundaries = await self.conversation.clipped(view, plan)
