"""Keeps the search index up with what is said, in batches beside the turns."""

from __future__ import annotations

import logging

from memory.record.search import index
from memory.record.store import Store
from memory.tasks import BackgroundTasks

log = logging.getLogger(__name__)

TURNS = 25
"""Turns that are indexed together, in all conversations; a search does not wait for that many."""


class Indexer:
    """One for all conversations of a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: list[int] = []
        self._tasks = BackgroundTasks()

    def turn_ended(self, conversation: int) -> None:
        """A turn ended in the conversation of this row."""
        self._waiting.append(conversation)
        if len(self._waiting) >= TURNS and not self._tasks:
            waiting, self._waiting = set(self._waiting), []
            self._tasks.start(self._index(waiting), "index")

    async def catch_up(self, audience: str) -> None:
        """Index all that was said in an audience's conversations so far. Raises StoreError."""
        for row in await self._store.read(lambda db: index.behind(db, audience)):
            await self._index_one(row)

    async def idle(self) -> None:
        """Wait until no batch is under way."""
        await self._tasks.idle()

    async def close(self) -> None:
        """Stop; what is left is indexed before a search."""
        await self._tasks.close()

    async def _index(self, conversations: set[int]) -> None:
        try:
            for row in sorted(conversations):
                await self._index_one(row)
        except Exception:
            log.exception("what was said could not be indexed; the next search tries again")

    async def _index_one(self, row: int) -> None:
        while await self._store.write(lambda db: index.catch_up(db, row), is_synced=False):
            pass  # each batch in a transaction of its own, so that others come in between
