"""Has the agent answer a turn: within its time, until somebody stops it, with its output shown
while it runs. Whatever happens, the turn is over afterwards.

The tasks that run in each conversation now, and can be stopped: a voice message is heard, the model
answers, an answer is read aloud.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from msgspec import Struct

from agent.loop import Agent, Output
from agent.models.base import AccountRefused, ModelError
from bot.activity import EventBus
from bot.problems import BROKEN, problem_of
from bot.recent import RecentActivity
from bot.runtime import RuntimeConfig
from channels.base import Activity, Delta, StepRestarted, Thought, ToolEnded, ToolStarted
from channels.language import ENGLISH, speaking
from channels.message import Address, Problem
from memory.branches import Branches
from memory.context.emergency import NoRoom
from memory.keys import ConversationKey
from memory.messages import Mark, Message, ToolCall
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from memory.turn_log import OpenTurn

STOPPED = "Stopped, as you asked."


class StoppableTask(Struct):
    """`stopped` says why it was stopped, if it was."""

    task: asyncio.Task[Any]
    stopped: str = ""


class _Begun(Struct):
    """A turn that is under way, with or without a task yet. `stopped` as in `StoppableTask`."""

    is_open: Callable[[], bool]
    stopped: str = ""


class StoppableTasks:
    """The one task of each conversation."""

    def __init__(self) -> None:
        self._running: dict[str, StoppableTask] = {}
        self._begun: dict[str, _Begun] = {}

    def has(self, key: ConversationKey) -> bool:
        """Return whether anything runs in this conversation."""
        return key.id in self._running or self._find_begun(key) is not None

    def _find_begun(self, key: ConversationKey) -> _Begun | None:
        """Return the turn that is open and has no task yet."""
        begun = self._begun.get(key.id)
        return begun if begun is not None and begun.is_open() else None

    def stop(self, key: ConversationKey, why: str = STOPPED) -> bool:
        """End what runs in this conversation, if anything does; a turn that is open and has no task
        yet ends as soon as it has one."""
        running = self._running.get(key.id)
        if running is None:
            if (begun := self._find_begun(key)) is not None:
                begun.stopped = begun.stopped or why
            return begun is not None
        running.stopped = running.stopped or why
        running.task.cancel()
        return True

    @contextmanager
    def turn(self, key: ConversationKey, is_open: Callable[[], bool]) -> Iterator[None]:
        """Let the turn that is opened and answered in here be stopped before its task begins, too.
        `is_open` says whether people see it yet, and it has no answer."""
        self._begun[key.id] = _Begun(is_open)
        try:
            yield
        finally:
            del self._begun[key.id]

    @contextmanager
    def running(self, key: ConversationKey, task: asyncio.Task[Any]) -> Iterator[StoppableTask]:
        """Let the task be stopped in here, and not go on outside: also when the bot shuts down, and
        who waits for it is cancelled."""
        self._running[key.id] = running = StoppableTask(task)
        if (begun := self._find_begun(key)) is not None and begun.stopped:
            running.stopped = begun.stopped
            task.cancel()
        try:
            yield running
        finally:
            del self._running[key.id]
            task.cancel()


log = logging.getLogger(__name__)


class TurnOutput(Output):
    """The agent's output, published as long as the chat leads to its conversation; `draft` is what
    streamed in the step under way."""

    def __init__(
        self,
        bus: EventBus,
        key: ConversationKey,
        branches: Branches,
        recent: RecentActivity,
        rules: RuntimeConfig,
    ) -> None:
        self._bus, self._key, self._branches = bus, key, branches
        self._recent, self._rules = recent, rules
        self._begun: dict[str, float] = {}  # calls of tools that run
        self._draft = StringIO()  # a list of a million small pieces would take 80 MB

    @property
    def draft(self) -> str:
        return self._draft.getvalue()

    def delta(self, text: str) -> None:
        self._draft.write(text)
        if self._bus.is_heard:
            self._publish(Delta(text))

    def thought(self, text: str) -> None:
        self._publish(Thought(text))

    def step_restarted(self) -> None:
        self._draft = StringIO()
        self._publish(StepRestarted())

    def tool_started(self, call: ToolCall) -> None:
        self._draft = StringIO()  # the step's text is recorded by now
        self._begun[call.id] = self._clock()
        self._publish(ToolStarted(call.name, call.arguments))

    def tool_ended(self, call: ToolCall, is_error: bool) -> None:
        now = self._clock()
        self._recent.tool_ended(call.name, now - self._begun.pop(call.id, now), is_error)
        self._publish(ToolEnded(call.name, is_error))

    def _publish(self, activity: Activity) -> None:
        if self._branches.is_current(self._key):
            self._bus.publish(self._key.home, activity)

    def _clock(self) -> float:
        """Return seconds that stand still where a person is waited for."""
        return time.monotonic() - self._rules.count_waited(self._key)


class _Ending(Struct, frozen=True):
    """The end of a turn that the agent did not end itself; `is_for_owner` where only an owner can
    mend what went wrong, which `problem` names."""

    mark: Mark
    sentence: str
    is_for_owner: bool = False
    problem: Problem = ""


class TurnRunner:
    """Has agents answer. `recent` hears of what only an owner can mend, and how tools end;
    events of a conversation are shown only where the chat leads to it."""

    def __init__(
        self,
        bus: EventBus,
        rules: RuntimeConfig,
        recent: RecentActivity,
        branches: Branches,
    ) -> None:
        self.bus, self.rules, self.recent, self._branches = bus, rules, recent, branches
        self.tasks = StoppableTasks()

    async def run(
        self,
        key: ConversationKey,
        turn: OpenTurn,
        agent: Agent,
        address: Address,
        waited: float,
    ) -> Problem:
        """Let the agent answer who asked at this address; whatever happens, the turn is over
        afterwards. `waited` is how long the conversation's turns have waited for people before.
        Returns what kept it from an answer, if anything did."""
        output = TurnOutput(self.bus, key, self._branches, self.recent, self.rules)
        started = time.monotonic()
        seconds = self.rules.book.effective(key.id).turn_timeout
        with speaking(ENGLISH):  # whatever plugins say in there, the model may read
            task = asyncio.create_task(agent.answer(turn, output))
        # When the bot shuts down meanwhile, the turn stays open and goes on at the next start.
        with self.tasks.running(key, task) as running:
            done = await self._is_done(task, key, seconds, waited)
            if not done:
                await cancel_and_wait(task)
        if ending := _judge_ending(running, seconds, is_late=not done):
            await turn.break_off(ending.mark, output.draft, ending.sentence)
            if ending.mark == "failed":
                await turn.tell("error", ending.sentence)
            if ending.is_for_owner:
                self.recent.model_refused(ending.sentence, address)
        took = time.monotonic() - started
        if ending:
            log.info("ended without an answer after %.2f s", took)
        else:
            log.info("answered in %.2f s", took)
        return ending.problem if ending else ""

    async def _is_done(
        self, task: asyncio.Task[Message], key: ConversationKey, seconds: float, waited: float
    ) -> bool:
        """Wait until the task is done, or has taken so long; what it waits for a person is not
        counted."""
        end, left = time.monotonic() + seconds - waited, seconds
        while left > 0:
            if (await asyncio.wait({task}, timeout=left))[0]:
                return True
            left = end - time.monotonic() + self.rules.count_waited(key)
        return False


def _judge_ending(running: StoppableTask, seconds: float, is_late: bool) -> _Ending | None:
    """Return how a finished task ended the turn; None when the agent's reply stands."""
    if running.stopped:
        return _Ending("stopped", running.stopped)
    if is_late:
        return _Ending(
            "failed",
            describe_timeout(seconds),
            problem="timeout",
        )
    error = None if running.task.cancelled() else _first(running.task.exception())
    if error is None:
        return _Ending("failed", BROKEN, problem="failed") if running.task.cancelled() else None
    if isinstance(error, ModelError | StoreError | NoRoom):
        log.warning("the turn failed: %s", error)
        is_for_owner = isinstance(error, AccountRefused)
        return _Ending("failed", str(error), is_for_owner, problem_of(error))
    log.error("the turn failed", exc_info=error)
    return _Ending("failed", BROKEN, problem="failed")


def describe_timeout(seconds: float) -> str:
    """Return the sentence for a person whose answer took too long."""
    return (
        f"The answer took longer than {seconds:g} s and was stopped; `/config turn_timeout` shows "
        "how long it may take."
    )


def _first(error: BaseException | None) -> BaseException | None:
    """Return the first cause of a group of errors, as tools that run side by side raise."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
