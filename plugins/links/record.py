"""The rows of linked chats (`/link`), of requests for links, and of codes, stored as digests.

A link that has ended keeps its row: messages that were received while it was active belong to its
target.
"""

from __future__ import annotations

import hmac
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from memory.record import tables
from memory.record.database import Database
from memory.record.mailbox import AddressColumns
from memory.record.people import ChatLink


class LinkCode(Struct, frozen=True):
    """A code for linking to a conversation, without the code itself; `place` is where it was
    given."""

    target: str
    digest: str
    giver: str
    place: AddressColumns
    at: float


class LinkRequest(Struct, frozen=True):
    """A request of the chat `home` to join the conversation `target`, by the code that `giver` was
    given; `place` is where its `person` sent it, `at` when."""

    home: str
    target: str
    person: str
    giver: str
    place: AddressColumns
    at: float


def list_links(database: Database) -> list[ChatLink]:
    """Return all links in order of creation, including those that have ended."""
    columns = tables.Link
    query = columns.select().order_by(columns.at, columns.home)
    rows = query.dicts().execute(database)
    return [ChatLink(**row | {"is_over": bool(row["is_over"])}) for row in rows]


def put_code(database: Database, code: LinkCode, since: float) -> None:
    """Store a code, replacing the one for the same conversation; delete codes from before
    `since`."""
    columns = tables.LinkCode
    columns.delete().where(columns.at <= since).execute(database)
    row = _to_row(code) | {"tries": 0}  # no longer counted here (`channels/guess_limit.py`)
    tables.put(database, columns, ("target",), **row)


def find_code(database: Database, digest: str, since: float) -> LinkCode | None:
    """Return the code with this digest."""
    columns = tables.LinkCode
    rows = columns.select().where(columns.at > since).dicts().execute(database)
    found = [row for row in rows if hmac.compare_digest(row.pop("digest"), digest)]
    if not found:
        return None
    place = _pop_address(found[0])
    del found[0]["tries"]
    return LinkCode(**found[0], digest=digest, place=place)


def ask(database: Database, code: LinkCode, request: LinkRequest, since: float) -> bool:
    """Store a chat's request for a link, replacing its previous one, and use the code up. Return
    False, without a change, if the code was used already. Requests from before `since` are
    deleted."""
    columns, asked = tables.LinkCode, tables.LinkRequest
    is_it = (columns.target == code.target) & (columns.digest == code.digest)
    if not columns.delete().where(is_it).execute(database):
        return False
    asked.delete().where(asked.at <= since).execute(database)
    tables.put(database, asked, ("home",), **_to_row(request))
    return True


def list_requests(database: Database, target: str, giver: str, since: float) -> list[LinkRequest]:
    """Return the requests to join a conversation by a code of this person, oldest first."""
    columns = tables.LinkRequest
    is_theirs = (columns.target == target) & (columns.giver == giver) & (columns.at > since)
    rows = columns.select().where(is_theirs).order_by(columns.at).dicts().execute(database)
    return [LinkRequest(place=_pop_address(row), **row) for row in rows]


def end_request(database: Database, request: LinkRequest, link_at: float | None) -> bool:
    """Close a request, and link its chat from `link_at` on (None: refuse). Return False, without a
    change, if it was closed already. On success, codes for the chat's own conversation and requests
    to join it are deleted."""
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
    """End the link of a chat."""
    columns = tables.Link
    columns.update(is_over=1).where(columns.home == home).execute(database)


def _to_row(one: LinkCode | LinkRequest) -> dict[str, Any]:
    row = asdict(one) | asdict(one.place)
    del row["place"]
    return row


def _pop_address(row: dict[str, Any]) -> AddressColumns:
    return AddressColumns(*(row.pop(name) for name in ("channel", "chat", "thread", "user")))
