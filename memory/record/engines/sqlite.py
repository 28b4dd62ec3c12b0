"""SQLite: one file in the data folder, without a server. The default.

`synchronous=FULL`: an acknowledged message survives a power cut; with group commit this costs one
sync for many writes. `Store.write` documents the exceptions.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from peewee import DatabaseError, IntegrityError, SqliteDatabase

from memory.faults import DAMAGED, DISK_FULL, IN_USE, NO_DISK, NOT_PERMITTED, describe_fault
from memory.record.database import Claim, Database, Migration, StoreError
from memory.record.engines import soundness
from memory.record.migrations import MIGRATIONS, migrate

log = logging.getLogger(__name__)

SYNCED, UNSYNCED = "full", "normal"
"""SQLite's `synchronous` for commits that survive a power cut, and for other commits."""
_BUSY_MS = 5_000
_FOREVER = 3_600.0  # seconds
_LEAST_FREE = 65_536  # bytes that its log and its shared memory need
_PRAGMAS = {
    "journal_mode": "wal",
    "busy_timeout": _BUSY_MS,
    "foreign_keys": 1,
    "secure_delete": 1,  # deleted text must not remain in free pages
}
_LOOP_PRAGMAS = {
    "busy_timeout": 0,
    "wal_autocheckpoint": 0,
    "cache_size": -256,  # kB
    "foreign_keys": 1,
    "secure_delete": 1,
}


class SqliteFile(SqliteDatabase, Database):
    """A connection to a file, or to a database in memory (":memory:")."""

    synchronous = ""  # the last value set
    numbers = "(SELECT value FROM json_each(?))"
    names = "GROUP_CONCAT(DISTINCT speaker)"
    shared_lock = ""  # only one transaction writes at a time

    def read_columns(
        self, query: str, names: Sequence[str], values: Sequence[Any]
    ) -> list[list[Any]]:
        # For many rows, Python is slower than SQLite writing all of them as JSON.
        columns = ", ".join(f"json_group_array({name})" for name in names)
        row = self.execute_sql(f"SELECT {columns} FROM ({query})", values).fetchone()
        return [*map(orjson.loads, row)]

    def insert_row(self, statement: str, values: Sequence[Any]) -> int:
        cursor = self.execute_sql(statement, values)
        return cursor.lastrowid if cursor.rowcount else 0

    def commit_together(self, work: Callable[[], None], *, is_synced: bool) -> None:
        if (level := SYNCED if is_synced else UNSYNCED) != self.synchronous:
            self.set_synchronous(level)
        self.begin("IMMEDIATE")
        try:
            work()
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def set_synchronous(self, level: str) -> None:
        if level != self.synchronous:
            self.execute_sql(f"PRAGMA synchronous = {level}")
            self.synchronous = level

    def read(self, work: Callable[[], None]) -> None:
        work()

    def tolerates(self, error: BaseException) -> bool:
        if "Could not decode to UTF-8" not in str(error):
            return False
        self.connection().text_factory = _as_text
        log.error("The database holds text that is damaged; see `python main.py doctor`.")
        return True

    def scrub(self) -> None:
        # FTS5 only marks deleted rows until it merges its segments. VACUUM is needed too:
        # secure_delete skips the copies in pages from which rows were moved.
        try:
            self.execute_sql("INSERT INTO passage_words (passage_words) VALUES ('optimize')")
            self.execute_sql("VACUUM")
            is_busy = self.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        except DatabaseError as error:
            raise StoreError(
                f"Deleted, but traces are left: {_advise(describe_fault(error))}."
            ) from error
        if is_busy:
            raise StoreError(
                "Deleted, but traces are left in the database's files, because another process is "
                "reading them; stop it, and ask again."
            )

    def schema_version(self) -> int:
        return int(self.execute_sql("PRAGMA user_version").fetchone()[0])

    def create(self) -> None:
        # In one transaction, since each migration would be one, and wait for the disk.
        with self.atomic("EXCLUSIVE"):
            if self.schema_version() or self.get_tables():
                return  # another process has done it
            for _, statement in list_tables():
                self.execute_sql(statement)
            self.execute_sql(f"PRAGMA user_version = {len(MIGRATIONS)}")

    def upgrade(self, migration: Migration, version: int) -> None:
        with self.atomic("EXCLUSIVE"):
            if self.schema_version() >= version:
                return  # another process has done it
            migration(self)
            self.execute_sql(f"PRAGMA user_version = {version}")

    def insert_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection().executemany(statement, rows)

    def counter(self, table: str) -> int:
        newest = f'SELECT COALESCE(MAX(id), 0) FROM "{table}"'
        kept = "SELECT seq FROM sqlite_sequence WHERE name = ?"
        found = self.execute_sql(kept, (table,)).fetchone() or (0,)
        return max(int(self.execute_sql(newest).fetchone()[0]), int(found[0]))

    def set_counter(self, table: str, value: int) -> None:
        is_kept = "SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'"
        if self.execute_sql(is_kept, (table,)).fetchone():
            self.execute_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table,))
            self.execute_sql("INSERT INTO sqlite_sequence VALUES (?, ?)", (table, value))

    def is_being_filled(self) -> bool:
        return False  # a file is filled elsewhere, and moved into place when complete

    def mark_filling(self, is_begun: bool) -> None:
        pass

    # The words are stored in the transcript only (a contentless FTS5 table), so their removal needs
    # them again.

    def add_words(self, place: int, words: Sequence[str]) -> None:
        self.execute_sql(
            "INSERT INTO passage_words (rowid, words) VALUES (?, ?)", (place, " ".join(words))
        )

    def remove_words(self, place: int, words: Sequence[str]) -> None:
        self.execute_sql(
            "INSERT INTO passage_words (passage_words, rowid, words) VALUES ('delete', ?, ?)",
            (place, " ".join(words)),
        )

    def find_places(
        self, terms: Sequence[tuple[str, bool]], first: int, last: int, most: int
    ) -> list[list[int]]:
        query = """SELECT key, (SELECT json_group_array(rowid) FROM (
                SELECT rowid FROM passage_words WHERE passage_words MATCH value
                AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?))
            FROM json_each(?)"""
        wanted = orjson.dumps([f'"{word}"{"*" * is_prefix}' for word, is_prefix in terms]).decode()
        rows = dict(self.execute_sql(query, (first, last, most, wanted)).fetchall())
        return [orjson.loads(rows[number]) for number in range(len(terms))]


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def connect(path: Path) -> SqliteFile:
    """Return a connection with the project's settings: WAL, durable commits, waiting for locks."""
    database = SqliteFile(str(path), pragmas=_PRAGMAS)
    database.connect()
    database.set_synchronous(SYNCED)
    return database


