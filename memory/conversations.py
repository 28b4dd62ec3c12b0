"""All conversations of one store, each restored from disk when it is first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from memory.conversation import Conversation
from memory.files import Mirror
from memory.indexer import Indexer
from memory.keys import ConversationKey
from memory.record import ledger, mailbox, summaries, titles, transcript
from memory.record.ledger import Spent
from memory.record.titles import Listed
from memory.room import Room
from memory.stage import Stage

FAREWELL = 3.0
"""Seconds that those who listen to the end of a session have, all together."""


class Conversations:
    """All conversations of one store; each is restored from disk when it is first asked for."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.ratios: dict[str, float] = {}
        self.windows: dict[str, int] = {}
        self.on_change: Callable[[Stage], None] = lambda conversation: None
        self.on_spent: Callable[[ConversationKey, Spent], None] = lambda key, spent: None
        self.mirror = Mirror()
        self.indexer = Indexer(room.store)
        self._open: dict[str, asyncio.Task[Conversation]] = {}

    async def get(self, key: ConversationKey, is_restart: bool = True) -> Conversation:
        """The conversation of this key; asked for twice at once, it is loaded once. Who only looks
        after it does not want the cut that a restart makes (`is_restart` False)."""
        task = self._open.get(key.id)
        if task is None or (task.done() and (task.cancelled() or task.exception())):
            task = self._open[key.id] = asyncio.create_task(self._load(key, is_restart))
        return await asyncio.shield(task)

    async def _load(self, key: ConversationKey, is_restart: bool) -> Conversation:
        await self.room.meter.ready()
        conversation = Conversation(self, key)
        await conversation.restore(is_restart)
        return conversation

    async def take_up(self) -> None:
        """Read each model's calibration, and go on with the jobs that a crash left undone."""
        self.ratios = await self.room.store.read(ledger.ratios)
        for key, _ in await self.room.store.read(summaries.unfinished):
            await self.get(key)  # a conversation takes its own jobs up when it is restored

    async def idle_since(self, before: float) -> list[ConversationKey]:
        """Conversations in which nothing was said since a time (seconds since 1970), and of which
        something is kept."""
        return await self.room.store.read(lambda db: transcript.idle_since(db, before))

    async def of_audience(self, audience: str) -> list[ConversationKey]:
        """All conversations of an audience."""
        return await self.room.store.read(lambda db: transcript.of_audience(db, audience))

    async def listed(self, prefix: str, words: str = "") -> list[Listed]:
        """Conversations whose key begins so, the newest first; see `titles.listed`."""
        return await self.room.store.read(lambda db: titles.listed(db, prefix, words))

    async def delete_mail_before(self, before: float) -> None:
        """Delete what came in and was answered before a time (seconds since 1970)."""
        await self.room.store.write(lambda db: mailbox.delete_before(db, before))

    async def settle(self) -> None:
        """Wait until summaries are in the daily memory, and files and index are written."""
        for conversation in self._loaded():
            await conversation.scribe.idle()
        await self.mirror.settle()
        await self.indexer.idle()

    async def close(self) -> None:
        """End the sessions, and stop what runs in the background; it goes on at the next start."""
        endings = [conversation.end_session() for conversation in self._loaded()]
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await asyncio.gather(*endings)
        await self.mirror.close()
        for conversation in self._loaded():
            await conversation.scribe.close()
        await self.indexer.close()

    def _loaded(self) -> list[Conversation]:
        tasks = [task for task in self._open.values() if task.done() and not task.cancelled()]
        return [task.result() for task in tasks if not task.exception()]
