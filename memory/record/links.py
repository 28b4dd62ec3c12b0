"""Chats that go on in another chat's conversation (`/link`), and the codes by which they come to:
of a code only the digest is kept.

A link that is over keeps its row: messages that were taken in while it held belong where it led.
"""

from __future__ import annotations

import hmac
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from memory.record import tables
from memory.record.database import Database
from memory.record.mailbox import AddressColumns


class ChatLink(Struct, frozen=True):
    """The chat whose first conversation is `home` ("telegram/42") goes on in the conversation
    `target` ("terminal/main"), since `at` (seconds since 1970). `person` asked for that by the code
    that `giver` was given."""

    home: str
    target: str
    person: str
    giver: str
    at: float
    is_over: bool = False


class LinkCode(Struct, frozen=True):
    """A code that leads to a conversation, without itself; `place` is where it was given."""

    target: str
    digest: str
    giver: str
    place: AddressColumns
    at: float
    tries: int = 0


def list_links(database: Database) -> list[ChatLink]:
    """All links, those that are over too, in the order in which they were made."""
    columns = tables.Link
    query = columns.select().order_by(columns.at, columns.home)
    rows = query.dicts().execute(database)
    return [ChatLink(**row | {"is_over": bool(row["is_over"])}) for row in rows]


def put_code(database: Database, code: LinkCode, since: float) -> None:
    """Keep a code in the place of the one that led to the same conversation; those that were made
    before `since` go."""
    columns = tables.LinkCode
    columns.delete().where(columns.at <= since).execute(database)
    row = asdict(code) | asdict(code.place)
    del row["place"]
    tables.put(database, columns, ("target",), **row)


def find_code(database: Database, digest: str, since: float, most_tries: int) -> LinkCode | None:
    """The code with this digest. One that is not there is a wrong try, counted against all: none is
    taken with `most_tries` against it."""
    columns = tables.LinkCode
    is_valid = (columns.at > since) & (columns.tries < most_tries)
    rows = columns.select().where(is_valid).dicts().execute(database)
    found = [row for row in rows if hmac.compare_digest(row["digest"], digest)]
    if not found:
        columns.update(tries=columns.tries + 1).execute(database)
        return None
    return _to_code(found[0])


def redeem(database: Database, code: LinkCode, home: str, person: str, at: float) -> bool:
    """Let a chat go on where a code leads, which is used up by that; False, and nothing done, where
    it was used meanwhile. Codes that lead to the chat's own conversation lead nowhere then."""
    columns, link = tables.LinkCode, tables.Link
    is_it = (columns.target == code.target) & (columns.digest == code.digest)
    if not columns.delete().where(is_it).execute(database):
        return False
    columns.delete().where(columns.target == home).execute(database)
    link.update(is_over=1).where(link.home == home).execute(database)
    new = ChatLink(home, code.target, person, code.giver, at)
    tables.put(database, link, ("home", "target"), **asdict(new))
    return True


def end(database: Database, home: str) -> None:
    """Let a chat go on in its own conversation again."""
    columns = tables.Link
    columns.update(is_over=1).where(columns.home == home).execute(database)


def forget_person(database: Database, person: str) -> None:
    """End the links that somebody asked for, or gave the code for, and their codes: they are let in
    no more."""
    link, code = tables.Link, tables.LinkCode
    is_theirs = (link.person == person) | (link.giver == person)
    link.update(is_over=1).where(is_theirs).execute(database)
    code.delete().where(code.giver == person).execute(database)


def _to_code(row: dict[str, Any]) -> LinkCode:
    place = AddressColumns(*(row.pop(name) for name in ("channel", "chat", "thread", "user")))
    return LinkCode(**row, place=place)
