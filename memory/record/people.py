"""The people and chats with access, strangers who were given a pairing code, and linked chats. A
link that has ended keeps its row: messages that were received while it was active belong to its
target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from memory.record import tables
from memory.record.database import Database
from memory.record.mailbox import AddressColumns


class ChatLink(Struct, frozen=True):
    """A link from the chat whose first conversation is `home` ("telegram/42") to the conversation
    `target` ("terminal/main"), since `at` (seconds since 1970). `person` requested it with the code
    that was issued to `giver`."""

    home: str
    target: str
    person: str
    giver: str
    at: float
    is_over: bool = False


def forget_links(database: Database, person: str) -> None:
    """End the links that somebody requested or gave the code for, and delete their codes and
    requests, because the person has lost access."""
    link, code, asked = tables.Link, tables.LinkCode, tables.LinkRequest
    is_theirs = (link.person == person) | (link.giver == person)
    link.update(is_over=1).where(is_theirs).execute(database)
    code.delete().where(code.giver == person).execute(database)
    is_theirs = (asked.person == person) | (asked.giver == person)
    asked.delete().where(is_theirs).execute(database)


Kind = Literal["person", "chat"]
Role = Literal["owner", "user"]


class KnownPerson(Struct, frozen=True):
    """A person ("telegram/42"), or all members of a chat ("telegram/-100"), with access. `name` is
    the name on the platform, `by` the person who granted access, `at` the time in seconds since
    1970."""

    kind: Kind
    id: str
    role: Role
    name: str
    by: str
    at: float


class PendingPerson(Struct, frozen=True):
    """A stranger who was given a code, and the address they wrote from."""

    person: str
    name: str
    place: AddressColumns
    at: float


def list_known(database: Database) -> list[KnownPerson]:
    """List all people and chats with access, in order of admission."""
    columns = tables.User
    fields = (columns.kind, columns.id, columns.role, columns.name, columns.by, columns.at)
    query = columns.select(*fields).order_by(columns.at, columns.kind, columns.id)
    return [KnownPerson(*row) for row in query.tuples().execute(database)]


def find_known(database: Database, person: str) -> KnownPerson | None:
    """Return the entry of a person with access."""
    return next((one for one in list_known(database) if one.id == person), None)


def grant_access(database: Database, one: KnownPerson) -> None:
    """Grant access, or change the role."""
    tables.put(database, tables.User, ("kind", "id"), **asdict(one))


def revoke(database: Database, kind: Kind, identity: str) -> None:
    """Revoke access and API keys; end the person's links and browser sessions."""
    columns, key = tables.User, tables.ApiKey
    columns.delete().where((columns.kind == kind) & (columns.id == identity)).execute(database)
    if kind == "person":
        key.delete().where(key.person == identity).execute(database)
        forget_links(database, identity)
        for table in (tables.Invite, tables.Account, tables.Login):
            table.delete().where(table.person == identity).execute(database)


def list_pending(database: Database, since: float) -> list[PendingPerson]:
    """List the people who were given a code since a time and are waiting, oldest first."""
    columns = tables.Pairing
    query = columns.select().where(columns.at > since).order_by(columns.at)
    return [_to_pending(row) for row in query.dicts().execute(database)]


def ask(
    database: Database, stranger: PendingPerson, digest: str, since: float, most: int
) -> PendingPerson | None:
    """Store the digest of a stranger's code, unless they have one from after `since`, or `most`
    strangers of their channel have one. Return the stored entry; None if the limit is reached."""
    columns = tables.Pairing
    columns.delete().where(columns.at <= since).execute(database)
    waiting = list_pending(database, since)
    if theirs := [one for one in waiting if one.person == stranger.person]:
        return theirs[0]
    if sum(one.place.channel == stranger.place.channel for one in waiting) >= most:
        return None
    columns.insert(
        person=stranger.person,
        name=stranger.name,
        channel=stranger.place.channel,
        chat=stranger.place.chat,
        thread=stranger.place.thread,
        user=stranger.place.user,
        digest=digest,
        at=stranger.at,
        tries=0,  # no longer counted here (`channels/guess_limit.py`)
    ).execute(database)
    return stranger


def answer(database: Database, digest: str, since: float) -> PendingPerson | None:
    """Remove the stranger with this code from the list and return them."""
    columns = tables.Pairing
    query = columns.select().where((columns.digest == digest) & (columns.at > since))
    found = [_to_pending(row) for row in query.dicts().execute(database)]
    if not found:
        return None
    columns.delete().where(columns.person == found[0].person).execute(database)
    return found[0]


def last_place(database: Database, people: Sequence[str]) -> AddressColumns | None:
    """Return the address of the last message of one of these people ("telegram/42"; "terminal/" for
    the terminal's user) in a private chat. Its name is the person's own."""
    columns = tables.Inbox
    fields = (columns.channel, columns.chat, columns.thread, columns.user)
    is_theirs = columns.channel.concat("/").concat(columns.user).in_(list(people))
    is_private = (columns.user == "") | (columns.user == columns.chat)
    query = columns.select(*fields).where(is_theirs & is_private).order_by(columns.id.desc())
    return next((AddressColumns(*row) for row in query.limit(1).tuples().execute(database)), None)


def _to_pending(row: dict[str, Any]) -> PendingPerson:
    place = AddressColumns(row["channel"], row["chat"], row["thread"], row["user"])
    return PendingPerson(row["person"], row["name"], place, row["at"])
