"""The store: group commit, isolated failures, and clear sentences."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from memory.record import bot_state
from memory.record.database import Claim, Database
from memory.record.engines.sqlite import SqliteEngine, connect
from memory.record.migrations import MIGRATIONS, migrate
from memory.record.store import Store, StoreError
from tests.waiting import PATIENCE

pytestmark = pytest.mark.databases


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "parley.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    store = await Store.open(path)
    yield store
    await store.close()


@pytest.mark.sqlite
async def test_what_was_written_is_read_and_is_on_disk(store: Store, path: Path) -> None:
    await store.write(lambda db: bot_state.save_override(db, "", "a", [1, "x"]))
    assert await store.read(bot_state.load_overrides) == {"": {"a": [1, "x"]}}
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT value FROM override").fetchall() == [('[1,"x"]',)]
    other.close()


@pytest.mark.sqlite
@pytest.mark.usefixtures("durable")
async def test_only_a_write_that_is_synced_waits_for_the_disk(store: Store) -> None:
    def level(db: Database) -> object:
        return db.execute_sql("PRAGMA synchronous").fetchone()[0]

    full, normal = 2, 1
    assert await store.write(level) == full
    assert await store.write(level, is_synced=False) == normal
    assert await store.write(level) == full


def thread(db: Database) -> str:
    return threading.current_thread().name


def save(value: int) -> Callable[[Database], str]:
    """Write it, and record the thread."""

    def work(db: Database) -> str:
        bot_state.save_override(db, "", "a", value)
        return thread(db)

    return work


@pytest.mark.sqlite
async def test_a_small_write_without_a_sync_needs_no_thread(store: Store) -> None:
    loop = threading.current_thread().name
    assert await store.write(save(1), is_synced=False) == loop
    assert await store.write(save(2), is_synced=False, is_long=True) == "store-writer"
    assert await store.write(save(3)) == "store-writer"
    assert await store.write(save(4), is_synced=False) == loop
    assert await store.read(bot_state.load_overrides) == {"": {"a": 4}}


async def test_a_small_write_comes_after_those_that_are_under_way(store: Store) -> None:
    is_released = threading.Event()
    before = asyncio.gather(store.write(lambda db: is_released.wait(60)), store.write(save(1)))
    await asyncio.sleep(0)  # both are queued
    after = asyncio.create_task(store.write(save(2), is_synced=False))
    await asyncio.sleep(0)
    assert not after.done()
    is_released.set()
    await asyncio.gather(before, after)
    assert await store.read(bot_state.load_overrides) == {"": {"a": 2}}


@pytest.mark.sqlite
async def test_a_small_write_does_not_wait_for_other_processes(store: Store, path: Path) -> None:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.write(save(1), is_synced=False))
    await asyncio.sleep(0)  # returns while the other still holds the database
    assert not writing.done()
    holder.execute("ROLLBACK")
    holder.close()
    assert await writing == "store-writer"


def contents(path: Path) -> tuple[bytes, bytes]:
    """Return the contents of the file and its log."""
    return path.read_bytes(), path.with_name(f"{path.name}-wal").read_bytes()


@pytest.mark.sqlite
async def test_small_writes_leave_the_log_to_the_writer(store: Store, path: Path) -> None:
    """A checkpoint of the log waits for the disk."""
    await store.write(save(0))
    before, _ = contents(path)
    for number in range(1_100):  # of a page or more each; SQLite writes them back at 1,000
        await store.write(save(number), is_synced=False)
    file, log = contents(path)
    assert file == before
    assert len(log) > 1_100 * 4_096
    await store.write(save(-1))
    assert contents(path)[0] != before


@pytest.mark.sqlite
async def test_the_loop_connects_after_the_threads_have(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first connection has the file for itself for a moment; one that is refused then stays
    closed."""
    order: list[str] = []
    connect_thread, connect_to_loop = SqliteEngine.connect, SqliteEngine.connect_to_loop

    def note_connect(engine: SqliteEngine, claim: Claim = "") -> Database:
        database = connect_thread(engine, claim)
        order.append("thread")
        return database

    def note_loop(engine: SqliteEngine) -> Database | None:
        order.append("loop")
        return connect_to_loop(engine)

    monkeypatch.setattr(SqliteEngine, "connect", note_connect)
    monkeypatch.setattr(SqliteEngine, "connect_to_loop", note_loop)
    store = await Store.open(path)
    await store.close()
    assert order[-3:] == ["thread", "thread", "loop"]


