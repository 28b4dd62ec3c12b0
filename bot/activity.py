"""What happens in conversations, for whoever watches: bounded, never waited for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from contextlib import contextmanager

from channels.base import Activity, Delta

MOST = 10_000
"""Events that a watcher may leave unread before its oldest deltas are dropped."""


class EventBus:
    """Hands each event to all who watch its topic at that moment."""

    def __init__(self) -> None:
        self._watchers: dict[Hashable, set[_Watcher]] = {}

    def publish(self, topic: Hashable, event: Activity) -> None:
        for watcher in self._watchers.get(topic, ()):
            watcher.take(event)

    def announce(self, event: Activity) -> None:
        """Tell all watchers of all topics."""
        for topic in self._watchers:
            self.publish(topic, event)

    def is_watched(self, topic: Hashable) -> bool:
        return topic in self._watchers

    @contextmanager
    def watch(self, topic: Hashable) -> Iterator[AsyncIterator[Activity]]:
        """Events of a topic from now on."""
        watcher = _Watcher()
        self._watchers.setdefault(topic, set()).add(watcher)
        try:
            yield watcher.events()
        finally:
            self._watchers[topic].discard(watcher)
            if not self._watchers[topic]:
                del self._watchers[topic]


class _Watcher:
    def __init__(self) -> None:
        self._unread: deque[Activity] = deque()
        self._arrived = asyncio.Event()

    def take(self, event: Activity) -> None:
        if len(self._unread) >= MOST:
            self._drop_a_delta()
        self._unread.append(event)
        self._arrived.set()

    def _drop_a_delta(self) -> None:
        for index, event in enumerate(self._unread):
            if isinstance(event, Delta):
                del self._unread[index]
                return

    async def events(self) -> AsyncIterator[Activity]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._arrived.clear()
            await self._arrived.wait()
