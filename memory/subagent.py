"""The turn of a sub-agent, in no transcript: its task alone and what follows from it."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from memory.context import compaction, emergency
from memory.context.layout import Layout
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.turn_log import OpenTurn, Overflow, TurnLog
from memory.turns import Entry, Turn


class SubagentTurn(OpenTurn):
    """An open turn in which an agent works as in any other: within the same window, on the same
    bill, with results of the same length. What is said in it is forgotten with it. `call` is the
    id of the tool call that sent it."""

    is_alone = True

    def __init__(self, log: TurnLog, task: Entry, call: str) -> None:
        super().__init__(log, Turn(task.turn, (task,)))
        self._call = call
        self._layout = Layout()

    @classmethod
    async def open_for_call(cls, turn: OpenTurn, task: str, call: str) -> SubagentTurn:
        """Return the turn of a sub-agent that a call in this turn sends with a task."""
        message, tokens = await turn.log.receive(Message("user", task))
        return cls(turn.log, Entry(1, turn.number, message, tokens, datetime.now(UTC)), call)

    async def begin(self) -> None:
        """Nothing: it is a part of a turn that has begun. Its tool calls are heard like others."""

    async def begin_call(self, call: ToolCall, *, is_once: bool) -> None:
        """Note that a call begins that must not run twice: so neither must the call that sent the
        sub-agent, which would do it all over again after a crash. That this one has begun is known.
        """
        if is_once:
            await self.log.begin_call(self.number, self._call, is_once=True)

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the task and all that followed, with what is too long clipped. Raises NoRoom."""
        await self._clip(prefix)
        view, limits = self._view(prefix), self.log.state.limits
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return self._note_seen(view)

    async def bring_back(self) -> None:
        """Nothing leaves here for long."""

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Believe the provider, which refused the request made from `view`, and clip long texts;
        return whether that changed anything."""
        if not overflow.is_sure:
            return False
        self._overflows += 1
        before = self._layout
        if overflow.is_own:
            limits = self.log.state.limits_as_set
            self.log.calibration.believe_refusal(view, limits, overflow.window)
        await self._clip(prefix)
        return self._layout != before

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Nothing is counted ahead."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Nothing: what the meter is corrected by are the conversation's own requests."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the conversation's bill."""
        for message in messages:
            arrived, tokens = await self.log.receive(self._mark_tainted(message))
            seq = self.entries[-1].seq + 1
            self.entries.append(Entry(seq, self.number, arrived, tokens, datetime.now(UTC)))
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Put a call on the conversation's bill."""
        await super().book(replace(spent, purpose="subagent"))

    def _view(self, prefix: PromptPrefix) -> View:
        turn = Turn(self.number, tuple(self.entries))
        return self.log.view_alone(turn, self._layout, prefix)

    async def _clip(self, prefix: PromptPrefix) -> None:
        view = self._view(prefix)
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await compaction.step_of_ladder(view, limits, 0, meter)
        change = await compaction.measure(plan.change, view, meter)
        self._layout = self._layout.apply(change)
