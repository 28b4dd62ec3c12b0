"""A turn that is in no transcript: a side question, a private one, a sub-agent's, or one that a
client sent whole.

Its cost is on the bill. Turns are removed from its context to make room, without a trace: no
summary and no file is written.
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
    """Return a message as an entry of a turn, with the current time and its tokens."""
    arrived, tokens = await log.receive(message)
    return Entry(seq, turn, arrived, tokens, datetime.now(UTC))


class UnrecordedTurn(OpenTurn):
    """A turn whose entries are in this object only."""

    is_alone = True
    purpose = ""
    """The purpose of its calls in the ledger."""
    cuts = Change()
    """The changes that removed turns from its context."""
    steps_taken: tuple[int, ...] = emergency.STEPS
    """The steps of the emergency ladder that it may use."""
    is_of_conversation = False
    """A refusal of its requests corrects the meter of its conversation."""

    @property
    def earlier(self) -> Sequence[Turn]:
        """The turns before it that the model sees."""
        return ()

    def view(self, prefix: PromptPrefix) -> View:
        """Return the model's current view."""
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
        """Return the model's view, shortened by the emergency ladder to fit the window. Raises
        NoRoom."""
        view, limits = self.view(prefix), self.log.state.limits
        for step in self.steps_taken:
            if view.tokens > limits.ceiling:
                view = await self._take_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    async def make_room(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the ladder, after the provider refused the request made from `view`
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
        """Do nothing: the cuts end with the turn, or with the conversation."""

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Return None: nothing is counted in advance."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Do nothing: only requests of recorded conversations correct the meter."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and their cost to the bill."""
        for message in messages:
            said, seq = self._mark_tainted(message), self.entries[-1].seq + 1
            entry = await make_entry(self.log, seq, self.number, said)
            self.entries.append(entry)
        if spent is not None:
            await self.book(spent)

    async def book(self, spent: Spent) -> None:
        """Add a call's tokens and cost, without text, to the bill."""
        await super().book(replace(spent, purpose=self.purpose))


class SubagentTurn(UnrecordedTurn):
    """The turn of a sub-agent: its task and what follows, with the same window, bill and limit of
    results as the main turn. Its content is discarded with it. `call` is the id of the tool call
    that started it."""

    purpose = "subagent"
    steps_taken = emergency.STEPS[:1]
    is_of_conversation = True

    def __init__(self, log: TurnLog, task: Entry, call: str) -> None:
        super().__init__(log, Turn(task.turn, (task,)))
        self._call = call

    @classmethod
    async def open_for_call(cls, turn: OpenTurn, task: str, call: str) -> SubagentTurn:
        """Return the turn of a sub-agent that a call in this turn starts with a task."""
        entry = await make_entry(turn.log, 1, turn.number, Message("user", task))
        return cls(turn.log, entry, call)

    async def begin(self) -> None:
        """Do nothing: it is part of a turn that has begun. Its tool calls notify listeners like
        others."""

    async def begin_call(self, call: ToolCall, *, is_once: bool) -> None:
        """Record the start of a call that must not run twice. Then the call that started the
        sub-agent must not run twice either, since a repetition after a crash would do it again. The
        sub-agent's call is already recorded as begun."""
        if is_once:
            await self.log.begin_call(self.number, self._call, is_once=True)

    async def fit(self, prefix: PromptPrefix) -> View:
        """Return the task and all that followed, with long parts clipped. Raises NoRoom."""
        return self._note_seen(await super().fit(prefix))
