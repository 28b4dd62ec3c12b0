"""The branches of chats, and the current branch of each chat; also people's later changes to the
context, which a branch may inherit."""

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
    """Apply people's changes in the conversation of `key` to the `branch` that was just made of it,
    as far as they concern the turns up to `turn`."""
    shared = {event.id for event in transcript.events_of(database, _row(database, branch))}
    seen = transcript.events_of(database, _row(database, key))
    later = [event for event in seen if event.id not in shared]
    found = [
        event
        for event in find_steering(later, shared, turn)
        if all(number <= turn for number in _covered_turns(database, event))
    ]
    branches.keep_steering(database, branch.id, [event.id for event in found])


def _row(database: Database, key: ConversationKey) -> int:
    columns = tables.Conversation
    return int(columns.select(columns.id).where(columns.key == key.id).scalar(database))


def _covered_turns(database: Database, event: ViewEvent) -> tuple[int, ...]:
    """Return the turns covered by the summaries that an event adds to the context."""
    found = (summaries.summary(database, text) for text in event.change.summaries)
    return tuple(
        turn
        for summary in found
        if summary is not None
        for turn in summaries.list_covered_turns(database, summary)
    )


class Branches:
    """The current branch of each chat, on disk and cached in memory, so that a message needs no
    query."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._leading: dict[str, str] = {}

    async def load(self, is_selected: Scope = everything) -> None:
        """Load the current branch of each chat."""
        found = await self._store.read(branches.list_current)
        kept = {home: lead for home, lead in self._leading.items() if not is_selected(home)}
        self._leading = kept | {home: lead for home, lead in found.items() if is_selected(home)}

    def current(self, key: ConversationKey) -> ConversationKey:
        """Return the current conversation of a chat, by the key of any of its branches."""
        lead = self.current_id(key.home)
        return key if lead == key.id else replace(key, id=lead)

    def current_id(self, home: str) -> str:
        """Return the id of the current conversation of the chat whose first conversation is
        `home`."""
        return self._leading.get(home, home)

    def is_current(self, key: ConversationKey) -> bool:
        """Return whether this conversation is the current one of its chat."""
        return self.current_id(key.home) == key.id

    async def is_deleted(self, key: ConversationKey) -> bool:
        """Return whether this was a branch that was deleted."""
        if not key.is_branch or self.is_current(key):
            return False
        return not await self._store.read(lambda db: branches.is_branch(db, key.id))

    async def of_chat(self, key: ConversationKey) -> list[BranchRow]:
        """Return the branches of a chat, after its first conversation."""
        return await self._store.read(lambda db: branches.of_chat(db, key.home))

    async def find_sharing(
        self, key: ConversationKey, turns: Collection[int]
    ) -> dict[ConversationKey, frozenset[int]]:
        """Return the other conversations that share some of these turns, with those turns."""
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
        """Branch off a conversation after this turn and make the branch the chat's current one,
        atomically. The branch begins with the context of that time or, with `is_as_now`, with
        people's later changes to the shared turns. Raises StoreError."""

        def work(db: Any) -> ConversationKey:
            made = branches.insert(db, key, turn, title, scopes)
            if is_as_now:
                carry(db, key, made, turn)
            branches.make_current(db, made)
            return made

        branch = await self._store.write(work)
        self._leading[key.home] = branch.id
        return branch

    async def switch(self, key: ConversationKey) -> None:
        """Make this conversation the current one of its chat. Raises StoreError."""
        await self._store.write(lambda db: branches.make_current(db, key))
        if key.is_branch:
            self._leading[key.home] = key.id
        else:
            self._leading.pop(key.home, None)
