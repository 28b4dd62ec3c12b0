"""The database: one thread that writes, one that reads, each with a connection of its own.

Writes that arrive while a transaction is being committed share the next one (group commit), so a
hundred conversations need hardly more commits than one. A write's awaiter resumes only after the
commit is on disk. Work is a function of the database; it runs in the lane's thread and must not
touch the event loop.

A small write that need not be synced takes less time than handing it to a thread and back. If the
lane is idle, it is executed at once, on the event loop's own connection (docs/decisions/0024).
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
import traceback
from collections.abc import Callable
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from msgspec import Struct
from peewee import DatabaseError

from memory.record import engines, folders
from memory.record.database import Claim, Database, DatabaseEngine, StoreError

__all__ = ["Store", "StoreError", "Work"]

T = TypeVar("T")
Work = Callable[[Database], T]

GROUP = 500  # the maximum of jobs that share one transaction


class _Job(Struct, Generic[T]):
    work: Work[T]
    future: asyncio.Future[T] | None = None
    is_alone: bool = False  # executed outside of any transaction
    is_synced: bool = True  # the commit survives a power cut
    result: T | None = None
    error: BaseException | None = None

    def run(self, database: Database, *, is_lone: bool = False) -> None:
        """Execute the work. A failure is stored in `error`, and raised if the job `is_lone`."""
        # Keep a cursor in this thread: freeing one with rows left resets its statement, and if
        # another statement of the connection has just failed, that failure may be lost.
        self.error = None
        try:
            result = self.work(database)
            self.result = None if isinstance(result, sqlite3.Cursor) else result
        except StopIteration as error:  # no future accepts it
            self.error = RuntimeError("work of the store raised StopIteration")
            if is_lone:
                raise self.error from error
        except Exception as error:  # stored for the awaiter, which raises it
            traceback.clear_frames(error.__traceback__)
            self.error = error
            if is_lone:
                raise


class _Lane(threading.Thread):
    """A thread that owns a connection and executes jobs in order."""

    def __init__(
        self,
        name: str,
        engine: DatabaseEngine,
        loop: asyncio.AbstractEventLoop,
        finish: Callable[[_Lane, list[_Job[Any]]], None],
        writes: bool,
    ):
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._engine, self._loop, self._finish, self._writes = engine, loop, finish, writes
        self.check: Work[None] | None = None  # raises if this process may not write
        self.claim: Claim = ""
        self.connected = asyncio.Event()

    def run(self) -> None:
        try:
            database = self._engine.connect(self.claim)
        finally:
            self._loop.call_soon_threadsafe(self.connected.set)
        try:
            is_open = True
            while is_open:
                group, is_open = self._next_group()
                self._execute(database, group)
                self._loop.call_soon_threadsafe(self._finish, self, group)
                del group  # the lane must not hold the work's data while it waits
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

    def _execute(self, database: Database, group: list[_Job[Any]]) -> None:
        if not self._writes:
            for job in group:
                _run_alone(database, job)
            return
        for is_alone, some in groupby(group, attrgetter("is_alone")):
            jobs = list(some)
            if is_alone:
                for job in jobs:
                    _run_alone(database, job)
            elif len(jobs) > 1:
                self._execute_group(database, jobs)
            else:
                self.execute_single(database, jobs[0])
                if jobs[0].error is not None and database.tolerates(jobs[0].error):
                    self.execute_single(database, jobs[0])

    def execute_single(self, database: Database, job: _Job[Any]) -> None:
        """Execute a job in a transaction of its own, which is rolled back if it fails."""
        check, run = self.check, partial(job.run, database, is_lone=True)

        def run_checked() -> None:
            if check is not None:
                check(database)
            run()

        work = run if check is None else run_checked
        try:
            database.commit_together(work, is_synced=job.is_synced)
        except Exception as error:  # noqa: BLE001 - stored for the awaiter, which raises it
            job.error = job.error or _first_of(error)

    def _execute_group(self, database: Database, group: list[_Job[Any]]) -> None:
        """Execute jobs that share a transaction. If one of them fails, which is rare, all are
        executed again, each in a savepoint of its own."""
        if not self._attempt(database, group, _run_plainly):
            self._attempt(database, group, _run_apart)

    def _attempt(
        self,
        database: Database,
        group: list[_Job[Any]],
        run: Callable[[Database, _Job[Any]], None],
    ) -> bool:
        """Execute jobs in one transaction; return False if one of them failed and the transaction
        was rolled back."""

        def work() -> None:
            if self.check is not None:
                self.check(database)
            for job in group:
                run(database, job)

        try:
            database.commit_together(work, is_synced=any(job.is_synced for job in group))
        except _JobFailed:
            return False
        except (DatabaseError, StoreError) as error:  # the whole group was rolled back
            for job in group:
                job.error = job.error or _first_of(error)
        return True


class _JobFailed(Exception):
    """A job of a group has failed; the job itself has the error."""


def _nothing(database: Database) -> None:
    """Do nothing, so that the writer connects, or checks whether it may write."""


def _first_of(error: BaseException) -> BaseException:
    """Return the original error: SQLite rolls some transactions back by itself, and then peewee's
    rollback fails too."""
    first, earlier = error, error.__context__
    while earlier is not None:
        first = earlier if isinstance(earlier, DatabaseError) else first
        earlier = earlier.__context__
    return first


def _run_alone(database: Database, job: _Job[Any]) -> None:
    try:
        database.read(lambda: job.run(database))
    except DatabaseError as error:
        job.error = error
    if job.error is not None and database.tolerates(job.error):
        job.run(database)


def _run_plainly(database: Database, job: _Job[Any]) -> None:
    job.run(database)
    if job.error is not None:
        raise job.error if database.must_repeat(job.error) else _JobFailed


def _run_apart(database: Database, job: _Job[Any]) -> None:
    """Run a job in a savepoint, so that its failure rolls back only its own writes."""
    database.execute_sql("SAVEPOINT job")
    job.run(database)
    if job.error is not None and database.must_repeat(job.error):
        raise job.error
    if job.error is not None and database.tolerates(job.error):
        database.execute_sql("ROLLBACK TO SAVEPOINT job")
        job.run(database)
    if job.error is not None:
        database.execute_sql("ROLLBACK TO SAVEPOINT job")
    database.execute_sql("RELEASE SAVEPOINT job")


class Store:
    """An open database. Use as `store = await Store.open(path)` … `await store.close()`."""

    def __init__(self, engine: DatabaseEngine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self._writer = _Lane("store-writer", engine, loop, self._finish, writes=True)
        self._reader = _Lane("store-reader", engine, loop, self._finish, writes=False)
        self._loop = loop
        self._own: Database | None = None  # the event loop's own connection
        self._writing = 0  # unsettled jobs of the writer
        self._is_open = True

    @classmethod
    async def open(cls, place: Path | DatabaseEngine, claim: Claim = "") -> Store:
        """Open the database, creating and migrating it as needed; a path is an SQLite file. Raises
        StoreError, also if another bot uses the database against this one's claim."""
        engine = engines.engine_for(place) if isinstance(place, Path) else place
        await asyncio.to_thread(engine.prepare)
        store = cls(engine, asyncio.get_running_loop())
        store._writer.claim = claim
        store._writer.start()
        store._reader.start()
        # The first connection holds the database exclusively for a moment. The loop's own
        # connection would be refused meanwhile, and would then be missing for the life of the
        # process.
        await store._writer.connected.wait()
        await store._reader.connected.wait()
        if claim:
            try:
                await store.write(_nothing, is_synced=False)
            except StoreError:
                await store.close()
                raise
        store._own = engine.connect_to_loop()
        return store

    async def write(self, work: Work[T], *, is_synced: bool = True, is_long: bool = False) -> T:
        """Execute `work` in the next transaction; return after it is on disk.

        An unsynced write survives the end of the process, but a power cut may undo it until the
        next synced write. It is for data that can be restored from other data on disk. A sync takes
        longer than all the rest of a write. An unsynced write is executed at once, in the event
        loop, if no other write is running; `is_long` is for more than a few rows, which would block
        the loop.
        """
        if not (is_synced or is_long) and self._own is not None and not self._writing:
            job: _Job[T] = _Job(work, is_synced=False)
            self._writer.execute_single(self._own, job)
            if job.error is None:
                return cast("T", job.result)
            # The writer repeats it: it waits for other holders of the database, and can report the
            # cause.
        return await self._put(self._writer, work, is_synced=is_synced)

    def fence(self, check: Work[None]) -> None:
        """Run `check` at the start of every transaction from now on. It raises StoreError if this
        process may no longer write; then the transaction is rolled back. It also runs before files
        are changed, in this task and those it starts."""
        self._writer.check = check
        folders.set_file_check(self._confirm)

    def _confirm(self) -> None:
        """Return once this process may still write. Called in a thread. Raises StoreError."""
        asking = self.write(_nothing, is_synced=False)
        asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    async def read(self, work: Work[T], *, is_brief: bool = False) -> T:
        """Execute `work` on the committed data. With `is_brief`, for a few rows found by their key,
        it reads at once, in the event loop."""
        if is_brief and self._own is not None:
            job: _Job[T] = _Job(work)
            _run_alone(self._own, job)
            if job.error is None:
                return cast("T", job.result)
        return await self._put(self._reader, work)

    async def scrub(self) -> None:
        """Remove all traces of deleted data; other writes wait meanwhile. Raises StoreError if that
        is impossible."""
        await self._put(self._writer, lambda database: database.scrub(), is_alone=True)

    def _put(
        self, lane: _Lane, work: Work[T], is_alone: bool = False, is_synced: bool = True
    ) -> asyncio.Future[T]:
        if not self._is_open:
            raise StoreError("The database is closed; the bot is shutting down.")
        future: asyncio.Future[T] = self._loop.create_future()
        if lane is self._writer:
            self._writing += 1
        lane.jobs.put(_Job(work, future, is_alone, is_synced))
        return future

    def _finish(self, lane: _Lane, group: list[_Job[Any]]) -> None:
        if lane is self._writer:
            self._writing -= len(group)
        for job in group:
            if job.future is None or job.future.done():
                continue  # its awaiter was cancelled; the write stays
            if job.error is not None:
                job.future.set_exception(self.engine.explain(job.error))
            else:
                job.future.set_result(job.result)

    async def close(self) -> None:
        """Finish running work and close; later calls raise StoreError."""
        if not self._is_open:
            return
        self._is_open = False
        if self._own is not None:
            self._own.close()
            self._own = None
        for lane in (self._writer, self._reader):
            lane.jobs.put(None)
            await asyncio.to_thread(lane.join)
