"""A turn that is in no transcript: a side question, a private one, a sub-agent's, or one that a
client sent whole.

What it costs is on the bill. What is removed from its context to make room is removed for it, and
nothing of that is stored: no summary is written, and no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from msgspec.structs import replace

from memory.context import emergency
from memory.context.change import Change
from memory.context.layout import Layout
from memory.context.meter import PromptPrefix
from memory.context.plan import measure
from memory.context.view import Scale, View, apply_layout
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.request_fitter import Overflow
from memory.turn_log import OpenTurn, TurnLog
from memory.turns import Entry, Turn


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
    """Changes by which turns were removed from its context."""
    steps_taken: tuple[int, ...] = emergency.STEPS
    """The steps of the emergency ladder that may be taken for it."""
    is_of_conversation = False
    """A refusal of its requests corrects the meter of the conversation that it belongs to."""

    @property
    def earlier(self) -> Sequence[Turn]:
        """The turns that the model sees before it."""
        return ()

    def view(self, prefix: PromptPrefix) -> View:
        """Return what the model would see now."""
        layout, whole = self._layout, (*self.earlier, Turn(self.number, tuple(self.entries)))
        return View(
            whole,
            apply_layout(whole, layout),
            self.log.services.meter.prefix(prefix),
            layout,
            Scale(self.log.calibration.ratio(self.log.state.limits.model)),
            current=self.number,
            newest=self.number,
        )

    @property
    def _layout(self) -> Layout:
        return Layout().apply(self.cuts)

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return what the model sees, cut by the emergency ladder as far as its window needs.
        Raises NoRoom."""
        view, limits = self.view(prefix), self.log.state.limits
        for step in self.steps_taken:
            if view.tokens > limits.ceiling:
                view = await self._take_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the ladder, where the provider refused the request made from `view`
        as too long; return whether that changed anything."""
        if not overflow.is_sure:
            return False
        if self.is_of_conversation and overflow.is_own:
            limits = self.log.state.limits_as_set
            self.log.calibration.believe_refusal(view, limits, overflow.window)
        self._overflows += 1
        before = self.cuts
        for step in self.steps_taken[min(self._overflows, len(self.steps_taken)) - 1 :]:
            await self._take_step(self.view(prefix), step)
            if self.cuts != before:
                return True
        return False

    async def _take_step(self, view: View, step: int) -> View:
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await emergency.step_of_ladder(view, limits, step, meter)
        change = await measure(plan.change, view, meter)
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
            said, seq = self._mark_tainted(message), self.entries[-1].seq + 1
            entry = await make_entry(self.log, seq, self.number, said)
            self.entries.append(entry)
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Put a call on the bill: tokens and money, and no word."""
        await super().book(replace(spent, purpose=self.purpose))


class SubagentTurn(UnrecordedTurn):
    """A turn in which a sub-agent works as an agent in any other: its task alone and what follows
    from it, within the same window, on the same bill, with results of the same length. What is said
    in it is forgotten with it. `call` is the id of the tool call that sent it."""

    purpose = "subagent"
    steps_taken = emergency.STEPS[:1]
    is_of_conversation = True

    def __init__(self, log: TurnLog, task: Entry, call: str) -> None:
        super().__init__(log, Turn(task.turn, (task,)))
        self._call = call

    @classmethod
    async def open_for_call(cls, turn: OpenTurn, task: str, call: str) -> SubagentTurn:
        """Return the turn of a sub-agent that a call in this turn sends with a task."""
        entry = await make_entry(turn.log, 1, turn.number, Message("user", task))
        return cls(turn.log, entry, call)

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
        return self._note_seen(await super().fit(prefix))