async def test_whoever_may_not_write_any_more_keeps_nothing(store: Store) -> None:
    def refuse(db: Database) -> None:
        raise StoreError("Another process works on it now.")

    store.fence(refuse)
    for is_synced in (True, False):
        with pytest.raises(StoreError, match="works on it now"):
            await store.write(save(1), is_synced=is_synced)
    assert await store.read(bot_state.load_overrides) == {}


@pytest.mark.sqlite
async def test_writes_of_a_group_stand_apart_where_one_of_them_fails(store: Store) -> None:
    said: list[str] = []

    def save(db: Database, number: int, failing: int) -> None:
        bot_state.save_override(db, "", f"k{failing}.{number}", number)
        if number == failing:
            raise ValueError("in the middle")

    for failing in (-1, 0, 7):
        said.clear()
        is_released = threading.Event()

        def hold(db: Database, is_released: threading.Event = is_released) -> None:
            db.connection().set_trace_callback(said.append)
            is_released.wait(60)

        first = store.write(hold)
        writes = [store.write(partial(save, number=n, failing=failing)) for n in range(10)]
        waiting = asyncio.gather(first, *writes, return_exceptions=True)
        await asyncio.sleep(0)  # now all are queued
        is_released.set()
        _, *results = await waiting
        assert [n for n, one in enumerate(results) if one is not None] == [failing][failing < 0 :]
        kept = (await store.read(bot_state.load_overrides))[""]
        expected = {f"k{failing}.{n}" for n in range(10) if n != failing}
        assert {key for key in kept if key.startswith(f"k{failing}.")} == expected
        assert any("SAVEPOINT" in one for one in said) is (failing >= 0)


async def test_the_end_of_an_iterator_reaches_whoever_waits(store: Store) -> None:
    def end(db: Database) -> str:
        return next(iter(()))

    async with asyncio.timeout(PATIENCE):
        for use in (store.write, store.read, partial(store.write, is_synced=False)):
            with pytest.raises(RuntimeError, match="StopIteration"):
                await use(end)
            found = await asyncio.gather(use(end), use(thread), return_exceptions=True)
            assert isinstance(found[0], RuntimeError)
            assert isinstance(found[1], str)


async def test_a_writer_that_stopped_waiting_does_not_harm_the_others(store: Store) -> None:
    task = asyncio.create_task(store.write(lambda db: bot_state.save_override(db, "", "a", 1)))
    await asyncio.sleep(0)
    task.cancel()
    await store.write(lambda db: bot_state.save_override(db, "", "b", 1))
    assert "b" in (await store.read(bot_state.load_overrides))[""]


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = await Store.open(tmp_path / "parley.db")
    await store.close()
    await store.close()
    for is_synced in (True, False):
        with pytest.raises(StoreError, match="shutting down"):
            await store.write(lambda db: None, is_synced=is_synced)


@pytest.mark.sqlite
async def test_a_database_held_elsewhere_ends_in_a_sentence(store: Store, path: Path) -> None:
    await store.write(lambda db: db.execute_sql("PRAGMA busy_timeout=20"))
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match="another process holds the database"):
        await store.write(lambda db: bot_state.save_override(db, "", "a", 1))
    holder.execute("ROLLBACK")
    holder.close()
    await store.write(lambda db: bot_state.save_override(db, "", "a", 1))
    assert await store.read(bot_state.load_overrides) == {"": {"a": 1}}


@pytest.mark.sqlite
async def test_no_cursor_leaves_its_thread(store: Store) -> None:
    """Leave no cursor: freeing one in another thread can take the error from a statement that fails
    meanwhile."""
    asked = "SELECT 1 UNION SELECT 2"
    for lane in (store.write, store.read):
        assert await lane(lambda db: db.execute_sql(asked)) is None