def _connect_to_loop(path: Path) -> SqliteFile:
    """Connect for the event loop. The connection fails at once if another process writes.
    Checkpoints of the log, which sync, are left to others. Its cache is small, since it is rarely
    useful to the next transaction."""
    database = SqliteFile(str(path), pragmas=_LOOP_PRAGMAS)
    database.connect()
    database.set_synchronous(UNSYNCED)
    return database


def in_memory(*, is_shared: bool = False, schema: int = len(MIGRATIONS)) -> SqliteFile:
    """Return a database in memory with all tables (as of that version of the schema). It is deleted
    with its connection. With `is_shared`, any thread may use it, one at a time."""
    database = SqliteFile(":memory:", thread_safe=not is_shared, check_same_thread=not is_shared)
    database.connect()
    if schema == len(MIGRATIONS):
        database.create()
    else:
        migrate(database, schema)
    return database


@cache
def list_tables() -> tuple[tuple[str, str], ...]:
    """Return (name, SQL) of all tables and indexes, in the order of the migrations."""
    query = """SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL
        AND name NOT GLOB 'sqlite_*' AND name NOT GLOB 'passage_words_*' ORDER BY rowid"""
    with closing(SqliteFile(":memory:")) as database:
        database.connect()
        migrate(database)
        return tuple(database.execute_sql(query).fetchall())


