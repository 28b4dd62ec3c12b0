"""The memory layer in tests: a real store, a real meter, and a scripted summarizer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any

from memory.context.change import Change
from memory.context.meter import Meter, PromptPrefix
from memory.context.plan import Plan, squeeze
from memory.context.settings import Limits
from memory.context.summary import SummaryRequest, SummaryResult
from memory.context.view import View
from memory.conversation import Conversation
from memory.conversations import Conversations
from memory.events import Events
from memory.keys import ConversationKey
from memory.ledger import Spent
from memory.messages import Message, ToolCall
from memory.record.offload import Offloader
from memory.record.search.likeness import Likeness
from memory.record.store import Store
from memory.services import MemoryServices, Mirror, RequestLog
from memory.turn_log import OpenTurn

KEY = ConversationKey("pipe/main", "pipe-main")
FRAME = PromptPrefix("You are a test.", ({"type": "function", "function": {"name": "look"}},))


class Looked(str):
    """A text that counts the characters read from it in pieces."""

    __slots__ = ("looked",)

    def __getitem__(self, place: Any) -> str:
        part = str.__getitem__(self, place)
        self.looked = getattr(self, "looked", 0) + len(part)
        return part


@dataclass
class Obedient:
    """A summarizer controlled by a test; by default it writes one short line."""

    answer: Callable[[SummaryRequest], str] = lambda request: "They talked."
    requests: list[SummaryRequest] = field(default_factory=list)
    gate: asyncio.Event | None = None

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        self.requests.append(request)
        if self.gate is not None:
            await self.gate.wait()
        text = self.answer(request)
        request.on_spent(Spent("summary", "fake", 10, 0, 5, 0.001))
        return SummaryResult(text, "fake", text if request.has_diary else "")


@dataclass
class HarnessRules:
    """The rules of a harness, for all its conversations."""

    harness: MemoryHarness
    plugin_offloader: Offloader | None = None

    def at(self, key: ConversationKey) -> MemoryHarness:
        del key
        return self.harness

    def prefix(self, key: ConversationKey) -> PromptPrefix:
        del key
        return self.harness.frame

    def zone(self) -> tzinfo:
        return UTC

    def restores_exactly(self) -> bool:
        return self.harness.restores_exactly

    def offloader(self, key: ConversationKey) -> Offloader | None:
        del key
        return self.harness.offloader


@dataclass
class MemoryHarness:
    """A bot's memory that a test can close and reopen."""

    folder: Path
    limits: Limits = field(default_factory=Limits)
    summarizer: Obedient = field(default_factory=Obedient)
    restores_exactly: bool = True
    frame: PromptPrefix = FRAME
    events: Events = field(default_factory=Events)
    offloader: Offloader | None = None
    request_log: type[RequestLog] = RequestLog
    mirror: type[Mirror] = Mirror
    likeness: Likeness = field(default_factory=Likeness)

    async def open(self) -> None:
        self.store = await Store.open(self.folder / "parley.db")
        room = MemoryServices(
            self.store,
            Meter(),
            self.summarizer,
            HarnessRules(self),
            self.folder,
            events=self.events,
            request_log=self.request_log,
            mirror=self.mirror,
            likeness=self.likeness,
        )
        self.conversations = Conversations(room)
        await self.conversations.load()

    async def close(self) -> None:
        await self.conversations.close()
        await self.store.close()

    async def restart(self) -> None:
        await self.close()
        await self.open()

    async def conversation(self, key: ConversationKey = KEY) -> Conversation:
        return await self.conversations.get(key)

    def limit(self, **changes: Any) -> None:
        self.limits = self.limits.but(**changes)

    async def says(
        self, text: str, results: Sequence[str] = (), reply: str = "Yes.", **who: Any
    ) -> list[View]:
        """Record a complete turn, with one step for each tool result; return the view of each
        request."""
        conversation = await self.conversation(**who)
        turn = await conversation.turns.open(text)
        views = [await turn.fit(self.frame)]
        for number, result in enumerate(results):
            await calls(turn, number, result)
            views.append(await turn.fit(self.frame))
        await turn.record(Message("assistant", reply))
        return views

    async def settle(self) -> None:
        await self.conversations.flush()


async def calls(turn: OpenTurn, number: int, result: str) -> None:
    """Record a call of a tool and its result."""
    call = ToolCall(f"c{turn.number}_{number}", "look", "{}")
    await turn.record(Message("assistant", "", (call,)))
    await turn.record(Message("tool", result, call_id=call.id, tool="look"))


def texts(view: View) -> list[str]:
    """Return the texts of the messages of the next request, without the frame."""
    return [str(message["content"]) for message in view.to_wire(PromptPrefix(""))]


async def execute(conversation: Conversation, change: Change) -> None:
    """Change the context, as an emergency would."""
    async with conversation.context.changing:
        await conversation.compactor.execute(Plan(change, "a test wants it"), "emergency")


async def squeeze_turns(conversation: Conversation, turns: Collection[int]) -> None:
    """Squeeze these turns to question and reply."""
    there = [turn for turn in conversation.context.view().turns if turn.number in turns]
    await execute(conversation, Change(squeeze(conversation.context.view(), there)))
