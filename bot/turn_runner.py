"""Has the agent answer a turn: within its time, until somebody stops it, with its output shown
while it runs. Whatever happens, the turn is over afterwards."""

from __future__ import annotations

import asyncio
import logging
import time
from io import StringIO

from msgspec import Struct

from agent.loop import Agent
from agent.models.base import AccountRefused, ModelError
from bot.activity import EventBus
from bot.problems import BROKEN, problem_of
from bot.recent import RecentActivity
from bot.runtime import RuntimeConfig
from bot.turn_tasks import StoppableTask, StoppableTasks
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

log = logging.getLogger(__name__)


class TurnOutput:
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
        self, key: ConversationKey, turn: OpenTurn, agent: Agent, address: Address
    ) -> Problem:
        """Let the agent answer who asked at this address; whatever happens, the turn is over
        afterwards. Returns what kept it from an answer, if anything did."""
        output = TurnOutput(self.bus, key, self._branches, self.recent, self.rules)
        started = time.monotonic()
        seconds = self.rules.book.effective(key.id).turn_timeout
        with speaking(ENGLISH):  # whatever plugins say in there, the model may read
            task = asyncio.create_task(agent.answer(turn, output))
        # When the bot shuts down meanwhile, the turn stays open and goes on at the next start.
        with self.tasks.running(key, task) as running:
            done = await self._is_done(task, key, seconds)
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
        self, task: asyncio.Task[Message], key: ConversationKey, seconds: float
    ) -> bool:
        """Wait until the task is done, or has taken so long; what it waits for a person is not
        counted."""
        end, left = time.monotonic() + seconds - self.rules.count_waited(key), seconds
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
