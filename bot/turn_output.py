"""The output of a turn that people see while it runs."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

from bot.activity import EventBus
from bot.recent import RecentActivity
from channels.base import Activity, Delta, StepRestarted, Thought, ToolEnded, ToolStarted
from memory.messages import ToolCall


class TurnOutput:
    """The agent's output, published as long as the chat leads to its conversation; `draft` is what
    streamed in the step under way. `clock` gives seconds, and stands still where a person is waited
    for."""

    def __init__(
        self,
        bus: EventBus,
        topic: str,
        is_current: Callable[[], bool],
        recent: RecentActivity,
        clock: Callable[[], float],
    ) -> None:
        self._bus, self._topic, self._is_current = bus, topic, is_current
        self._recent, self._clock = recent, clock
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
        if self._is_current():
            self._bus.publish(self._topic, activity)
