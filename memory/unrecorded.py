"""Turns that are in no transcript: a side question, a private conversation, a sub-agent's, or one
that a client sent whole. Their cost is on the bill; if one is too long, turns are removed without a
trace. A client's messages are used as sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import field
from msgspec.structs import replace

from memory.calibration import Calibration, KnownModels
from memory.compactor import Compactor
from memory.context import emergency
from memory.context.change import Change
from memory.context.emergency import RequestTooLong
from memory.context.layout import Layout
from memory.context.meter import PromptPrefix
from memory.context.plan import measure
from memory.context.view import Scale, View, apply_layout
from memory.context_state import ContextState
from memory.events import NOTHING, Event, EventName, Verdict
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.request_fitter import Overflow
from memory.services import MemoryServices
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
                view = await self._run_step(view, step)
        if view.tokens > limits.ceiling:
            raise emergency.no_room(view, limits)
        return view

    async def shrink_request(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Take the next step of the ladder, after the provider refused the request made from `view`
        as too long; return whether that changed anything."""
        if not overflow.is_sure:
            return False
        if self.is_of_conversation and overflow.is_own:
            limits = self.log.state.limits_as_set
            self.log.calibration.accept_refusal(view, limits, overflow.window)
        self._overflows += 1
        before = self.cuts
        for step in self.steps_taken[min(self._overflows, len(self.steps_taken)) - 1 :]:
            await self._run_step(self.view(prefix), step)
            if self.cuts != before:
                return True
        return False

    async def _run_step(self, view: View, step: int) -> View:
        limits, meter = self.log.state.limits, self.log.services.meter
        plan = await emergency.step_of_ladder(view, limits, step, meter)
        change = await measure(plan.change, view, meter)
        self.cuts = self.cuts.combine(change)
        return view.apply(change)

    async def restore_removed(self) -> None:
        """Do nothing: the cuts end with the turn, or with the conversation."""

    def view_to_measure(self, prefix: PromptPrefix, model: str) -> View | None:
        """Return None: nothing is counted in advance."""
        return None

    async def calibrate(self, view: View, reported: int, model: str, cached: int = 0) -> None:
        """Do nothing: only requests of recorded conversations correct the meter."""

    async def record(self, *messages: Message, spent: Spent | None = None) -> None:
        """Add messages, and their cost to the bill."""
        for message in messages:
            marked, seq = self._mark_tainted(message), self.entries[-1].seq + 1
            entry = await make_entry(self.log, seq, self.number, marked)
            self.entries.append(entry)
            self.reply = self._to_reply(marked)
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
        self._given, self._hands_out = len(given), hands_out
        super().__init__(log, Turn(1, tuple(given)))
        self.reply = None  # whatever the client's last message is

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

    def _to_reply(self, last: Message) -> Message | None:
        is_end = last.is_final or (self._hands_out and last.role == "assistant")
        return last if is_end else None

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

    async def shrink_request(self, view: View, prefix: PromptPrefix, overflow: Overflow) -> bool:
        """Return False: a client's messages are never removed."""
        return False

    async def close(self) -> None:
        """Notify the listeners of its tools that it has ended."""
        await self.log.services.events.emit(Event("session_end", self.log.state.key))


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
        question = Message("user", text, speaker=speaker)
        return PrivateTurn(self, log, await make_entry(log, seq, number, question))

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

    async def notify(
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
