"""Conversations as a list shows them: what they are called, and which hold some words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peewee import SqliteDatabase, fn

from memory.record import tables

BEGINNING = 200
"""Characters of the first question that stand for a title that was not given."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A conversation in a list; `at` is when something was said last, in seconds since 1970."""

    key: str
    title: str
    at: float


def rename(database: SqliteDatabase, conversation: int, title: str) -> None:
    """Give a conversation a title; "" takes it away."""
    tables.update(database, tables.Conversation, conversation, title=title)


def title(database: SqliteDatabase, conversation: int) -> str:
    """The title that a conversation was given; "" without one."""
    columns = tables.Conversation
    query = columns.select(columns.title).where(columns.id == conversation).tuples()
    return next((str(given) for (given,) in query.execute(database)), "")


def listed(database: SqliteDatabase, prefix: str, words: str = "") -> list[Listed]:
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
    return [_listed(*row) for row in found]


def _listed(key: str, title: str, beginning: Any, at: float) -> Listed:
    return Listed(key, title or str(beginning), at)
