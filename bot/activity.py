"""The events of conversations for their watchers: bounded, and without back-pressure.

The context of a chat is shown to its watchers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from channels.base import (
    Activity,
    BranchChanged,
    ContextChanged,
    Delta,
    Notice,
    Thought,
    TurnStarted,
)
from memory.conversation import Conversation
from memory.conversations import LoadedConversations
from memory.keys import ConversationKey
from plugins.wording import usage_of

MOST = 10_000
"""The maximum number of unread events of a watcher before its oldest deltas are dropped."""


class EventBus:
    """A bus that delivers each event to the current watchers of its topic: a chat, by the id of its
    first conversation. `followers` returns the chats that are linked to that conversation."""

    def __init__(self, followers: Callable[[str], Iterable[str]] = lambda topic: ()) -> None:
        self.watchers: dict[str, set[_Watcher]] = {}
        self._running: dict[str, list[Activity]] | None = None
        self.followers = followers

    def keep_running(self) -> None:
        """Keep the events of each running turn, for `so_far`."""
        self._running = {}

    @property
    def has_watchers(self) -> bool:
        """Return whether a topic is watched, or events are kept for later watchers."""
        return bool(self.watchers) or self._running is not None

    def publish(self, topic: str, event: Activity) -> None:
        if self._running is not None:
            self._keep(self._running, topic, event)
        if not self.watchers:
            return
        for one in (topic, *self.followers(topic)):
            for watcher in self.watchers.get(one, ()):
                watcher.take(event)

    def notify(self, key: ConversationKey, text: str) -> None:
        """Send the watchers of a conversation a line that belongs to no answer."""
        self.publish(key.home, Notice(text))

    @staticmethod
    def _keep(running: dict[str, list[Activity]], topic: str, event: Activity) -> None:
        if isinstance(event, TurnStarted):
            running[topic] = [event]
        elif topic in running:
            running[topic].append(event)

    def end_turn(self, topic: str) -> None:
        """Drop the kept events of a turn, whether its end was published or it failed before."""
        if self._running is not None:
            self._running.pop(topic, None)

    def so_far(self, topic: str) -> list[Activity]:
        """Return the events of the running turn, from its beginning."""
        return [] if self._running is None else list(self._running.get(topic, ()))

    def forget(self, is_deleted: Callable[[str], bool]) -> None:
        """Drop the kept events of these topics: their turns continue in another process."""
        if self._running is not None:
            for topic in [topic for topic in self._running if is_deleted(topic)]:
                del self._running[topic]

    def announce(self, event: Activity, but: str = "") -> None:
        """Send an event to all watchers of all topics except `but`."""
        for topic, watchers in self.watchers.items():
            for watcher in watchers if topic != but else ():
                watcher.take(event)

    def is_watched(self, topic: str) -> bool:
        return any(one in self.watchers for one in (topic, *self.followers(topic)))

    @contextmanager
    def watch(self, topic: str) -> Iterator[AsyncIterator[Activity]]:
        """Return the events of a topic from now on."""
        watcher = _Watcher()
        self.watchers.setdefault(topic, set()).add(watcher)
        try:
            yield watcher.events()
        finally:
            self.watchers[topic].discard(watcher)
            if not self.watchers[topic]:
                del self.watchers[topic]


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
            if isinstance(event, Delta | Thought):
                del self._unread[index]
                return

    async def events(self) -> AsyncIterator[Activity]:
        while True:
            while self._unread:
                yield self._unread.popleft()
            self._arrived.clear()
            await self._arrived.wait()


class ContextFeed(Struct, frozen=True):
    """The publisher of the context figures of loaded conversations to the watchers of their
    chats."""

    bus: EventBus
    loaded: LoadedConversations

    def show(self, key: ConversationKey) -> None:
        """Publish the context of a conversation if it is the current one of its chat and
        watched."""
        if not self.bus.watchers or not self.bus.is_watched(key.home):
            return  # the usual case: nobody has the page open
        conversation = self.loaded.find(key)
        if conversation is None:
            return
        if self.loaded.branches.is_current(key):
            self.bus.publish(key.home, ContextChanged(usage_of(conversation.context)))

    def show_all(self) -> None:
        """Publish the contexts of all conversations in memory."""
        for conversation in list(self.loaded.alive.values()):
            self.show(conversation.key)

    def show_branch(self, conversation: Conversation) -> None:
        """Publish that this conversation is the current one of its chat."""
        key = conversation.key
        self.bus.publish(key.home, BranchChanged(key.number))
        if self.bus.is_watched(key.home):
            self.bus.publish(key.home, ContextChanged(usage_of(conversation.context)))
