"""The events of a session, numbered and kept for a limited time, for all its followers.

A follower that was disconnected resumes after the last number that it has seen. If that event was
evicted, or belongs to an earlier process, the follower gets the running turn so far (`snapshot`),
and reads the rest from the transcript. So no event is missed in either case, and few have to be
kept: `FeedLimits` has the limits.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from uuid import uuid4
from weakref import WeakValueDictionary

from msgspec import Struct
from msgspec.structs import asdict

from channels.base import (
    Activity,
    Bot,
    BranchChanged,
    ContextChanged,
    Delta,
    Done,
    Notice,
    PrivateChanged,
    StepRestarted,
    Thought,
    Titled,
    ToolEnded,
    ToolStarted,
    TurnsDeleted,
    TurnStarted,
    TurnUsage,
)
from channels.limited import LimitedDict
from channels.message import Address, Outbound, Reply
from channels.web.draft import StreamDraft
from channels.web.operations import Problem
from channels.web.shapes import answer

HEARTBEAT = 15.0
"""The seconds of silence after which a follower gets an empty batch, as a heartbeat."""
TIDY = 30.0
"""The interval in seconds for the eviction of old events."""
STOPPING = "The bot is shutting down; ask again in a moment."
_USAGES = 1_000  # of turns whose replies have not arrived yet
_TEXTS: Mapping[type[Activity], str] = {
    Delta: "delta",
    Thought: "thought",
    Notice: "notice",
    Titled: "title",
}
_EVENT = 500  # bytes of an event besides its texts, roughly

Json = Mapping[str, Any]


class FeedLimits(Struct, frozen=True):
    """The bounds on kept events: bytes of `one` session and of `all`, for at most `age` seconds.
    `feeds` is the maximum number of watched sessions, apart from those that are needed; the others
    are watched for at most `idle` seconds."""

    one: int = 256_000
    all: int = 32_000_000
    age: float = 300.0
    feeds: int = 500
    idle: float = 600.0


class FeedEvent(Struct, frozen=True):
    """An event. `kind` is "turn", "delta", "thought", "restart", "tool", "context", "branch",
    "private", "deleted", "title", "notice", "closed" or "done"; `origin` names its feed; `at` is a
    time of the loop's clock."""

    number: int
    kind: str
    data: Json
    origin: str
    at: float

    @property
    def place(self) -> str:
        """Its place in its feed, as followers name it."""
        return f"{self.origin}-{self.number}"

    @property
    def size(self) -> int:
        """Its size in bytes of memory, roughly."""
        return _EVENT + _size(self.data)


def _describe_transcript(changed: BranchChanged | PrivateChanged) -> tuple[str, Json]:
    """Return the event for the switch to another transcript."""
    if isinstance(changed, BranchChanged):
        return "branch", {"branch": changed.number}
    return "private", {"private": changed.is_private}


def _size(data: Any) -> int:
    if isinstance(data, str):
        return sys.getsizeof(data)
    if data is None or isinstance(data, int | float):  # most are, and the next check is slow
        return 30
    if isinstance(data, Mapping):
        return sum(60 + _size(value) for value in data.values())
    if isinstance(data, Sequence):
        return sum(60 + _size(value) for value in data)
    return 30


class EventBuffer:
    """The newest events of one feed. `on_size` is called with the change of its size in bytes."""

    def __init__(self, most: int, on_size: Callable[[int], None]) -> None:
        self._most, self._on_size = most, on_size
        self._events: deque[tuple[FeedEvent, int]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: FeedEvent) -> None:
        """Add an event; evict the oldest if there are too many bytes."""
        size = event.size
        self._events.append((event, size))
        self._grow(size)
        while self._bytes > self._most and len(self._events) > 1:
            self._drop()

    def newest(self, count: int) -> list[FeedEvent]:
        """Return the newest `count` events, in order."""
        return [self._events[index][0] for index in range(-count, 0)]

    def answer_to(self, message: str) -> FeedEvent | None:
        events = (event for event, _ in reversed(self._events))
        return next((e for e in events if e.kind == "done" and e.data["id"] == message), None)

    def drop_before(self, at: float) -> None:
        """Evict the events before this time."""
        while self._events and self._events[0][0].at < at:
            self._drop()

    def clear(self) -> None:
        while self._events:
            self._drop()

    def _drop(self) -> None:
        self._grow(-self._events.popleft()[1])

    def _grow(self, size: int) -> None:
        self._bytes += size
        self._on_size(size)


