"""The turn of a side question, which is in no transcript."""

from __future__ import annotations

from msgspec.structs import replace

from memory.context.change import Change
from memory.context.meter import PromptPrefix
from memory.context.view import View, apply_layout
from memory.ledger import Spent
from memory.messages import Message
from memory.turn_log import TurnLog
from memory.turns import Entry, Turn
from memory.unrecorded import UnrecordedTurn, make_entry


class SideTurn(UnrecordedTurn):
    """A question that is asked with all that the conversation's next request would begin with, and
    that is no part of the conversation: what is cut for it is cut for it alone. It is on the bill
    of `person`."""

    is_of_conversation = True

    def __init__(self, log: TurnLog, question: Entry, person: str) -> None:
        super().__init__(log, Turn(question.turn, (question,)))
        self._person = person
        self.cuts = Change()

    @classmethod
    async def open_aside(cls, log: TurnLog, question: Message, person: str) -> SideTurn:
        """Return the turn of a side question that is asked now."""
        await log.services.meter.ready()
        state = log.state
        entry = await make_entry(log, state.last_seq + 1, state.last_complete + 1, question)
        return cls(log, entry, person)

    def view(self, prefix: PromptPrefix) -> View:
        """Return the turns in context, but for a turn that runs, and the question."""
        state = self.log.state
        view = state.view(prefix, state.limits)
        question = Turn(self.number, tuple(self.entries))
        whole = (*(turn for turn in view.whole if turn.is_complete), question)
        layout = view.layout.apply(self.cuts)
        return replace(
            view,
            whole=whole,
            turns=apply_layout(whole, layout),
            layout=layout,
            current=self.number,
            newest=self.number,
        )

    async def book(self, spent: Spent) -> None:
        """Put a call on the bill of who asks; it belongs to no turn."""
        spent = replace(spent, purpose="aside")
        await self.log.state.pay(spent, person=self._person)
        self.bill = self.bill.plus(spent)
