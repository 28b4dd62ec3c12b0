"""The people signed in on the page, invitations, passwords, and keys to OpenAI's protocol. Only
digests of all secrets are stored."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from memory.record import tables
from memory.record.database import Database
from memory.record.people import KnownPerson, Role, find_known, grant_access, revoke


class Invite(Struct, frozen=True):
    """An invitation link for a person ("web/ann"), for single use; times are in seconds since
    1970."""

    person: str
    role: Role
    digest: str
    by: str
    at: float


class LoginRow(Struct, frozen=True):
    """A browser in which a person is signed in ("web/": the owner, by the token from which `proof`
    is made). `browser` is its own description; times are in seconds since 1970."""

    id: int
    person: str
    proof: str
    browser: str
    at: float
    used: float


def put_invite(database: Database, invite: Invite, since: float) -> None:
    """Store an invitation, replacing the person's previous one; delete those from before
    `since`."""
    columns = tables.Invite
    columns.delete().where(columns.at <= since).execute(database)
    tables.put(database, columns, ("person",), **asdict(invite))


def find_invite(database: Database, digest: str, since: float) -> Invite | None:
    """Return the invitation with this digest, if it was made after `since`."""
    columns = tables.Invite
    query = columns.select().where((columns.digest == digest) & (columns.at > since))
    return next((Invite(**row) for row in query.dicts().execute(database)), None)


def accept(
    database: Database, digest: str, since: float, password: str, now: float
) -> Invite | None:
    """Redeem an invitation: give its person access, with this hash of a password ("": keep the
    existing one, if any). Return None if the invitation no longer exists."""
    columns = tables.Invite
    invite = find_invite(database, digest, since)
    is_it = columns.digest == digest
    if invite is None or not columns.delete().where(is_it).execute(database):
        return None
    known = find_known(database, invite.person)
    grant_access(database, known_by(invite, known, now))
    if password:
        tables.put(database, tables.Account, ("person",), person=invite.person, password=password)
    return invite


def known_by(invite: Invite, known: KnownPerson | None, now: float) -> KnownPerson:
    """Return the invited person's entry; existing data is kept."""
    name, by, at = ("", invite.by, now) if known is None else (known.name, known.by, known.at)
    return KnownPerson("person", invite.person, invite.role, name, by, at)


def find_password(database: Database, person: str) -> str:
    """Return the hash of a person's password; "" without one, or without access."""
    columns = tables.Account
    query = columns.select(columns.password).where(columns.person == person)
    found = [str(row) for (row,) in query.tuples().execute(database)]
    return found[0] if found and find_known(database, person) else ""


def set_password(database: Database, person: str, password: str, login: int) -> None:
    """Store the hash of a person's new password, and delete their other logins."""
    tables.put(database, tables.Account, ("person",), person=person, password=password)
    columns = tables.Login
    others = (columns.person == person) & (columns.id != login)
    columns.delete().where(others).execute(database)


def begin(database: Database, row: LoginRow, digest: str, since: float) -> int:
    """Sign a browser in; delete the logins that were not used after `since`."""
    columns = tables.Login
    columns.delete().where(columns.used <= since).execute(database)
    values = asdict(row) | {"digest": digest}
    del values["id"]
    return tables.insert(database, columns, **values)


def find(database: Database, digest: str, since: float) -> LoginRow | None:
    """Return the login with this digest, if its person has access and it was used after `since`."""
    columns = tables.Login
    is_it = (columns.digest == digest) & (columns.used > since)
    return next(iter(_select(database, is_it)), None)


def list_logins(database: Database, since: float, person: str = "") -> list[LoginRow]:
    """List the logins of a person ("": of all) used after `since`, in order of sign-in."""
    columns = tables.Login
    is_it = columns.used > since
    return _select(database, is_it & (columns.person == person) if person else is_it)


def mark_used(database: Database, login: int, at: float) -> None:
    """Store the time of a browser's last request."""
    tables.update(database, tables.Login, login, used=at)


def end(database: Database, login: int) -> None:
    """Sign a browser out."""
    tables.Login.delete().where(tables.Login.id == login).execute(database)


def _select(database: Database, condition: Any) -> list[LoginRow]:
    columns = tables.Login
    fields = (columns.id, columns.person, columns.proof, columns.browser, columns.at, columns.used)
    query = columns.select(*fields).where(condition).order_by(columns.id)
    return [LoginRow(*row) for row in query.tuples().execute(database)]


class ApiKey(Struct, frozen=True):
    """A key without its secret: its holder ("web/ann"), the role, and the times of creation and
    last use, in seconds since 1970 (`used` 0: never). `may_command`: the holder's text that begins
    with a slash is a command."""

    person: str
    role: Role
    may_command: bool
    at: float
    used: float = 0


def add_key(database: Database, key: ApiKey, digest: str, by: str) -> bool:
    """Store a new key and give its holder access; return False, without a change, if they have
    one."""
    columns = tables.ApiKey
    if columns.select().where(columns.person == key.person).exists(database):
        return False
    columns.insert(
        person=key.person, digest=digest, may_command=key.may_command, at=key.at, used=key.used
    ).execute(database)
    grant_access(database, KnownPerson("person", key.person, key.role, "", by, key.at))
    return True


def keys(database: Database) -> list[ApiKey]:
    """Return all keys, oldest first."""
    return [_key(row) for row in _holders().order_by(tables.ApiKey.at).dicts().execute(database)]


def find_key(database: Database, digest: str) -> ApiKey | None:
    """Return the key with this digest, if its holder has access."""
    query = _holders().where(tables.ApiKey.digest == digest)
    return next((_key(row) for row in query.dicts().execute(database)), None)


def mark_key_used(database: Database, person: str, at: float) -> None:
    """Store the time of a key's last use."""
    columns = tables.ApiKey
    columns.update(used=at).where(columns.person == person).execute(database)


def revoke_key(database: Database, person: str) -> bool:
    """Revoke the access of a key's holder; return False if there is none."""
    columns = tables.ApiKey
    if not columns.select().where(columns.person == person).exists(database):
        return False
    revoke(database, "person", person)
    return True


def _holders() -> Any:
    columns, user = tables.ApiKey, tables.User
    is_holder = (user.kind == "person") & (user.id == columns.person)
    fields = (columns.person, user.role, columns.may_command, columns.at, columns.used)
    return columns.select(*fields).from_(columns.join(user, on=is_holder))


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**row | {"may_command": bool(row["may_command"])})
