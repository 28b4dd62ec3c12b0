"""The parts of a database that grant power, for restoring a backup from somebody else; and the size
of its tables, without content."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from msgspec import Struct
from peewee import Table

from memory.faults import describe_fault
from memory.record import tables
from memory.record.database import Database
from memory.record.engines.soundness import UNUSABLE, read_only
from memory.record.store import StoreError

_WAITS = "WHERE is_done IS NOT 1 AND may_be_command(text)"
_RUNS = "WHERE kind IS NOT 'reminder' AND state IS NOT 'paused'"
_COMMAND = re.compile(r"\W*/")
"""Invisible characters may precede the slash of a command."""


class CarriedSettings(Struct, frozen=True):
    """The powerful parts of a record: settings made in chats, as (scope, key, value as JSON text;
    the scope is "" for all chats); the names of people and chats with access, as owners or users;
    and API keys for OpenAI's protocol, as (person, whether they may use commands, whether it was
    used)."""

    settings: tuple[tuple[str, str, str], ...] = ()
    owners: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    keys: tuple[tuple[str, bool, bool], ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """Linked chats: (chat, chat of the conversation)."""
    commands: tuple[tuple[str, str], ...] = ()
    """Commands waiting in the inbox, which would be executed at the next start in their authors'
    names, as the record states them: (place, text)."""
    jobs: tuple[tuple[str, str], ...] = ()
    """Jobs that would run at their times in the same way: (place, text)."""


def read_carried(path: Path) -> CarriedSettings:
    """Read the powerful parts of this database. Raises StoreError if it can't be read, or if it has
    statements that would run by themselves, which Parley's databases never have."""
    try:
        with closing(read_only(path)) as database:
            tables = _names(database, "table")
            if _names(database, "trigger") or _names(database, "view"):
                raise StoreError("its database holds triggers or views, which Parley's has not")
            settings = _rows(database, "SELECT scope, key, value FROM override", tables)
            keys = _rows(database, "SELECT person, may_command, used FROM api_key", tables)
            links = _rows(database, "SELECT home, target FROM link WHERE is_over = 0", tables)
            _know_commands(database)
            waiting = _rows(database, f"SELECT channel, chat, text FROM inbox {_WAITS}", tables)
            jobs = _rows(database, f"SELECT channel, chat, text FROM scheduled_job {_RUNS}", tables)
            people = _rows(database, "SELECT id, role FROM user ORDER BY at", tables)
    except UNUSABLE as error:
        raise StoreError(f"its database can't be read: {describe_fault(error)}") from None
    return CarriedSettings(
        tuple((str(scope), str(key), str(value)) for scope, key, value in settings),
        tuple(str(one) for one, role in people if role == "owner"),
        tuple(str(one) for one, role in people if role != "owner"),
        tuple((str(person), bool(may_command), bool(used)) for person, may_command, used in keys),
        tuple((str(home), str(target)) for home, target in links),
        tuple((f"{channel}/{chat}", str(text)) for channel, chat, text in waiting),
        tuple((f"{channel}/{chat}", str(text)) for channel, chat, text in jobs),
    )


def pause_jobs(path: Path) -> None:
    """Pause all jobs until a person resumes them, and revoke their tool grants, since a run may
    wait in the inbox. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path)) as database, database:
            if "scheduled_job" in _names(database, "table"):
                database.execute("UPDATE scheduled_job SET grants = ''")
                database.execute(
                    f"UPDATE scheduled_job SET state = 'paused', retry_at = 0, why = ? {_RUNS}",
                    ("it came with a backup",),
                )
    except UNUSABLE as error:
        raise StoreError(f"its database can't be changed: {describe_fault(error)}") from None


def delete_waiting_commands(path: Path) -> None:
    """Delete the waiting commands. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path)) as database, database:
            if "inbox" in _names(database, "table"):
                _know_commands(database)
                database.execute(f"DELETE FROM inbox {_WAITS}")
    except UNUSABLE as error:
        raise StoreError(f"its database can't be changed: {describe_fault(error)}") from None


def delete_settings(path: Path, keys: Collection[str]) -> None:
    """Delete these settings in every scope. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.executemany("DELETE FROM override WHERE key = ?", [(key,) for key in keys])
    except UNUSABLE as error:
        raise StoreError(f"its database can't be changed: {describe_fault(error)}") from None


def _know_commands(database: sqlite3.Connection) -> None:
    def may_be_command(text: object) -> bool:
        return not isinstance(text, str) or _COMMAND.match(text) is not None

    database.create_function("may_be_command", 1, may_be_command)


def _names(database: sqlite3.Connection, kind: str) -> frozenset[str]:
    query = "SELECT name FROM sqlite_master WHERE type = ?"
    return frozenset(name for (name,) in database.execute(query, (kind,)))


def _rows(
    database: sqlite3.Connection, query: str, tables: Collection[str]
) -> list[tuple[object, ...]]:
    """Return the rows of a query; none if its table does not exist yet."""
    words = query.split()
    is_there = words[words.index("FROM") + 1] in tables
    return database.execute(query).fetchall() if is_there else []


# --- its size -------------------------------------------------------------------------------------

SQLITE = sqlite3.sqlite_version


def count_rows(database: Database) -> dict[str, int]:
    """Return the number of rows of each of Parley's tables; other tables are not reported."""
    ours = {table.__name__ for table in vars(tables).values() if isinstance(table, Table)}
    there = ours.intersection(database.get_tables())
    return {
        name: int(database.execute_sql(f"SELECT COUNT(*) FROM {name}").fetchone()[0])
        for name in sorted(there)
    }