class Feed:
    """The feed of a session. `answered` are the answers that are awaited here, by the message's
    id."""

    def __init__(
        self, bot: Bot, address: Address, most: int, on_size: Callable[[int], None]
    ) -> None:
        self.address = address
        self.kept = EventBuffer(most, on_size)
        self.draft = StreamDraft()
        self.turn_taking = asyncio.Lock()
        self._origin = uuid4().hex[:8]
        self._count = 0
        self._loop = asyncio.get_running_loop()
        self.touched = self._loop.time()
        self._news = asyncio.Event()
        self._followers = 0
        self._awaited: dict[str, asyncio.Future[FeedEvent]] = {}
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._running: set[str] = set()
        self._held: dict[str, Outbound] = {}
        self._usages = LimitedDict[str, TurnUsage](_USAGES)
        self._is_closed = False
        self._watching: AbstractContextManager[AsyncIterator[Activity]] = bot.watch(address)
        self._task = asyncio.create_task(self._watch(self._watching.__enter__()))

    @property
    def is_needed(self) -> bool:
        is_asked = self.turn_taking.locked()  # a message is about to be submitted
        return bool(self._followers or self._awaited or self._running or is_asked)

    @property
    def end(self) -> int:
        """The number of the newest event."""
        return self._count

    def lock_of(self, message: str) -> asyncio.Lock:
        """Return the lock for the submission of a message: a second submission of the same message
        waits, and gets the result of the first."""
        return self._locks.setdefault(message, asyncio.Lock())

    def expect(self, message: str) -> asyncio.Future[FeedEvent]:
        """Return the future answer to a message that is about to be submitted. It is cancelled when
        the bot stops."""
        if message not in self._awaited:
            self._awaited[message] = asyncio.get_running_loop().create_future()
            if self._is_closed:  # meanwhile, since the caller had to wait
                self._awaited[message].cancel()
        return self._awaited[message]

    def is_expected(self, message: str) -> bool:
        return message in self._awaited

    def stop_expecting(self, message: str) -> None:
        """Stop expecting an answer to the message."""
        self._awaited.pop(message, None)

    def answer_to(self, message: str) -> FeedEvent | None:
        """Return a recent answer."""
        return self.kept.answer_to(message)

    def deliver(self, outbound: Outbound) -> None:
        """Deliver a reply that is on disk. The reply of a turn is sent after all streamed events of
        the turn."""
        message = outbound.reply_to
        if message in self._running and outbound.turn:
            self._held[message] = outbound
        else:
            self._finish(outbound, self._usages.pop(message, TurnUsage()))

    def close_question(self, question: str, how: str) -> None:
        """Notify followers that a question is over."""
        self._add("closed", {"question": question, "text": how})

    def place_after(self, place: str) -> int | None:
        """Return the number of an event's place; None if the events after it are no longer
        available."""
        origin, _, number = place.partition("-")
        if origin != self._origin or not re.fullmatch(r"[0-9]{1,18}", number):
            return None
        oldest = self._count - len(self.kept)
        return int(number) if oldest <= int(number) <= self._count else None

    def place(self, number: int) -> str:
        return f"{self._origin}-{number}"

    async def batches(self, after: int) -> AsyncIterator[list[FeedEvent]]:
        """Yield all events after this number, as they happen, until the bot stops; an empty batch
        is a heartbeat. A follower that falls too far behind is disconnected, and reconnects."""
        self._followers += 1
        try:
            while not self._is_closed and after >= self._count - len(self.kept):
                batch = self.kept.newest(self._count - after)
                if batch or not await self._has_news():
                    yield batch
                after += len(batch)
        finally:
            self._followers -= 1

    async def _has_news(self) -> bool:
        try:
            async with asyncio.timeout(HEARTBEAT):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def close(self) -> None:
        """Disconnect all followers, and cancel all awaited answers."""
        self._is_closed = True
        self._wake()
        for future in self._awaited.values():
            future.cancel()
        self.kept.clear()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._watching.__exit__(None, None, None)

    async def _watch(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            self._add_activity(activity)

    def _add_activity(self, activity: Activity) -> None:
        match activity:
            case TurnStarted(message, question, turn=turn):
                self._running.add(message)
                self._add("turn", {"id": message, "question": question, "turn": turn})
            case Delta(text) | Thought(text) | Notice(text) | Titled(text):
                self._add(_TEXTS[type(activity)], {"text": text})
            case StepRestarted():
                self._add("restart", {})
            case ToolStarted(name, arguments):
                self._add("tool", {"tool": name, "arguments": arguments, "state": "running"})
            case ToolEnded(name, is_error):
                self._add("tool", {"tool": name, "state": "failed" if is_error else "done"})
            case ContextChanged(usage):
                self._add("context", asdict(usage))
            case BranchChanged() | PrivateChanged():
                self._turn_page(activity)
            case TurnsDeleted(turns):
                self._add("deleted", {"turns": [f"t{turn}" for turn in turns]})
            case Done():
                self._add_reply(activity)

    def _turn_page(self, changed: BranchChanged | PrivateChanged) -> None:
        """Notify followers that other turns are shown now. Those of a private conversation are
        evicted."""
        if changed == PrivateChanged(False):
            self.kept.clear()
        self._add(*_describe_transcript(changed))

    def _add_reply(self, done: Done) -> None:
        message, usage = done.reply_to, done.usage
        place = done.address or self.address
        if place != self.address or self.address.channel != "web":
            # Another chat shares the conversation, or this conversation of another channel is
            # followed here: the reply is sent there, and shown here.
            reply = Outbound(0, place, Reply(done.text), message, done.turn)
            self._finish(reply, usage)
            return
        self._running.discard(message)
        if (outbound := self._held.pop(message, None)) is not None:
            self._finish(outbound, usage)
            return
        self._usages[message] = usage

    def _finish(self, outbound: Outbound, usage: TurnUsage) -> None:
        self._running.discard(outbound.reply_to)
        event = self._add("done", answer(outbound, usage))
        future = self._awaited.pop(outbound.reply_to, None)
        if future is not None and not future.done():
            future.set_result(event)

    def _add(self, kind: str, data: Json) -> FeedEvent:
        self._count += 1
        self.touched = self._loop.time()
        event = FeedEvent(self._count, kind, data, self._origin, self.touched)
        self.kept.add(event)
        self.draft.take(kind, data)
        self._wake()
        return event

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Feeds:
    """The feeds of all sessions in use."""

    def __init__(self, bot: Bot, bounds: FeedLimits) -> None:
        self._bot, self._bounds = bot, bounds
        self._feeds: OrderedDict[Address, Feed] = OrderedDict()
        self._bytes = 0
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closed = False
        self._tidying = asyncio.create_task(self._tidy())

    def of(self, address: Address) -> Feed:
        """Return the feed of an address; create it if it does not exist. Raises Problem while the
        bot stops."""
        if self._is_closed:
            raise Problem(503, STOPPING)
        feed = self._feeds.get(address)
        if feed is None:
            feed = self._feeds[address] = Feed(
                self._bot, address, self._bounds.one, lambda size: self._grow(address, size)
            )
            self._close_surplus()
        feed.touched = asyncio.get_running_loop().time()
        self._feeds.move_to_end(address)
        return feed

    def deliver(self, outbound: Outbound) -> None:
        """Notify the followers of the session; without any, the reply is in the transcript."""
        if (feed := self._feeds.get(outbound.address)) is not None:
            feed.deliver(outbound)

    def close_question(self, address: Address, question: str, how: str) -> None:
        """Notify the followers of the session that a question is over."""
        if (feed := self._feeds.get(address)) is not None:
            feed.close_question(question, how)

    def tidy(self, now: float) -> None:
        """Evict old events and feeds at this time of the loop's clock."""
        for address, feed in tuple(self._feeds.items()):
            feed.kept.drop_before(now - self._bounds.age)
            if not feed.is_needed and feed.touched < now - self._bounds.idle:
                self._close_feed(address)

    def _grow(self, address: Address, size: int) -> None:
        """Add to the size of the feed of this address. If all feeds are too large, evict the events
        of the others: first those that are not needed, and the least recently used."""
        self._bytes += size
        if size < 0 or self._bytes <= self._bounds.all:
            return
        others = (other for other in self._feeds if other != address)
        for other in sorted(others, key=lambda other: self._feeds[other].is_needed):
            self._feeds[other].kept.clear()
            if self._bytes <= self._bounds.all // 2:
                return

    def _close_surplus(self) -> None:
        surplus = len(self._feeds) - self._bounds.feeds
        idle = [a for a, feed in self._feeds.items() if not feed.is_needed][:-1]
        for address in idle[: max(0, surplus)]:
            self._close_feed(address)

    def _close_feed(self, address: Address) -> None:
        task = asyncio.create_task(self._feeds.pop(address).close())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _tidy(self) -> None:
        while True:
            await asyncio.sleep(TIDY)
            self.tidy(asyncio.get_running_loop().time())

    async def close(self) -> None:
        self._is_closed = True
        self._tidying.cancel()
        for feed in self._feeds.values():
            await feed.close()
        await asyncio.gather(self._tidying, *self._leaving, return_exceptions=True)
