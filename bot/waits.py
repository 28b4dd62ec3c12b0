"""The time for which turns wait for a person, which does not count as their work."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from memory.keys import ConversationKey


class Waits:
    """The time for which turns of each conversation have waited for a person since the start."""

    def __init__(self) -> None:
        self._ended: defaultdict[str, float] = defaultdict(float)
        self._running: dict[str, tuple[float, int]] = {}  # since when, and how many

    def seconds(self, key: ConversationKey) -> float:
        """Return the seconds, including those of a wait that goes on."""
        since, _ = self._running.get(key.id, (time.monotonic(), 0))
        return self._ended.get(key.id, 0.0) + time.monotonic() - since

    @contextmanager
    def count(self, key: ConversationKey) -> Iterator[None]:
        """Add the time spent in the block; concurrent waits count once."""
        since, count = self._running.get(key.id, (time.monotonic(), 0))
        self._running[key.id] = (since, count + 1)
        try:
            yield
        finally:
            since, count = self._running.pop(key.id)
            if count > 1:
                self._running[key.id] = (since, count - 1)
            else:
                self._ended[key.id] += time.monotonic() - since
