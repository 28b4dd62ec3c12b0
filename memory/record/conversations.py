"""Rows of conversations; and conversations as a list shows them: what they are called, and which
hold some words."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import orjson
from peewee import fn

from memory.context.meter import PromptFingerprint
from memory.keys import ConversationKey
from memory.record import tables
from memory.record.database import Database


@dataclass(frozen=True, slots=True)
class ConversationRow:
    """A conversation as stored: its row id, the numbers last given out, who spoke last, and the
    newest inbox row that a turn was opened for, and what its last request began with."""

    id: int
    last_seq: int
    last_turn: int
    person: str
    fingerprint: PromptFingerprint
    last_inbox: int


def find_or_create(database: Database, key: ConversationKey) -> ConversationRow:
    """The row of this conversation, made if it is new."""
    if not (found := _find(database, key)):
        now = time.time()
        tables.insert_new(
            database,
            tables.Conversation,
            key=key.id,
            audience=key.audience,
            last_seq=0,
            last_turn=0,
            person="",
            created_at=now,
            active_at=now,
            title="",
            framing="{}",
        )
        found = _find(database, key)
    ((row, last_seq, last_turn, person, framing, last_inbox),) = found
    return ConversationRow(row, last_seq, last_turn, person, _fingerprint(framing), last_inbox)


def _find(database: Database, key: ConversationKey) -> list[Any]:
    columns, message = tables.Conversation, tables.Message
    newest = message.select(fn.MAX(message.inbox)).where(
        (message.conversation == columns.id) & message.inbox.is_null(False)  # as the index has it
    )
    query = columns.select(
        columns.id,
        columns.last_seq,
        columns.last_turn,
        columns.person,
        columns.framing,
        fn.COALESCE(newest, 0),
    ).where(columns.key == key.id)
    return list(query.tuples().execute(database))


def _fingerprint(kept: str) -> PromptFingerprint:
    """What the last request began with; unknown where that can't be read."""
    found: Any = next(tables.readable([kept], orjson.loads), {})
    return found if isinstance(found, dict) else {}


def keep_fingerprint(database: Database, conversation: int, fingerprint: PromptFingerprint) -> None:
    """Keep what the next request begins with."""
    kept = orjson.dumps(fingerprint).decode()
    tables.update(database, tables.Conversation, conversation, framing=kept)


def idle_since(database: Database, before: float) -> list[ConversationKey]:
    """Conversations in which nothing was said since, of which messages are kept, and which no
    branch shares."""
    columns, message, branch = tables.Conversation, tables.Message, tables.Branch
    has_messages = fn.EXISTS(message.select().where(message.conversation == columns.id))
    is_branch = fn.EXISTS(branch.select().where(branch.conversation == columns.id))
    is_shared = fn.EXISTS(branch.select().where(branch.parent == columns.id))
    query = columns.select(columns.key, columns.audience).where(
        (columns.active_at < before) & (has_messages | is_branch) & ~is_shared
    )
    return [ConversationKey(*row) for row in query.tuples().execute(database)]


def of_audience(database: Database, audience: str) -> list[ConversationKey]:
    """All conversations of an audience, in a stable order."""
    columns = tables.Conversation
    query = columns.select(columns.key, columns.audience).where(columns.audience == audience)
    return [ConversationKey(*row) for row in query.order_by(columns.id).tuples().execute(database)]


BEGINNING = 200
"""Characters of the first question that stand for a title that was not given."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in a list; `at` is when something was said last, in seconds since 1970."""

    key: str
    title: str
    at: float


def rename(database: Database, conversation: int, title: str) -> None:
    """Give a conversation a title; "" takes it away."""
    tables.update(database, tables.Conversation, conversation, title=title)


def title(database: Database, conversation: int) -> str:
    """The title that a conversation was given; "" without one."""
    columns = tables.Conversation
    query = columns.select(columns.title).where(columns.id == conversation).tuples()
    return next((str(given) for (given,) in query.execute(database)), "")


def list_conversations(database: Database, prefix: str, words: str = "") -> list[Listed]:
    """Conversations whose key begins so and in which something was said, the newest first; with
    `words`, those whose title or messages hold them, as they stand, in any case."""
    columns, message = tables.Conversation, tables.Message
    mine = message.select(message.id).where(message.conversation == columns.id)
    first = message.select(fn.SUBSTR(message.text, 1, BEGINNING)).where(
        (message.conversation == columns.id) & (message.role == "user")
    )
    query = columns.select(
        columns.key,
        columns.title,
        fn.COALESCE(first.order_by(message.seq).limit(1), ""),
        columns.active_at,
    ).where(columns.key.startswith(prefix) & fn.EXISTS(mine))
    if words:
        holds = fn.EXISTS(mine.where(message.text.contains(words)))
        query = query.where(columns.title.contains(words) | holds)
    found = query.order_by(columns.active_at.desc()).tuples().execute(database)
    return [_to_listed(*row) for row in found]


def _to_listed(key: str, title: str, beginning: Any, at: float) -> Listed:
    return Listed(key, title or str(beginning), at)
