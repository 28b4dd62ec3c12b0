"""The execution of a turn by the agent: within its time limit, stoppable, with its output shown
meanwhile, and always with an end; the stoppable tasks of each conversation; and the problems of
turns, as categories for programs."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

from msgspec import Struct

from agent.loop import Agent, Output
from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelSilent,
    ModelUnreachable,
)
from bot.activity import EventBus
from bot.recent import RecentActivity
from bot.runtime import RuntimeConfig
from bot.spending import BudgetSpent
from channels.base import Activity, Delta, StepRestarted, Thought, ToolEnded, ToolStarted
from channels.language import ENGLISH, speaking
from channels.message import Address, Problem
from memory.branches import Branches
from memory.context.emergency import RequestTooLong
from memory.context_state import ContextState
from memory.keys import ConversationKey
from memory.messages import Mark, Message, ToolCall
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from memory.turn_log import OpenTurn

BROKEN = (
    "Something went wrong inside the bot, so there is no answer; the log has the details "
    "(`python main.py logs`). Send your message again to try once more."
)
_FAULTS_OF_THE_REQUEST = (400, 413, 422)
_COMMAND = re.compile(r" ?[(（]`/[a-z][^`]{0,60}`[)）]")
"""A command that a sentence names for people in a chat."""


def without_commands(sentence: str) -> str:
    """Return a sentence without the commands in brackets, for places where they can't be sent."""
    return _COMMAND.sub("", sentence)


def problem_of(error: BaseException) -> Problem:
    """Return the category of an error, by which a program decides whether to retry."""
    match error:
        case BudgetSpent():
            return "spent"
        case ContextOverflow() | RequestTooLong():
            return "too_long"
        case ModelSilent():
            return "timeout"
        case ModelUnreachable():
            return "busy" if error.status == 429 else "unavailable"
        case ModelRefused() if not isinstance(error, AccountRefused):
            return "invalid" if error.status in _FAULTS_OF_THE_REQUEST else "upstream"
        case ModelError():
            return "upstream"
    return "failed"


STOPPED = "Stopped, as you asked."


class StoppableTask(Struct):
    """A running task; `stopped` is the reason if it was stopped."""

    task: asyncio.Task[Any]
    stopped: str = ""


class _StartedTurn(Struct):
    """A turn under way, with or without a task yet. `stopped` is as in `StoppableTask`."""

    context: ContextState
    stopped: str = ""


class StoppableTasks:
    """The stoppable tasks, one per conversation."""

    def __init__(self) -> None:
        self._running: dict[str, StoppableTask] = {}
        self._begun: dict[str, _StartedTurn] = {}

    def has(self, key: ConversationKey) -> bool:
        """Return whether a task or a turn runs in this conversation."""
        return key.id in self._running or self._find_begun(key) is not None

    def _find_begun(self, key: ConversationKey) -> _StartedTurn | None:
        """Return the open turn without a task yet, or None."""
        begun = self._begun.get(key.id)
        return begun if begun is not None and begun.context.current else None

    def stop(self, key: ConversationKey, why: str = STOPPED) -> bool:
        """Stop the task of this conversation; an open turn without a task is stopped once it has
        one. Return whether there was one."""
        running = self._running.get(key.id)
        if running is None:
            if (begun := self._find_begun(key)) is not None:
                begun.stopped = begun.stopped or why
            return begun is not None
        running.stopped = running.stopped or why
        running.task.cancel()
        return True

    @contextmanager
    def turn(self, context: ContextState) -> Iterator[None]:
        """Make the turn of a conversation with this context stoppable before its task begins, once
        it is open there."""
        key = context.key
        self._begun[key.id] = _StartedTurn(context)
        try:
            yield
        finally:
            del self._begun[key.id]

    @contextmanager
    def running(self, key: ConversationKey, task: asyncio.Task[Any]) -> Iterator[StoppableTask]:
        """Make the task stoppable in this context, and cancel it at the end: also if the bot shuts
        down and the waiting task is cancelled."""
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
    """The agent's output, published while its conversation is the chat's current one; `draft` is
    the streamed text of the current step."""

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
        if self._bus.has_watchers:
            self._publish(Delta(text))

    def thought(self, text: str) -> None:
        self._publish(Thought(text))

    def step_restarted(self) -> None:
        self._draft = StringIO()
        self._publish(StepRestarted())

    def tool_started(self, call: ToolCall) -> None:
        self._draft = StringIO()  # the step's text is recorded already
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
        """Return a time in seconds that stands still while a person is waited for."""
        return time.monotonic() - self._rules.waits.seconds(self._key)


class _Ending(Struct, frozen=True):
    """The end of a turn that the agent did not end itself. `problem` is its category; with
    `is_for_owner` only an owner can fix it."""

    mark: Mark
    sentence: str
    is_for_owner: bool = False
    problem: Problem = ""


class TurnRunner:
    """A runner of agents. `recent` is notified of faults for an owner and of ended tools; events of
    a conversation are published only while it is the chat's current one."""

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
        """Have the agent answer the person at this address; the turn always ends. `waited` is the
        time that the conversation's turns have waited for people before. Return the problem that
        prevented an answer, or ""."""
        output = TurnOutput(self.bus, key, self._branches, self.recent, self.rules)
        started = time.monotonic()
        seconds = self.rules.book.effective(key.id).turn_timeout
        with speaking(ENGLISH):  # the model may read what plugins say in here
            task = asyncio.create_task(agent.answer(turn, output))
        # If the bot shuts down meanwhile, the turn stays open and resumes at the next start.
        with self.tasks.running(key, task) as running:
            done = await self._is_done(task, key, seconds, waited)
            if not done:
                await cancel_and_wait(task)
        if ending := _judge_ending(running, seconds, is_late=not done):
            await turn.end_early(ending.mark, output.draft, ending.sentence)
            if ending.mark == "failed":
                await turn.notify("error", ending.sentence)
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
        """Wait until the task is done or has used up its time; waiting for a person is not
        counted."""
        end, left = time.monotonic() + seconds - waited, seconds
        while left > 0:
            if (await asyncio.wait({task}, timeout=left))[0]:
                return True
            left = end - time.monotonic() + self.rules.waits.seconds(key)
        return False


def _judge_ending(running: StoppableTask, seconds: float, is_late: bool) -> _Ending | None:
    """Return how a finished task ended the turn; None if the agent's reply is valid."""
    if running.stopped:
        return _Ending("stopped", running.stopped)
    if is_late:
        return _Ending(
            "failed",
            describe_timeout(seconds),
            problem="timeout",
        )
    if running.task.cancelled():
        return _Ending("failed", BROKEN, problem="failed")
    if (raised := running.task.exception()) is None:
        return None
    error = _first(raised)
    if isinstance(error, ModelError | StoreError | RequestTooLong):
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


def _first(error: BaseException) -> BaseException:
    """Return the first cause of a group of errors, as parallel tools raise it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