async def test_what_fails_is_not_kept_and_holds_nothing_of_its_thread(store: Store) -> None:
    held: list[weakref.ref[Held]] = []

    class Held:
        """An object like a cursor, which has no weak references."""

    def half(db: Database, is_writing: bool = True) -> None:
        if is_writing:
            bot_state.save_override(db, "", "half", 1)
        cursor = Held()
        held.append(weakref.ref(cursor))
        raise ValueError("in the middle")

    for lane, work in (
        (store.write, half),
        (partial(store.write, is_synced=False), half),
        (store.read, partial(half, is_writing=False)),
    ):
        with pytest.raises(ValueError, match="in the middle") as caught:
            await lane(work)
        assert caught.value.__traceback__ is not None
        assert held.pop()() is None
    assert await store.read(bot_state.load_overrides) == {}


@pytest.mark.sqlite
async def test_a_file_that_is_no_database_ends_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    path.write_bytes(b"this is no database, but it is long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match="is not a Parley database"):
        await Store.open(path)


def test_a_new_file_is_made_at_once_as_all_migrations_make_it(tmp_path: Path) -> None:
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name"
    SqliteEngine(tmp_path / "new.db").prepare()
    with (
        closing(connect(tmp_path / "new.db")) as new,
        closing(connect(tmp_path / "old.db")) as old,
    ):
        migrate(old)
        assert new.execute_sql(query).fetchall() == old.execute_sql(query).fetchall()
        assert new.schema_version() == old.schema_version() == len(MIGRATIONS)
        new.create()  # like a second process that saw no tables a moment ago
        assert new.execute_sql(query).fetchall() == old.execute_sql(query).fetchall()


@pytest.mark.sqlite
async def test_a_database_of_a_newer_version_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    with sqlite3.connect(path) as newer:
        newer.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    newer.close()
    with pytest.raises(StoreError, match="written by a newer Parley"):
        await Store.open(path)


def list_files(database: Path) -> list[Path]:
    return [*database.parent.glob(f"{database.name}*")]


@pytest.mark.sqlite
async def test_a_scrub_leaves_no_byte_of_what_was_deleted(store: Store, path: Path) -> None:
    def come_and_go(db: Database) -> None:
        """Write rows that move others from page to page, so that copies of these remain."""
        chance = random.Random(0)
        db.execute_sql("CREATE TABLE said (id INTEGER PRIMARY KEY, text TEXT UNIQUE)")
        first = "SELECT id FROM said WHERE text LIKE '%harmless' ORDER BY id LIMIT 3"
        for number in range(800):
            word = "secret" if chance.random() < 0.3 else "harmless"
            text = f"{chance.randrange(10**9)} " * chance.randrange(1, 100) + word
            row = (chance.randrange(10**9), text)
            db.execute_sql("INSERT INTO said VALUES (?, ?)", row)
            if number % 7 == 0:
                db.execute_sql(f"DELETE FROM said WHERE id IN ({first})")
        db.execute_sql("DELETE FROM said WHERE text LIKE '%secret'")

    await store.write(come_and_go)
    await store.scrub()
    files = {file.name: file.read_bytes() for file in list_files(path)}
    assert [name for name, content in files.items() if b"secret" in content] == []
    assert b"harmless" in files[path.name]


async def test_writes_around_a_scrub_are_carried_out_in_order(store: Store) -> None:
    await asyncio.gather(
        store.write(save(1)),
        store.scrub(),
        store.write(save(2)),
        store.scrub(),
        store.write(save(3)),
    )
    assert await store.read(bot_state.load_overrides) == {"": {"a": 3}}


@pytest.mark.sqlite
async def test_a_scrub_says_so_where_others_hold_the_old_bytes(store: Store, path: Path) -> None:
    await store.write(lambda db: db.execute_sql("PRAGMA busy_timeout=20"))
    await store.write(lambda db: bot_state.save_override(db, "", "a", 1))
    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM override").fetchall()
    with pytest.raises(StoreError, match="another process"):
        await store.scrub()
    reader.execute("ROLLBACK")
    reader.close()
    await store.scrub()
