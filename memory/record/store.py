"""The database: one thread that writes, one that reads, each with a connection of its own.

Writes that arrive while a transaction is being committed share the next one (group commit), so a
hundred conversations cost hardly more commits than one. A write's awaiter resumes only after the
commit is on disk. Work is a function of the database; it runs in the lane's thread and must not
touch the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Generic, TypeVar

from peewee import DatabaseError, InternalError, OperationalError, SqliteDatabase

from memory.record import soundness
from memory.record.migrations import migrate
from memory.record.search import index

T = TypeVar("T")
Work = Callable[[SqliteDatabase], T]

log = logging.getLogger(__name__)

GROUP = 500  # jobs that share one transaction at most
_BUSY_MS = 5_000
FOREVER = 3_600.0  # seconds


class StoreError(Exception):
    """The database can't do what it must. The text is a plain sentence with what to do."""


@dataclass(slots=True)
class _Job(Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]
    is_alone: bool = False  # carried out outside of any transaction
    is_synced: bool = True  # asks for a commit that outlives a power cut
    result: T | None = None
    error: BaseException | None = None

    def run(self, database: SqliteDatabase) -> None:
        try:
            self.result = self.work(database)
        except Exception as error:  # noqa: BLE001 - it belongs to the awaiter, who sees it raised
            self.error = error

    def run_again(self, database: SqliteDatabase) -> None:
        """Once more where text was found that is none: damaged text is shown as far as it goes."""
        database.connection().text_factory = _as_text
        log.error("The database holds text that is damaged; see `python main.py doctor`.")
        self.error = None
        self.run(database)

    @property
    def found_damaged_text(self) -> bool:
        return self.error is not None and "Could not decode to UTF-8" in str(self.error)

    def settle(self) -> None:
        if self.future.done():
            return  # its awaiter was cancelled meanwhile; what was written stays written
        if self.error is not None:
            self.future.set_exception(_explain(self.error))
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class _Lane(threading.Thread):
    """A thread that owns a connection and carries out jobs in order."""

    def __init__(self, name: str, path: Path, loop: asyncio.AbstractEventLoop, writes: bool):
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._path, self._loop, self._writes = path, loop, writes

    def run(self) -> None:
        database = connect(self._path)
        try:
            is_open = True
            while is_open:
                group, is_open = self._next_group()
                self._carry_out(database, group)
                self._loop.call_soon_threadsafe(_settle, group)
                del group  # while the lane waits it must not hold what the work was about
        finally:
            database.close()

    def _next_group(self) -> tuple[list[_Job[Any]], bool]:
        group: list[_Job[Any]] = []
        job = self.jobs.get()
        while job is not None:
            group.append(job)
            if len(group) == GROUP:
                return group, True
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                return group, True
        return group, False

    def _carry_out(self, database: SqliteDatabase, group: list[_Job[Any]]) -> None:
        for is_alone, jobs in groupby(group, lambda job: job.is_alone or not self._writes):
            if is_alone:
                for job in jobs:
                    job.run(database)
                    if job.found_damaged_text:
                        job.run_again(database)
            else:
                self._carry_out_together(database, list(jobs))

    def _carry_out_together(self, database: SqliteDatabase, group: list[_Job[Any]]) -> None:
        level = "full" if any(job.is_synced for job in group) else "normal"
        try:
            database.execute_sql(f"PRAGMA synchronous = {level}")
            with database.atomic("IMMEDIATE"):
                for job in group:
                    _run_apart(database, job)
        except DatabaseError as error:  # the transaction failed: nothing of the group is on disk
            for job in group:
                job.error = job.error or _first_of(error)


def _first_of(error: BaseException) -> BaseException:
    """What went wrong first: SQLite takes some transactions back by itself, and peewee's own
    rollback fails over that."""
    first, earlier = error, error.__context__
    while earlier is not None:
        first = earlier if isinstance(earlier, DatabaseError) else first
        earlier = earlier.__context__
    return first


def _run_apart(database: SqliteDatabase, job: _Job[Any]) -> None:
    """Run a job so that its failure takes back what it wrote, and nothing else of its group."""
    with database.savepoint() as savepoint:
        job.run(database)
        if job.found_damaged_text:
            savepoint.rollback()
            job.run_again(database)
        if job.error is not None:
            savepoint.rollback()


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _settle(group: list[_Job[Any]]) -> None:
    for job in group:
        job.settle()


def connect(path: Path) -> SqliteDatabase:
    """A connection set up as this project wants it: WAL, durable commits, waits for others.

    `synchronous=FULL`: a message that was acknowledged survives a power cut; with group commit it
    costs one sync for many writes. `Store.write` says what does without.
    """
    database = SqliteDatabase(
        str(path),
        pragmas={
            "journal_mode": "wal",
            "synchronous": "full",
            "busy_timeout": _BUSY_MS,
            "foreign_keys": 1,
            "secure_delete": 1,  # what /forget deletes must not linger in free pages
        },
    )
    database.connect()
    return database


def _explain(error: BaseException) -> BaseException:
    if not isinstance(error, OperationalError | InternalError) and type(error) is not DatabaseError:
        return error
    if _is_damaged(error):
        return StoreError(f"The database is damaged ({error}). {_MEND}")
    return StoreError(f"This could not be saved: {_reason(str(error))}.")


