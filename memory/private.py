"""A conversation off the record: its turns are in this object only, and not in the store.

The store has only the cost of its calls, in numbers. If it grows too long for the model, the steps
of the emergency ladder make room, without a summary or a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from memory.calibration import KnownModels
from memory.context.change import Change
from memory.context.layout import Layout
from memory.context.view import apply_layout
from memory.events import NOTHING, EventName, Verdict
from memory.keys import ConversationKey
from memory.messages import Message, ToolCall
from memory.services import MemoryServices
from memory.stateless import StatelessLog
from memory.turns import Entry, Turn
from memory.unrecorded import UnrecordedTurn, make_entry

PURPOSE = "private"
"""The purpose of such conversations' calls in the ledger."""


class PrivateConversation:
    """The turns so far, and the changes that removed some from the model's view to make room."""

    def __init__(self, services: MemoryServices, models: KnownModels, key: ConversationKey) -> None:
        self.services, self._models, self.key = services, models, key
        self.turns: list[Turn] = []
        self.cuts = Change()

    @property
    def tokens(self) -> int:
        """Return the size of the turns, in the meter's tokens."""
        layout = Layout().apply(self.cuts)
        return sum(turn.tokens for turn in apply_layout(tuple(self.turns), layout))

    @property
    def in_view(self) -> int:
        """Return the number of turns that the model still sees."""
        return len(apply_layout(tuple(self.turns), Layout().apply(self.cuts)))

    async def open(self, text: str, speaker: str, person: str) -> PrivateTurn:
        """Return the turn of a question. It belongs to the conversation once `keep` is called."""
        await self.services.meter.ready()
        log = StatelessLog(self.services, self._models, self.key, person)
        number = self.turns[-1].number + 1 if self.turns else 1
        seq = self.turns[-1].entries[-1].seq + 1 if self.turns else 1
        said = Message("user", text, speaker=speaker)
        return PrivateTurn(self, log, await make_entry(log, seq, number, said))

    def keep(self, turn: PrivateTurn) -> None:
        """Add an answered turn to the conversation."""
        self.turns.append(Turn(turn.number, tuple(turn.entries)))


class PrivateTurn(UnrecordedTurn):
    """A turn of a private conversation: it runs no tool, notifies no listener, and stores no
    request."""

    purpose = PURPOSE

    def __init__(self, talk: PrivateConversation, log: StatelessLog, question: Entry) -> None:
        super().__init__(log, Turn(question.turn, (question,)))
        self._talk = talk

    @property
    def has_outside(self) -> bool:
        """Return False: all text is from the person or the model."""
        return False

    async def tell(
        self,
        name: EventName,
        text: str = "",
        call: ToolCall | None = None,
        *,
        is_error: bool = False,
    ) -> Verdict:
        """Do nothing: a listener may be a webhook, or write a file."""
        return NOTHING

    async def note(self, texts: Iterable[str]) -> None:
        """Do nothing: there are no listeners' notes."""

    @property
    def cuts(self) -> Change:
        """The cuts of the conversation, which also apply to later turns."""
        return self._talk.cuts

    @cuts.setter
    def cuts(self, cuts: Change) -> None:
        self._talk.cuts = cuts

    @property
    def earlier(self) -> Sequence[Turn]:
        return self._talk.turns
