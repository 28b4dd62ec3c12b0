"""Rows that can't be read, or that brought the bot down again and again: out of its way, kept."""

from __future__ import annotations

import json
import time
from typing import Any, Literal

from peewee import SqliteDatabase

from memory.record import tables

Kind = Literal["job", "inbox", "outbox"]
_TABLES: dict[Kind, Any] = {"job": tables.Job, "inbox": tables.Inbox, "outbox": tables.Outbox}


def put_aside(database: SqliteDatabase, kind: Kind, row: int, why: str) -> bool:
    """Move a row to where nobody works on it any more; False where it is gone already."""
    table = _TABLES[kind]
    query = table.select().where(table.id == row)
    for found in query.dicts().execute(database):
        tables.Aside.insert(
            kind=kind,
            chat=_chat(database, kind, found),
            content=json.dumps(found, default=str),
            why=why,
            at=time.time(),
        ).execute(database)
        table.delete().where(table.id == row).execute(database)
        return True
    return False


def _chat(database: SqliteDatabase, kind: Kind, row: dict[str, object]) -> str:
    """Where a row belongs, so that it is forgotten with its chat."""
    if kind != "job":
        return mail_chat(str(row["channel"]), str(row["chat"]), str(row["thread"]))
    columns = tables.Conversation
    query = columns.select(columns.key).where(columns.id == row["conversation"])
    return next((str(key) for (key,) in query.tuples().execute(database)), "")


def mail_chat(channel: str, chat: str, thread: str) -> str:
    """The name of the chat that mail belongs to."""
    return json.dumps([channel, chat, thread])


def forget(database: SqliteDatabase, *chats: str) -> None:
    """Delete what was put aside of these chats."""
    columns = tables.Aside
    columns.delete().where(columns.chat.in_(chats)).execute(database)


def delete_before(database: SqliteDatabase, before: float) -> None:
    """Delete what was put aside before a time (seconds since 1970)."""
    columns = tables.Aside
    columns.delete().where(columns.at < before).execute(database)
