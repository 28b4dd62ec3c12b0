"""The output of a turn that people see while it runs."""

from __future__ import annotations

import time
from io import StringIO

from bot.activity import EventBus
from bot.recent import RecentActivity
from bot.runtime import RuntimeConfig
from channels.base import Activity, Delta, StepRestarted, Thought, ToolEnded, ToolStarted
from memory.branches import Branches
from memory.keys import ConversationKey
from memory.messages import ToolCall


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
