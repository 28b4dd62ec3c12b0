"""The database: one thread that writes, one that reads, each with a connection of its own.

Writes that arrive while a transaction is being committed share the next one (group commit), so a
hundred conversations cost hardly more commits than one. A write's awaiter resumes only after the
commit is on disk. Work is a function of the database; it runs in the lane's thread and must not
touch the event loop.

A small write that need not wait for the disk takes less time than to hand it to a thread and to
be told that it is done. Where the lane has nothing to do it is carried out at once, by the event
loop's own connection (docs/decisions/0024).
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
from typing import Any, Generic, TypeVar

from msgspec import Struct
from peewee import DatabaseError

from memory.record import engines, fence
from memory.record.database import Claim, Database, DatabaseEngine, StoreError

__all__ = ["Store", "StoreError", "Work"]

T = TypeVar("T")
Work = Callable[[Database], T]

GROUP = 500  # jobs that share one transaction at most


class _Job(Struct, Generic[T]):
    work: Work[T]
    future: asyncio.Future[T]
    is_alone: bool = False  # carried out outside of any transaction
    is_synced: bool = True  # asks for a commit that outlives a power cut
    result: T | None = None
    error: BaseException | None = None

    def run(self, database: Database, *, is_lone: bool = False) -> None:
        """Carry it out; `error` says how it failed, and is raised where the job `is_lone`."""
        # A cursor stays in this thread: whoever frees one that has rows left resets its statement,
        # and where another statement of the connection has just failed, its failure may be lost.
        self.error = None
        try:
            result = self.work(database)
            self.result = None if isinstance(result, sqlite3.Cursor) else result
        except Exception as error:  # it belongs to the awaiter, who sees it raised
            traceback.clear_frames(error.__traceback__)
            self.error = error
            if is_lone:
                raise

    def settle(self, engine: DatabaseEngine) -> None:
        if self.future.done():
            return  # its awaiter was cancelled meanwhile; what was written stays written
        if self.error is not None:
            self.future.set_exception(engine.explain(self.error))
        else:
            self.future.set_result(self.result)  # type: ignore[arg-type]


class _Lane(threading.Thread):
    """A thread that owns a connection and carries out jobs in order."""

    def __init__(
        self,
        name: str,
        engine: DatabaseEngine,
        loop: asyncio.AbstractEventLoop,
        settle: Callable[[_Lane, list[_Job[Any]]], None],
        writes: bool,
    ):
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._engine, self._loop, self._settle, self._writes = engine, loop, settle, writes
        self.check: Work[None] | None = None  # whether this process may write
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
                self._carry_out(database, group)
                self._loop.call_soon_threadsafe(self._settle, self, group)
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

    def _carry_out(self, database: Database, group: list[_Job[Any]]) -> None:
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
                self._carry_out_together(database, jobs)
            else:
                self.carry_out_lone(database, jobs[0])
                if jobs[0].error is not None and database.tolerates(jobs[0].error):
                    self.carry_out_lone(database, jobs[0])

    def carry_out_lone(self, database: Database, job: _Job[Any]) -> None:
        """Carry out a job in a transaction of its own, which its failure takes back."""
        check, run = self.check, partial(job.run, database, is_lone=True)

        def run_checked() -> None:
            if check is not None:
                check(database)
            run()

        work = run if check is None else run_checked
        try:
            database.commit_together(work, is_synced=job.is_synced)
        except Exception as error:  # noqa: BLE001 - it belongs to the awaiter, who sees it raised
            job.error = job.error or _first_of(error)

    def _carry_out_together(self, database: Database, group: list[_Job[Any]]) -> None:
        """Carry out jobs that share a transaction. Where one of them fails, which is rare, all are
        carried out anew, each so that its failure takes back nothing else."""
        if not self._attempt(database, group, _run_plainly):
            self._attempt(database, group, _run_apart)

    def _attempt(
        self,
        database: Database,
        group: list[_Job[Any]],
        run: Callable[[Database, _Job[Any]], None],
    ) -> bool:
        """Carry out jobs in one transaction; return False where one of them has failed, and nothing
        of the group is on disk."""

        def work() -> None:
            if self.check is not None:
                self.check(database)
            for job in group:
                run(database, job)

        try:
            database.commit_together(work, is_synced=any(job.is_synced for job in group))
        except _JobFailed:
            return False
        except (DatabaseError, StoreError) as error:  # nothing of the group is on disk
            for job in group:
                job.error = job.error or _first_of(error)
        return True


class _JobFailed(Exception):
    """A job of a group that has failed; which one, and why, it knows itself."""


def _nothing(database: Database) -> None:
    """Do nothing, so that the writer makes its connection, or looks whether it may write."""


def _first_of(error: BaseException) -> BaseException:
    """Return the error that came first: SQLite takes some transactions back by itself, and peewee's
    own rollback fails over that."""
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
    """Run a job so that its failure takes back what it wrote, and nothing else of its group."""
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
    """A database, open. Use as `store = await Store.open(path)` … `await store.close()`."""

    def __init__(self, engine: DatabaseEngine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self._writer = _Lane("store-writer", engine, loop, self._settle, writes=True)
        self._reader = _Lane("store-reader", engine, loop, self._settle, writes=False)
        self._loop = loop
        self._own: Database | None = None  # the event loop's own connection
        self._writing = 0  # jobs of the writer that are not settled
        self._is_open = True

    @classmethod
    async def open(cls, place: Path | DatabaseEngine, claim: Claim = "") -> Store:
        """Open, creating and migrating as needed; a path is an SQLite file. Raises StoreError, also
        where another bot works on the database, against this one's claim."""
        engine = engines.engine_for(place) if isinstance(place, Path) else place
        await asyncio.to_thread(engine.prepare)
        store = cls(engine, asyncio.get_running_loop())
        store._writer.claim = claim
        store._writer.start()
        store._reader.start()
        # The first to connect has the database to itself for a moment, in which the loop's own
        # connection would be refused, and be missing as long as the process lives.
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
        """Carry out `work` in the next transaction; return after it is on disk.

        What is not synced outlives the process, but a power cut may take it back, until something
        synced is written after it: it is for what can be done again from what else is on disk. A
        sync takes longer than all else that a write does. Without one it is carried out at once,
        in the event loop, where no other write is under way; `is_long` is for more than a few rows,
        which would hold everybody up there.
        """
        if not (is_synced or is_long) and self._own is not None and not self._writing:
            return await self._write_at_once(self._own, work)
        return await self._put(self._writer, work, is_synced=is_synced)

    def _write_at_once(self, own: Database, work: Work[T]) -> asyncio.Future[T]:
        """In the event loop; what fails there is left to the writer, which waits for others that
        hold the database, and can say what is wrong."""
        job: _Job[T] = _Job(work, self._loop.create_future(), is_synced=False)
        self._writer.carry_out_lone(own, job)
        if job.error is not None:
            return self._put(self._writer, work, is_synced=False)
        job.settle(self.engine)
        return job.future

    def fence(self, check: Work[None]) -> None:
        """Let every transaction from now on begin with this, which raises a StoreError where this
        process may not write any more: nothing of the transaction is kept then. It is asked before
        files are changed, too, by this task and those it starts."""
        self._writer.check = check
        fence.ask_before_files(self._confirm)

    def _confirm(self) -> None:
        """In a thread: return when this process may still write. Raises StoreError."""
        asking = self.write(_nothing, is_synced=False)
        asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    async def read(self, work: Work[T], *, is_brief: bool = False) -> T:
        """Carry out `work` on what is committed now. What `is_brief`, a few rows that are found by
        their key, is read at once, in the event loop."""
        if is_brief and self._own is not None:
            job: _Job[T] = _Job(work, self._loop.create_future())
            _run_alone(self._own, job)
            if job.error is None:
                job.settle(self.engine)
                return await job.future
        return await self._put(self._reader, work)

    async def scrub(self) -> None:
        """Leave no trace of what was deleted; other writes wait meanwhile. Raises StoreError where
        that can't be done."""
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

    def _settle(self, lane: _Lane, group: list[_Job[Any]]) -> None:
        if lane is self._writer:
            self._writing -= len(group)
        for job in group:
            job.settle(self.engine)

    async def close(self) -> None:
        """Finish what is under way and close; later calls raise StoreError."""
        if not self._is_open:
            return
        self._is_open = False
        if self._own is not None:  # not the last to close, which writes the log into the file
            self._own.close()
            self._own = None
        for lane in (self._writer, self._reader):
            lane.jobs.put(None)
            await asyncio.to_thread(lane.join)
