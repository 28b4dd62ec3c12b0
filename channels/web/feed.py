"""What happens in a session, numbered and kept for a while, for all who follow it.

Whoever was cut off goes on after the last number that it saw; where that is too long ago, or was
told by a process that is gone, it is shown the turn that runs as far as it is (`snapshot`), and
reads the rest from the transcript. So nothing is missed either way.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import uuid4

from channels.base import (
    Activity,
    Bot,
    ContextChanged,
    Delta,
    Done,
    Notice,
    StepRestarted,
    ToolEnded,
    ToolStarted,
    TurnStarted,
    Usage,
)
from channels.message import Address, Outbound
from channels.web.shapes import answer

KEPT = 5_000
"""Events of a session that can be told again."""
HEARTBEAT = 15.0
"""Seconds of silence after which a follower gets an empty batch: a sign of life for the wire."""
FEEDS = 500
"""Sessions that are watched at once; beyond, those that nobody has asked for lately are let go."""

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """`kind` is "turn", "delta", "restart", "tool", "context", "notice" or "done"; `place` is
    where it stands in its feed, as followers name it."""

    number: int
    kind: str
    data: Json
    place: str


@dataclass(slots=True)
class Draft:
    """The turn that runs, as far as it can be shown: texts and tools in the order they came."""

    id: str = ""
    question: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)

    def take(self, kind: str, data: Json) -> None:
        """Go on by one event."""
        match kind:
            case "turn":
                self.id, self.question, self.parts = data["id"], data["question"], []
            case "delta":
                self._say(data["text"])
            case "restart":
                self._unsay()
            case "tool" if data["state"] == "running":
                self.parts.append(dict(data))
            case "tool":
                self._end_tool(data)
            case "done" if data["id"] == self.id:
                self.id, self.question, self.parts = "", "", []

    def _say(self, text: str) -> None:
        if not self.parts or "text" not in self.parts[-1]:
            self.parts.append({"text": ""})
        self.parts[-1]["text"] += text

    def _unsay(self) -> None:
        if self.parts and "text" in self.parts[-1]:
            self.parts.pop()

    def _end_tool(self, data: Json) -> None:
        running = (p for p in self.parts if p.get("tool") == data["tool"])
        next((p for p in running if p["state"] == "running"), {}).update(data)


class Feed:
    """One session's. `answered` are the answers that are awaited here, by the message's id."""

    def __init__(self, bot: Bot, address: Address) -> None:
        self.address = address
        self.draft = Draft()
        self.turn_taking = asyncio.Lock()
        self._origin = uuid4().hex[:8]
        self._count = 0
        self._events: deque[Event] = deque(maxlen=KEPT)
        self._news = asyncio.Event()
        self._followers = 0
        self._awaited: dict[str, asyncio.Future[Event]] = {}
        self._running: set[str] = set()
        self._held: dict[str, Outbound] = {}
        self._usages: OrderedDict[str, Usage] = OrderedDict()
        self._is_closed = False
        self._watching: AbstractContextManager[AsyncIterator[Activity]] = bot.watch(address)
        self._task = asyncio.create_task(self._watch(self._watching.__enter__()))

    @property
    def is_needed(self) -> bool:
        return bool(self._followers or self._awaited or self._running)

    @property
    def end(self) -> int:
        """The number of the newest event."""
        return self._count

    def expect(self, message: str) -> asyncio.Future[Event]:
        """The answer to a message that is about to be submitted. Cancelled when the bot stops."""
        if message not in self._awaited:
            self._awaited[message] = asyncio.get_running_loop().create_future()
        return self._awaited[message]

    def is_expected(self, message: str) -> bool:
        return message in self._awaited

    def give_up(self, message: str) -> None:
        """The message is not going to be answered."""
        self._awaited.pop(message, None)

    def answer_to(self, message: str) -> Event | None:
        """An answer that was given lately."""
        events = reversed(self._events)
        return next((e for e in events if e.kind == "done" and e.data["id"] == message), None)

    def deliver(self, outbound: Outbound) -> None:
        """A reply is on disk. One that ends a turn is told after all that streamed of it."""
        message = outbound.reply_to
        if message in self._running and outbound.turn:
            self._held[message] = outbound
        else:
            self._finish(outbound, self._usages.pop(message, Usage()))

    def place_after(self, place: str) -> int | None:
        """The number behind an event's place; None where what came after it can't be told."""
        origin, _, number = place.partition("-")
        if origin != self._origin or not (number.isascii() and number.isdigit()):
            return None
        first = self._events[0].number if self._events else self._count + 1
        return int(number) if first - 1 <= int(number) <= self._count else None

    def place(self, number: int) -> str:
        return f"{self._origin}-{number}"

    async def batches(self, after: int) -> AsyncIterator[list[Event]]:
        """All events after this number, as they come, until the bot stops; an empty batch is a sign
        of life. A follower that falls too far behind is let go: it comes again."""
        self._followers += 1
        try:
            while not self._is_closed and after >= self._count - len(self._events):
                batch = [self._events[index] for index in range(after - self._count, 0)]
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
        """Let all followers go, and whoever waits for an answer."""
        self._is_closed = True
        self._wake()
        for future in self._awaited.values():
            future.cancel()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._watching.__exit__(None, None, None)

    async def _watch(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            self._take(activity)

    def _take(self, activity: Activity) -> None:
        match activity:
            case TurnStarted(message, question):
                self._running.add(message)
                self._add("turn", {"id": message, "question": question})
            case Delta(text):
                self._add("delta", {"text": text})
            case StepRestarted():
                self._add("restart", {})
            case ToolStarted(name, arguments):
                self._add("tool", {"tool": name, "arguments": arguments, "state": "running"})
            case ToolEnded(name, is_error):
                self._add("tool", {"tool": name, "state": "failed" if is_error else "done"})
            case ContextChanged(glance):
                self._add("context", asdict(glance))
            case Notice(text):
                self._add("notice", {"text": text})
            case Done(message, _, usage):
                self._turn_over(message, usage)

    def _turn_over(self, message: str, usage: Usage) -> None:
        self._running.discard(message)
        if (outbound := self._held.pop(message, None)) is not None:
            self._finish(outbound, usage)
            return
        self._usages[message] = usage
        if len(self._usages) > KEPT:
            self._usages.popitem(last=False)

    def _finish(self, outbound: Outbound, usage: Usage) -> None:
        self._running.discard(outbound.reply_to)
        event = self._add("done", answer(outbound, usage))
        future = self._awaited.pop(outbound.reply_to, None)
        if future is not None and not future.done():
            future.set_result(event)

    def _add(self, kind: str, data: Json) -> Event:
        self._count += 1
        event = Event(self._count, kind, data, self.place(self._count))
        self._events.append(event)
        self.draft.take(kind, data)
        self._wake()
        return event

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class Feeds:
    """All sessions that somebody asked for."""

    def __init__(self, bot: Bot) -> None:
        self._bot = bot
        self._feeds: OrderedDict[Address, Feed] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()

    def of(self, address: Address) -> Feed:
        """The feed of an address, begun now if it is not there."""
        feed = self._feeds.get(address)
        if feed is None:
            feed = self._feeds[address] = Feed(self._bot, address)
            self._let_go()
        self._feeds.move_to_end(address)
        return feed

    def deliver(self, outbound: Outbound) -> None:
        """Tell whoever follows the session; where nobody does, the transcript has it."""
        if (feed := self._feeds.get(outbound.address)) is not None:
            feed.deliver(outbound)

    def _let_go(self) -> None:
        surplus = len(self._feeds) - FEEDS
        idle = [a for a, feed in self._feeds.items() if not feed.is_needed][:-1]
        for address in idle[: max(0, surplus)]:
            task = asyncio.create_task(self._feeds.pop(address).close())
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    async def close(self) -> None:
        for feed in self._feeds.values():
            await feed.close()
        await asyncio.gather(*self._leaving)
