"""The branches of chats: which there are, and which of them each chat leads to.

The changes by people to the context since a turn, which go along into a branch that begins after
it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from msgspec.structs import replace

from memory.context.change import ViewEvent
from memory.context.layout import find_steering
from memory.keys import ConversationKey, Scope, everything
from memory.record import branches, summaries, tables, transcript
from memory.record.branches import BranchRow
from memory.record.database import Database
from memory.record.store import Store


def carry(database: Database, key: ConversationKey, branch: ConversationKey, turn: int) -> None:
    """Let what people did in the conversation of `key` hold in the `branch` that was just made of
    it, as far as it concerns the turns up to `turn`."""
    shared = {event.id for event in transcript.events_of(database, _row(database, branch))}
    seen = transcript.events_of(database, _row(database, key))
    later = [event for event in seen if event.id not in shared]
    found = [
        event
        for event in find_steering(later, shared, turn)
        if all(number <= turn for number in _told(database, event))
    ]
    branches.keep_steering(database, branch.id, [event.id for event in found])


def _row(database: Database, key: ConversationKey) -> int:
    columns = tables.Conversation
    return int(columns.select(columns.id).where(columns.key == key.id).scalar(database))


def _told(database: Database, event: ViewEvent) -> tuple[int, ...]:
    """Return the turns that the summary tells of which an event puts into the context."""
    found = (summaries.summary(database, text) for text in event.change.summaries)
    return tuple(
        turn
        for summary in found
        if summary is not None
        for turn in summaries.list_covered_turns(database, summary)
    )


class Branches:
    """The current branch of each chat, kept in memory, so that a message costs no query, and on
    disk."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leading: dict[str, str] = {}

    async def take_up(self, is_meant: Scope = everything) -> None:
        """Read where each chat leads."""
        found = await self._store.read(branches.list_current)
        kept = {home: lead for home, lead in self._leading.items() if not is_meant(home)}
        self._leading = kept | {home: lead for home, lead in found.items() if is_meant(home)}

    def current(self, key: ConversationKey) -> ConversationKey:
        """Return the conversation that a chat leads to, by the key of any of its branches."""
        lead = self.lead_of(key.home)
        return key if lead == key.id else replace(key, id=lead)

    def lead_of(self, home: str) -> str:
        """Return the id of the conversation that the chat leads to whose first one this is."""
        return self._leading.get(home, home)

    def is_current(self, key: ConversationKey) -> bool:
        """Return whether its chat leads to this conversation."""
        return self.lead_of(key.home) == key.id

    async def is_gone(self, key: ConversationKey) -> bool:
        """Return whether this was a branch that somebody has deleted."""
        if not key.is_branch or self.is_current(key):
            return False
        return not await self._store.read(lambda db: branches.is_branch(db, key.id))

    async def of_chat(self, key: ConversationKey) -> list[BranchRow]:
        """Return the branches of a chat, its first conversation before them."""
        return await self._store.read(lambda db: branches.of_chat(db, key.home))

    async def find_sharing(
        self, key: ConversationKey, turns: Collection[int]
    ) -> dict[ConversationKey, frozenset[int]]:
        """Return the other conversations that share some of these turns, and which."""
        found = await self._store.read(lambda db: branches.find_sharing(db, key.id))
        shared = {
            replace(key, id=name): frozenset(turn for turn in turns if turn <= last)
            for name, last in found.items()
        }
        return {other: some for other, some in shared.items() if some}

    async def fork(
        self,
        key: ConversationKey,
        turn: int,
        title: str,
        scopes: Sequence[str],
        *,
        is_as_now: bool = False,
    ) -> ConversationKey:
        """Branch off a conversation after this turn, and let the chat lead to the branch; at once,
        so that a crash leaves both or neither. The branch begins with the context as it was then,
        or, where it `is_as_now`, with what people have changed since of what both share. Raises
        StoreError."""

        def work(db: Any) -> ConversationKey:
            made = branches.insert(db, key, turn, title, scopes)
            if is_as_now:
                carry(db, key, made, turn)
            branches.lead(db, made)
            return made

        branch = await self._store.write(work)
        self._leading[key.home] = branch.id
        return branch

    async def switch(self, key: ConversationKey) -> None:
        """Let the chat of this conversation lead to it. Raises StoreError."""
        await self._store.write(lambda db: branches.lead(db, key))
        if key.is_branch:
            self._leading[key.home] = key.id
        else:
            self._leading.pop(key.home, None)