_MEND = (
    "Stop the bot, check with `python main.py doctor`, and restore a backup with `python main.py "
    "restore FILE`; the damaged database is kept beside it."
)


_DAMAGED = (
    *("malformed", "not a database", "Could not decode"),
    *("no such table", "no such column", "has no column", "already exists", "duplicate column"),
)
"""What SQLite says of a file that is none, or whose tables are not those that were made."""


def _is_damaged(error: BaseException) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True
    text = str(error)
    return any(sign in text for sign in _DAMAGED)


def _reason(text: str) -> str:
    """What SQLite's words mean, and what to do."""
    reasons = {
        "full": "the disk is full; free some space (nothing that was confirmed is lost)",
        "locked": "another process holds the database; stop it and try again",
        "readonly": "the database can't be written; check the permissions of the data folder",
        "disk I/O": "the disk reports an error; check it, and keep a copy of the data folder",
        "unable to open": "the file can't be opened; check the permissions of the data folder",
    }
    meaning = next((sentence for sign, sentence in reasons.items() if sign in text), "")
    return f"{meaning} ({text})" if meaning else f"the database says {text!r}"


class Store:
    """One database file, open. Use as `store = await Store.open(path)` … `await store.close()`."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.path = path
        self._writer = _Lane("store-writer", path, loop, writes=True)
        self._reader = _Lane("store-reader", path, loop, writes=False)
        self._loop = loop
        self._is_open = True

    @classmethod
    async def open(cls, path: Path) -> Store:
        """Open, creating and migrating as needed; raises StoreError."""
        await asyncio.to_thread(_prepare, path)
        store = cls(path, asyncio.get_running_loop())
        store._writer.start()
        store._reader.start()
        return store

    async def write(self, work: Work[T], *, is_synced: bool = True) -> T:
        """Carry out `work` in the next transaction; returns after it is on disk.

        What is not synced outlives the process, but a power cut may take it back, until something
        synced is written after it: it is for what can be done again from what else is on disk. A
        sync takes longer than all else that a write does.
        """
        return await self._put(self._writer, work, is_synced=is_synced)

    async def read(self, work: Work[T]) -> T:
        """Carry out `work` on what is committed now."""
        return await self._put(self._reader, work)

    async def scrub(self) -> None:
        """Write the database file anew, so that nothing that was deleted is in it, or in the files
        beside it; other writes wait meanwhile. Raises StoreError where that can't be done."""
        await self._put(self._writer, _scrub, is_alone=True)

    def _put(
        self, lane: _Lane, work: Work[T], is_alone: bool = False, is_synced: bool = True
    ) -> asyncio.Future[T]:
        if not self._is_open:
            raise StoreError("The database is closed; the bot is shutting down.")
        future: asyncio.Future[T] = self._loop.create_future()
        lane.jobs.put(_Job(work, future, is_alone, is_synced))
        return future

    async def close(self) -> None:
        """Finish what is under way and close; later calls raise StoreError."""
        if not self._is_open:
            return
        self._is_open = False
        for lane in (self._writer, self._reader):
            lane.jobs.put(None)
            await asyncio.to_thread(lane.join)


def _scrub(database: SqliteDatabase) -> None:
    # VACUUM too: the pages that rows were moved from keep copies, which secure_delete passes over.
    try:
        index.scrub(database)
        database.execute_sql("VACUUM")
        is_busy = database.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except DatabaseError as error:
        raise StoreError(f"Deleted, but traces are left: {_reason(str(error))}.") from error
    if is_busy:
        raise StoreError(
            "Deleted, but traces are left in the database's files, because another process is "
            "reading them; stop it, and ask again."
        )


def _prepare(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if missing := soundness.check_length(path):
            raise StoreError(f"{missing} {_MEND}")
        database = connect(path)
        try:
            migrate(database)
        finally:
            database.close()
    except (OSError, DatabaseError, *soundness.UNUSABLE) as error:
        raise _explain_opening(path, error) from error


def _explain_opening(path: Path, error: Exception) -> StoreError:
    text = str(error)
    if _is_damaged(error):
        return StoreError(f"{path} is damaged ({text}). {_MEND}")
    if "newer Parley" in text:
        return StoreError(
            f"{path} is not a database that this Parley can use ({text}); move it away, or "
            "restore a backup with `python main.py restore FILE`."
        )
    return StoreError(f"The database {path} can't be used: {_reason(text)}.")


def snapshot(path: Path, target: Path) -> None:
    """Copy a database consistently, also while a bot writes to it. Raises StoreError."""
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
            source.backup(copy)
    except soundness.UNUSABLE as error:
        raise StoreError(f"The database {path} can't be copied ({error}).") from error


def fault(path: Path) -> str:
    """What is wrong with a database, as a sentence; "" for nothing, or where there is none yet."""
    if not path.exists():
        return ""
    try:
        if wrong := soundness.check_length(path) or soundness.check_integrity(path, FOREVER):
            return wrong
        rows = soundness.unreadable_rows(path)
    except (OSError, *soundness.UNUSABLE) as error:
        return f"{path} can't be read ({error})."
    return f"{path} holds {rows}." if rows else ""
