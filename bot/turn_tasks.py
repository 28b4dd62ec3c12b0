"""The tasks that run in each conversation now, and can be stopped: a voice message is heard, the
model answers, an answer is read aloud."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from memory.keys import ConversationKey

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
