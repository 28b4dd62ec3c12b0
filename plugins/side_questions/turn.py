"""The turn of a side question, which stands in no transcript."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec.structs import replace

from memory.context import compaction, emergency
from memory.context.change import Change
from memory.context.meter import PromptPrefix
from memory.context.view import View, apply_layout
from memory.ledger import Spent
from memory.messages import Message
from memory.turn_log import OpenTurn, Overflow, TurnLog
from memory.turns import Entry, Turn


class SideTurn(OpenTurn):
    """A question that is asked with all that the conversation's next request would begin with, and
    that is no part of the conversation: what is cut for it is cut for it alone. It is on the bill
    of `person`."""

    is_alone = True

    def __init__(self, log: TurnLog, question: Entry, person: str) -> None:
        super().__init__(log, Turn(question.turn, (question,)))
        self._person = person
        self._cuts = Change()

    @classmethod
    async def open_aside(cls, log: TurnLog, question: Message, person: str) -> SideTurn:
        """Return the turn of a side question that is asked now."""
        await log.services.meter.ready()
        message, tokens = await log.receive(question)
        state = log.state
        number, seq = state.last_complete + 1, state.last_seq + 1
        return cls(log, Entry(seq, number, message, tokens, datetime.now(UTC)), person)

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the view of the turns in context, but for a turn that runs, and the question.
        Raises NoRoom."""
        view, limits = self._view(prefix), self.log.state.limits
        for step in emergency.STEPS:
            if view.tokens > limits.ceiling:
                view = await self._take_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    def _view(self, prefix: PromptPrefix) -> View:
        state = self.log.state
        view = state.view(prefix, state.limits)
        question = Turn(self.number, tuple(self.entries))
        whole = (*(turn for turn in view.whole if turn.is_complete), question)
        layout = view.layout.apply(self._cuts)
        return replace(
            view,
            whole=whole,
            turns=apply_layout(whole, layout),
            layout=layout,
            current=self.number,
            newest=self.number,
        )

    async def _take_step(self, view: View, step: int) -> View:
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await compaction.step_of_ladder(view, limits, step, meter)
        change = await compaction.measure(plan.change, view, meter)
        self._cuts = self._cuts.combine(change)
        return view.apply(change)

    async def bring_back(self) -> None:
        """Nothing leaves here for long."""

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Believe that the provider refused what was made from `view`, and take the next step."""
        if not overflow.is_sure:
            return False
        self._overflows += 1
        before = self._cuts
        if overflow.is_own:
            limits = self.log.state.limits_as_set
            self.log.calibration.believe_refusal(view, limits, overflow.window)
        view = self._view(prefix)
        for step in emergency.STEPS[min(self._overflows, len(emergency.STEPS)) - 1 :]:
            await self._take_step(view, step)
            if self._cuts != before:
                return True
        return False

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Nothing is counted ahead."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Nothing: what the meter is corrected by are the conversation's own requests."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the bill."""
        for message in messages:
            arrived, tokens = await self.log.receive(message)
            seq = self.entries[-1].seq + 1
            self.entries.append(Entry(seq, self.number, arrived, tokens, datetime.now(UTC)))
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Put a call on the bill of who asks; it belongs to no turn."""
        spent = replace(spent, purpose="aside")
        await self.log.state.pay(spent, person=self._person)
        self.bill = self.bill.plus(spent)