class SqliteEngine:
    """SQLite, and the file that stores the record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def prepare(self, is_transfer: bool = False) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if missing := soundness.check_length(self.path):
                raise StoreError(f"{missing} {_MEND}")
            database = self.connect()
            try:
                if not database.schema_version():
                    database.create()
                migrate(database)
            finally:
                database.close()
        except (OSError, DatabaseError, *soundness.UNUSABLE) as error:
            raise _explain_opening(self.path, error) from error

    def connect(self, claim: Claim = "") -> Database:
        return connect(self.path)  # the data folder has a lock of its own

    def connect_to_loop(self) -> Database | None:
        try:
            return _connect_to_loop(self.path)
        except DatabaseError:  # another process holds it exclusively
            return None

    @contextmanager
    def visit(self, is_frozen: bool = False, claim: Claim = "") -> Iterator[Database]:
        try:
            with closing(self.connect(claim)) as database:
                if is_frozen:
                    database.execute_sql("BEGIN")
                yield database
                if is_frozen:
                    database.execute_sql("ROLLBACK")
        except (DatabaseError, *soundness.UNUSABLE) as error:
            raise _explain_opening(self.path, error) from error

    def is_pristine(self) -> bool:
        try:
            return soundness.is_unused(self.path)
        except OSError as error:
            raise _explain_opening(self.path, error) from error

    def explain(self, error: BaseException) -> BaseException:
        if not isinstance(error, DatabaseError | sqlite3.Error) or isinstance(error, _REFUSALS):
            return error
        fault = _fault_of(self.path, error, "")
        if fault == DAMAGED or (not fault and _lacks_columns(self.path)):
            return StoreError(f"The database is damaged. {_MEND}")
        if not fault:
            return error  # wrong SQL, ours or a plugin's
        return StoreError(f"This could not be saved: {_advise(fault)}.")

    def list_losses(self) -> list[str]:
        try:
            if soundness.check_length(self.path):
                return []  # `prepare` reports this
            lost = soundness.check_log(self.path)
        except OSError:
            return []
        return [lost] if lost else []

    def find_damage(self, patience: float) -> str:
        try:
            return soundness.check_integrity(self.path, patience)
        except soundness.UNUSABLE as error:
            return f"{self.path} can't be read: {_fault_of(self.path, error)}."

    def save_to(self, path: Path) -> None:
        try:
            with (
                closing(sqlite3.connect(self.path)) as source,
                closing(sqlite3.connect(path)) as copy,
            ):
                source.backup(copy)
        except soundness.UNUSABLE as error:
            raise StoreError(
                f"The database {self.path} can't be copied: {_fault_of(path, error)}."
            ) from error

    def examine(self) -> str:
        path = self.path
        if not path.exists():
            return ""
        try:
            if wrong := soundness.check_length(path) or soundness.check_integrity(path, _FOREVER):
                return wrong
            rows = soundness.unreadable_rows(path)
        except (OSError, *soundness.UNUSABLE) as error:
            if (fault := _fault_of(path, error)) in _ADVICE:
                raise _explain_opening(path, error) from error
            return f"{path} can't be read: {fault}."
        return f"{path} holds {rows}." if rows else ""


_MEND = (
    "Stop the bot, check with `python main.py doctor`, and restore a backup with `python main.py "
    "restore FILE`; the damaged database is kept beside it. Without a backup, `python main.py "
    "--new` puts it aside and starts with an empty one; the troubleshooting page says how to read "
    "what is left in it."
)
_REFUSALS = (IntegrityError, sqlite3.IntegrityError)
_ADVICE = {
    DISK_FULL: "the disk is full; free some space (nothing that was confirmed is lost)",
    IN_USE: "another process holds the database; stop it and try again",
    NOT_PERMITTED: "the database can't be opened or written; check the permissions of the data "
    "folder",
    NO_DISK: "the disk reports an error; check it, and keep a copy of the data folder",
}
"""The faults that a person can fix, each with the advice."""


def _advise(fault: str) -> str:
    return _ADVICE.get(fault, fault)


def _fault_of(path: Path, error: BaseException, otherwise: str = DAMAGED) -> str:
    """Return the fault of a database's file. SQLite reports a disk or permission error if the disk
    has no space for the files beside the database."""
    fault = describe_fault(error, otherwise)
    if fault in (NO_DISK, NOT_PERMITTED) and _is_full(path.parent):
        return DISK_FULL
    return fault


def _is_full(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _LEAST_FREE
    except OSError:
        return False


def _explain_opening(path: Path, error: Exception) -> StoreError:
    if "newer Parley" in str(error):
        return StoreError(
            f"{path} is not a database that this Parley can use ({error}); install that version, "
            "or restore a backup of this one with `python main.py restore FILE`."
        )
    fault = _fault_of(path, error)
    if fault == DAMAGED:
        return StoreError(f"{path} is damaged. {_MEND}")
    return StoreError(f"The database {path} can't be used: {_advise(fault)}.")


def _lacks_columns(path: Path) -> bool:
    """Return whether the file lacks a table or column of the schema, so that the SQL is not at
    fault."""
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=0)) as database:
            return not _list_columns() <= {*database.execute(_COLUMNS)}
    except soundness.UNUSABLE as error:
        return describe_fault(error) == DAMAGED


_COLUMNS = """SELECT one.name, field.name FROM sqlite_master AS one,
    pragma_table_info(one.name) AS field WHERE one.type = 'table'"""


@cache
def _list_columns() -> frozenset[tuple[str, str]]:
    with closing(in_memory()) as database:
        return frozenset(database.execute_sql(_COLUMNS).fetchall())
