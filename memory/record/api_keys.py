"""Keys to OpenAI's protocol: who holds one, and the digest that it is known by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peewee import SqliteDatabase

from memory.record import people, tables
from memory.record.people import Known, Role


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key without itself: whose it is ("web/ann"), what they may do, and when it was made and
    last used, in seconds since 1970 (`used` 0: never). `may_command`: text of theirs that begins
    with a slash is a command."""

    person: str
    role: Role
    may_command: bool
    at: float
    used: float = 0


def add(database: SqliteDatabase, key: ApiKey, digest: str, by: str) -> bool:
    """Let the holder of a new key in; False, and nothing done, where they have one."""
    columns = tables.ApiKey
    if columns.select().where(columns.person == key.person).exists(database):
        return False
    columns.insert(
        person=key.person, digest=digest, may_command=key.may_command, at=key.at, used=key.used
    ).execute(database)
    people.let_in(database, Known("person", key.person, key.role, "", by, key.at))
    return True


def every(database: SqliteDatabase) -> list[ApiKey]:
    """All keys, the oldest first."""
    return [_key(row) for row in _keys().order_by(tables.ApiKey.at).dicts().execute(database)]


def find(database: SqliteDatabase, digest: str) -> ApiKey | None:
    """The key with this digest, as long as its holder is let in."""
    query = _keys().where(tables.ApiKey.digest == digest)
    return next((_key(row) for row in query.dicts().execute(database)), None)


def mark_used(database: SqliteDatabase, person: str, at: float) -> None:
    """Keep when a key was used last."""
    columns = tables.ApiKey
    columns.update(used=at).where(columns.person == person).execute(database)


def revoke(database: SqliteDatabase, person: str) -> bool:
    """Let the holder of a key in no more; False where there is none."""
    columns = tables.ApiKey
    if not columns.select().where(columns.person == person).exists(database):
        return False
    people.revoke(database, "person", person)
    return True


def _keys() -> Any:
    columns, user = tables.ApiKey, tables.User
    is_holder = (user.kind == "person") & (user.id == columns.person)
    fields = (columns.person, user.role, columns.may_command, columns.at, columns.used)
    return columns.select(*fields).from_(columns.join(user, on=is_holder))


def _key(row: dict[str, Any]) -> ApiKey:
    return ApiKey(**row | {"may_command": bool(row["may_command"])})
