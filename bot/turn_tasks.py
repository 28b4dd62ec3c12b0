"""The tasks that run in each conversation now, and can be stopped: a voice message is heard, the
model answers, an answer is read aloud."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from memory.keys import ConversationKey

STOPPED = "Stopped, as you asked."


class StoppableTask(Struct):
    """`stopped` says why it was stopped, if it was."""

    task: asyncio.Task[Any]
    stopped: str = ""


class StoppableTasks:
    """The one task of each conversation."""

    def __init__(self) -> None:
        self._running: dict[str, StoppableTask] = {}

    def has(self, key: ConversationKey) -> bool:
        """Return whether anything runs in this conversation."""
        return key.id in self._running

    def stop(self, key: ConversationKey, why: str = STOPPED) -> bool:
        """End what runs in this conversation, if anything does."""
        running = self._running.get(key.id)
        if running is None:
            return False
        running.stopped = running.stopped or why
        running.task.cancel()
        return True

    @contextmanager
    def running(self, key: ConversationKey, task: asyncio.Task[Any]) -> Iterator[StoppableTask]:
        """Let the task be stopped in here, and not go on outside: also when the bot shuts down, and
        who waits for it is cancelled."""
        self._running[key.id] = running = StoppableTask(task)
        try:
            yield running
        finally:
            del self._running[key.id]
            task.cancel()
