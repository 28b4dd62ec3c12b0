"""The rehearsal of a record's migrations on a copy of it, with a report of each step."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec import Struct
from peewee import DatabaseError

from memory.record import bot_state
from memory.record.database import Database, DatabaseEngine, Migration, StoreError
from memory.record.engines.sqlite import SqliteEngine, SqliteFile, connect
from memory.record.migrations import MIGRATIONS, list_pending
from memory.tasks import SILENT, TaskProgress

NEWEST = len(MIGRATIONS)
"""The version of the schema that this Parley writes."""


class Step(Struct, frozen=True):
    """A migration that was applied: the resulting version, its name, its duration in seconds, the
    names of the tables and columns (`table.column`) that it added, and the number of rows that it
    wrote."""

    version: int
    name: str
    seconds: float
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int


class Rehearsal(Struct, frozen=True):
    """The result of the rehearsal: the steps, the number of messages, equal before and after, and
    the settings of chats (scope, key, value)."""

    steps: tuple[Step, ...]
    messages: int
    overrides: dict[str, dict[str, Any]]


def find_schema(engine: DatabaseEngine) -> int:
    """Return the version of a record's schema; 0 if there is none yet. Raises StoreError, also for
    the record of a newer Parley."""
    with engine.visit() as database:
        list_pending(database)
        return database.schema_version()


def rehearse(copy: Path, progress: TaskProgress = SILENT) -> Rehearsal:
    """Upgrade the record in this SQLite file, which no other code uses. Raises StoreError, as the
    start of a bot would, or if messages were lost."""
    try:
        with closing(connect(copy)) as database:
            before = _count_messages(database)
            waiting, steps = [*list_pending(database)], list[Step]()
            for pending in waiting:
                progress.show_progress(len(steps), len(waiting))
                steps.append(_execute(database, *pending))
            after = _count_messages(database)
            changed = bot_state.load_overrides(database)
    except (DatabaseError, sqlite3.Error) as error:
        raise StoreError(f"The upgrade would fail: the database says {str(error)!r}.") from error
    fault = SqliteEngine(copy).examine()
    if fault or before != after:
        what = fault or f"of {before} messages {after} are left."
        raise StoreError(f"The upgrade would do harm: {what}")
    return Rehearsal(tuple(steps), after, changed)


def _execute(database: SqliteFile, version: int, migration: Migration) -> Step:
    tables, columns = _read_shape(database)
    rows, began = database.connection().total_changes, time.perf_counter()
    database.upgrade(migration, version)
    seconds = time.perf_counter() - began
    written = database.connection().total_changes - rows
    new_tables, new_columns = _read_shape(database)
    return Step(
        version,
        migration.name.replace("_", " "),
        seconds,
        tuple(sorted(new_tables - tables)),
        tuple(sorted(one for one in new_columns - columns if one.split(".")[0] in tables)),
        written,
    )


def _read_shape(database: Database) -> tuple[set[str], set[str]]:
    """Return the names of all tables, and of their columns."""
    query = """SELECT tables.name, tables.name || '.' || columns.name
        FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns
        WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite_%'
            AND tables.name NOT LIKE 'passage_words_%'"""
    rows = database.execute_sql(query).fetchall()
    return {table for table, _ in rows}, {column for _, column in rows}


def _count_messages(database: Database) -> int:
    if not database.schema_version():
        return 0
    return int(database.execute_sql("SELECT COUNT(*) FROM message").fetchone()[0])
