"""Chats that go on in another chat's conversation (`/link`), those that ask to, and the codes by
which they ask: of a code only the digest is kept.

A link that is over keeps its row: messages that were taken in while it held belong where it led.
"""

from __future__ import annotations

import hmac
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from memory.record import tables
from memory.record.database import Database
from memory.record.links import ChatLink
from memory.record.mailbox import AddressColumns


class LinkCode(Struct, frozen=True):
    """A code that leads to a conversation, without itself; `place` is where it was given."""

    target: str
    digest: str
    giver: str
    place: AddressColumns
    at: float


class LinkRequest(Struct, frozen=True):
    """The chat `home` asks to go on in the conversation `target`, by the code that `giver` was
    given; `place` is where its `person` wrote that, `at` when."""

    home: str
    target: str
    person: str
    giver: str
    place: AddressColumns
    at: float


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
    row = _to_row(code) | {"tries": 0}  # which is counted no more (`channels/guessing.py`)
    tables.put(database, columns, ("target",), **row)


def find_code(database: Database, digest: str, since: float) -> LinkCode | None:
    """Return the code with this digest."""
    columns = tables.LinkCode
    rows = columns.select().where(columns.at > since).dicts().execute(database)
    found = [row for row in rows if hmac.compare_digest(row.pop("digest"), digest)]
    if not found:
        return None
    place = _take_place(found[0])
    del found[0]["tries"]
    return LinkCode(**found[0], digest=digest, place=place)


def ask(database: Database, code: LinkCode, request: LinkRequest, since: float) -> bool:
    """Keep that a chat asks to be linked, in the place of what it asked before, and use the code
    up; False, and nothing done, where it was used meanwhile. Requests from before `since` go."""
    columns, asked = tables.LinkCode, tables.LinkRequest
    is_it = (columns.target == code.target) & (columns.digest == code.digest)
    if not columns.delete().where(is_it).execute(database):
        return False
    asked.delete().where(asked.at <= since).execute(database)
    tables.put(database, asked, ("home",), **_to_row(request))
    return True


def list_requests(database: Database, target: str, giver: str, since: float) -> list[LinkRequest]:
    """Return the chats that ask to go on in a conversation by a code of this person, oldest
    first."""
    columns = tables.LinkRequest
    is_theirs = (columns.target == target) & (columns.giver == giver) & (columns.at > since)
    rows = columns.select().where(is_theirs).order_by(columns.at).dicts().execute(database)
    return [LinkRequest(place=_take_place(row), **row) for row in rows]


def settle(database: Database, request: LinkRequest, link_at: float | None) -> bool:
    """End a request, and let its chat go on where it asked to from `link_at` on (None: not); False,
    and nothing done, where it was over. Codes for the chat's own conversation, and requests to go
    on there, lead nowhere then."""
    asked, code, link = tables.LinkRequest, tables.LinkCode, tables.Link
    is_it = (asked.home == request.home) & (asked.at == request.at)
    if not asked.delete().where(is_it).execute(database):
        return False
    if link_at is None:
        return True
    code.delete().where(code.target == request.home).execute(database)
    asked.delete().where(asked.target == request.home).execute(database)
    link.update(is_over=1).where(link.home == request.home).execute(database)
    new = ChatLink(request.home, request.target, request.person, request.giver, link_at)
    tables.put(database, link, ("home", "target"), **asdict(new))
    return True


def end(database: Database, home: str) -> None:
    """Let a chat go on in its own conversation again."""
    columns = tables.Link
    columns.update(is_over=1).where(columns.home == home).execute(database)


def _to_row(one: LinkCode | LinkRequest) -> dict[str, Any]:
    row = asdict(one) | asdict(one.place)
    del row["place"]
    return row


def _take_place(row: dict[str, Any]) -> AddressColumns:
    return AddressColumns(*(row.pop(name) for name in ("channel", "chat", "thread", "user")))
