"""A conversation off the record: its turns are in this object, and nothing of them in the store.

What the store has of it is what its calls cost, in numbers. Where it grows too long for the model,
the steps of the emergency ladder make room: no summary is written, and no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from msgspec.structs import replace

from memory.calibration import KnownModels
from memory.context import compaction, emergency
from memory.context.change import Change
from memory.context.layout import Layout
from memory.context.meter import PromptPrefix
from memory.context.view import Scale, View, apply_layout
from memory.events import NOTHING, EventName, Verdict
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.services import MemoryServices
from memory.stateless import StatelessLog
from memory.turn_log import OpenTurn, Overflow
from memory.turns import Entry, Turn

PURPOSE = "private"
"""The purpose under which the ledger has the calls of such conversations."""


class PrivateTalk:
    """The turns so far, and what left the view of the model for want of room."""

    def __init__(self, services: MemoryServices, models: KnownModels, key: ConversationKey) -> None:
        self.services, self._models, self.key = services, models, key
        self.turns: list[Turn] = []
        self.cuts = Change()

    @property
    def tokens(self) -> int:
        """Return what the turns hold, in the meter's tokens."""
        layout = Layout().apply(self.cuts)
        return sum(turn.tokens for turn in apply_layout(tuple(self.turns), layout))

    @property
    def in_view(self) -> int:
        """Return how many of the turns the model still sees."""
        return len(apply_layout(tuple(self.turns), Layout().apply(self.cuts)))

    async def open(self, text: str, speaker: str, person: str) -> PrivateTurn:
        """Return the turn of a question. It belongs to the conversation once it is kept here."""
        await self.services.meter.ready()
        log = StatelessLog(self.services, self._models, self.key, person)
        number = self.turns[-1].number + 1 if self.turns else 1
        seq = self.turns[-1].entries[-1].seq + 1 if self.turns else 1
        message, tokens = await log.receive(Message("user", text, speaker=speaker))
        return PrivateTurn(self, log, Entry(seq, number, message, tokens, datetime.now(UTC)))

    def keep(self, turn: PrivateTurn) -> None:
        """Let a turn that was answered be part of the conversation."""
        self.turns.append(Turn(turn.number, tuple(turn.entries)))


class PrivateTurn(OpenTurn):
    """A turn of such a conversation: no tool runs in it, no listener hears of it, no request of it
    is kept."""

    is_alone = True

    def __init__(self, talk: PrivateTalk, log: StatelessLog, question: Entry) -> None:
        super().__init__(log, Turn(question.turn, (question,)))
        self._talk = talk

    @property
    def has_outside(self) -> bool:
        """Return False: nothing here comes from anybody but the person and the model."""
        return False

    async def tell(
        self,
        name: EventName,
        text: str = "",
        call: ToolCall | None = None,
        *,
        is_error: bool = False,
    ) -> Verdict:
        """Tell nobody: a listener may be a webhook, or write a file."""
        return NOTHING

    async def note(self, texts: Iterable[str]) -> None:
        """Nothing: nobody is asked for a note."""

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the view of the conversation, cut as far as the model's window wants it. Raises
        NoRoom."""
        limits = self.log.state.limits
        view = self._view(prefix)
        for step in emergency.STEPS:
            if view.tokens > limits.ceiling:
                view = await self._take_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    def _view(self, prefix: PromptPrefix) -> View:
        limits = self.log.state.limits
        whole = (*self._talk.turns, Turn(self.number, tuple(self.entries)))
        layout = Layout().apply(self._talk.cuts)
        return View(
            whole,
            apply_layout(whole, layout),
            self.log.services.meter.prefix(prefix),
            layout,
            Scale(self.log.calibration.ratio(limits.model)),
            current=self.number,
            newest=self.number,
        )

    async def _take_step(self, view: View, step: int) -> View:
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await compaction.step_of_ladder(view, limits, step, meter)
        change = await compaction.measure(plan.change, view, meter)
        self._talk.cuts = self._talk.cuts.combine(change)
        return view.apply(change)

    async def bring_back(self) -> None:
        """Nothing: what left stays away."""

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the ladder, where the provider refused a request as too long."""
        if not overflow.is_sure:
            return False
        self._overflows += 1
        before = self._talk.cuts
        for step in emergency.STEPS[min(self._overflows, len(emergency.STEPS)) - 1 :]:
            await self._take_step(self._view(prefix), step)
            if self._talk.cuts != before:
                return True
        return False

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Nothing is counted ahead."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Nothing: what the meter is corrected by is kept."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and put what they cost on the bill."""
        for message in messages:
            arrived, tokens = await self.log.receive(message)
            seq = self.entries[-1].seq + 1
            self.entries.append(Entry(seq, self.number, arrived, tokens, datetime.now(UTC)))
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Put a call on the bill of the person: tokens and money, and no word."""
        await super().book(replace(spent, purpose=PURPOSE))
