"""A turn that is in no transcript: a side question, a private one, or one that a client sent whole.

What it costs is on the bill. What is removed from its context to make room is removed for it, and
nothing of that is stored: no summary is written, and no file.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from memory.context import compaction, emergency
from memory.context.change import Change
from memory.context.meter import PromptPrefix
from memory.context.view import View
from memory.ledger import Spent
from memory.messages import Message
from memory.turn_log import OpenTurn, Overflow, TurnLog
from memory.turns import Entry


async def make_entry(log: TurnLog, seq: int, turn: int, message: Message) -> Entry:
    """Return a message as an entry of a turn, at this moment, with what it counts."""
    arrived, tokens = await log.receive(message)
    return Entry(seq, turn, arrived, tokens, datetime.now(UTC))


class UnrecordedTurn(OpenTurn):
    """A turn whose entries are in this object alone."""

    is_alone = True
    purpose = ""
    """The purpose under which the ledger has its calls."""
    cuts = Change()
    """The parts that were removed from its context."""

    def view(self, prefix: PromptPrefix) -> View:
        """Return what the model would see now."""
        raise NotImplementedError

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return what the model sees, cut by the emergency ladder as far as its window needs.
        Raises NoRoom."""
        view, limits = self.view(prefix), self.log.state.limits
        for step in emergency.STEPS:
            if view.tokens > limits.ceiling:
                view = await self._take_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the ladder, where the provider refused a request as too long."""
        if not overflow.is_sure:
            return False
        self._overflows += 1
        before = self.cuts
        for step in emergency.STEPS[min(self._overflows, len(emergency.STEPS)) - 1 :]:
            await self._take_step(self.view(prefix), step)
            if self.cuts != before:
                return True
        return False

    async def _take_step(self, view: View, step: int) -> View:
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await compaction.step_of_ladder(view, limits, step, meter)
        change = await compaction.measure(plan.change, view, meter)
        self.cuts = self.cuts.combine(change)
        return view.apply(change)

    async def bring_back(self) -> None:
        """Nothing is brought back: the cuts end with the turn, or with the conversation."""

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Nothing is counted ahead."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Nothing: the meter is corrected by the requests of recorded conversations alone."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the bill."""
        for message in messages:
            entry = await make_entry(self.log, self.entries[-1].seq + 1, self.number, message)
            self.entries.append(entry)
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Put a call on the bill: tokens and money, and no word."""
        await super().book(replace(spent, purpose=self.purpose))
