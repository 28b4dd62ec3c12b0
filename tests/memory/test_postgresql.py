"""PostgreSQL as the database system: the same tables and the same search, connections that break,
and commits whose response is lost."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from memory.record import bot_state
from memory.record.database import Claim, Database, StoreError
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.engines.sqlite import in_memory
from memory.record.engines.stems import stems
from memory.record.store import Store
from tests.servers.postgresql import PostgresqlServer, running_server
from tests.servers.proxy import Cut, Proxy


def columns(database: Database) -> dict[str, list[str]]:
    """Return the columns of the tables that are equal in both systems, in order."""
    own = ("sqlite_", "passage_words", "writer", "schema_version")
    names = [name for name in database.get_tables() if not name.startswith(own)]
    found = {}
    for name in names:
        cursor = database.execute_sql(f'SELECT * FROM "{name}" LIMIT 0')
        found[name] = [column[0] for column in cursor.description]
    return found


async def test_the_tables_are_those_of_sqlite(postgresql: str) -> None:
    store = await Store.open(PostgresqlEngine(postgresql))
    there = await store.read(columns)
    await store.close()
    memory = in_memory()
    assert there == columns(memory)
    memory.close()
    assert len(there) > 25


def test_processes_that_start_at_once_make_the_tables_once(
    postgresql_server: PostgresqlServer,
) -> None:
    engine = PostgresqlEngine(postgresql_server.make_database("template1"))
    with ThreadPoolExecutor(4) as threads:
        for started in [threads.submit(engine.prepare) for _ in range(4)]:
            started.result()


async def test_what_postgresql_can_not_hold_is_shown_as_such(postgresql: str) -> None:
    store = await Store.open(PostgresqlEngine(postgresql))
    await store.write(lambda db: bot_state.save_override(db, "a\0b", "key", "x\0y"))
    assert await store.read(bot_state.load_overrides) == {"a\ufffdb": {"key": "x\0y"}}, (
        "JSON can hold it"
    )
    await store.close()


async def test_a_server_that_is_not_there_ends_in_a_sentence(
    postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory.record.engines.postgresql.PATIENCE", 0.1)
    there = f"host={postgresql_server.folder}"
    for url, sentence in (
        (f"postgresql://parley@/nowhere?{there}", "does not exist"),
        ("postgresql://parley@127.0.0.1:9/parley", "can't be reached; start it, or correct"),
        (f"postgresql://nobody@/postgres?{there}", 'role "nobody" does not exist'),
    ):
        with pytest.raises(StoreError, match=sentence):
            await Store.open(PostgresqlEngine(url))


async def test_a_database_of_a_newer_version_is_not_touched(postgresql: str) -> None:
    store = await Store.open(PostgresqlEngine(postgresql))
    await store.write(lambda db: db.execute_sql("UPDATE schema_version SET version = 9999"))
    await store.close()
    with pytest.raises(StoreError, match="written by a newer Parley"):
        await Store.open(PostgresqlEngine(postgresql))


def test_words_are_stemmed_as_sqlite_stems_them() -> None:
    assert [*map(stems, ("running", "Éclair", "naïve", "天气", "c"))] == [
        *(("run",), ("eclair",), ("naiv",), ("天气",), ("c",))
    ]


# --- connections that break ------------------------------------------------------------------


def note(number: int) -> Callable[[Database], None]:
    """Write a row; twice, if it is executed twice."""

    def add(db: Database) -> None:
        statement = "INSERT INTO aside (kind, chat, content, why, at) VALUES (?, ?, ?, ?, ?)"
        db.execute_sql(statement, ("inbox", "", str(number), "", 0.0))

    return add


def notes(db: Database) -> list[int]:
    rows = db.execute_sql("SELECT content FROM aside ORDER BY id")
    return [int(content) for (content,) in rows]


def through(proxy: Proxy, url: str) -> PostgresqlEngine:
    name = url.partition("?")[0].rpartition("/")[2]
    address = f"postgresql://parley@127.0.0.1:{proxy.port}/{name}?sslmode=disable"
    return PostgresqlEngine(address)


async def test_a_commit_whose_answer_is_lost_is_kept_exactly_once(
    postgresql: str, postgresql_server: PostgresqlServer
) -> None:
    armed = list[Cut]()
    with Proxy(f"{postgresql_server.folder}/.s.PGSQL.5432") as proxy:
        store = await Store.open(through(proxy, postgresql))
        await store.write(note(0))
        proxy.decide = lambda data: armed.pop() if armed and b"COMMIT" in data else Cut.NOT
        for number, cut in enumerate((Cut.AFTER, Cut.BEFORE, Cut.LATE), start=1):
            armed.append(cut)
            await store.write(note(number))
            assert not armed
            assert await store.read(notes) == [*range(number + 1)], cut
        await store.close()


async def test_however_often_the_wire_is_cut_each_write_is_there_once_and_in_order(
    postgresql: str, postgresql_server: PostgresqlServer
) -> None:
    chance = random.Random(14)

    def decide(data: bytes) -> Cut:
        is_hit = chance.random() < (0.25 if b"COMMIT" in data else 0.03)
        return chance.choice([Cut.AFTER, Cut.BEFORE, Cut.LATE]) if is_hit else Cut.NOT

    with Proxy(f"{postgresql_server.folder}/.s.PGSQL.5432") as proxy:
        store = await Store.open(through(proxy, postgresql))
        await store.write(note(0))
        proxy.decide = decide
        for first in range(1, 80, 4):
            await asyncio.gather(*(store.write(note(first + n)) for n in range(4)))
        proxy.decide = lambda data: Cut.NOT
        assert await store.read(notes) == [*range(81)]
        assert proxy.cuts > 3
        await store.close()


async def test_a_connection_that_the_server_ends_is_made_anew(postgresql: str) -> None:
    store = await Store.open(PostgresqlEngine(postgresql))
    end = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid != pg_backend_pid()"""
    seen = 0

    def end_own(db: Database) -> None:
        nonlocal seen
        seen += 1
        note(seen)(db)
        if seen == 1:
            db.execute_sql("SELECT pg_terminate_backend(pg_backend_pid())")

    await store.write(note(0))
    assert await store.read(notes) == [0]
    await store.write(lambda db: db.execute_sql(end))
    assert await store.read(notes) == [0], "the reader's was ended"
    await store.write(end_own)
    assert await store.read(notes) == [0, 2], "what it wrote at first was taken back"
    await store.close()


@pytest.mark.usefixtures("processes")
async def test_a_server_that_starts_again_is_waited_for_and_one_that_stays_away_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with running_server(["shared_buffers=16MB"]) as server:
        server.execute("CREATE DATABASE parley")
        store = await Store.open(PostgresqlEngine(server.url("parley")))
        await store.write(note(0), is_synced=False)  # the bot lives on, and knows that it is there
        server.stop(signal.SIGQUIT)
        waiting = [
            asyncio.create_task(store.write(note(1))),
            asyncio.create_task(store.read(notes)),
        ]
        await asyncio.to_thread(server.start)
        await asyncio.gather(*waiting)
        assert await store.read(notes) == [0, 1]

        monkeypatch.setattr("memory.record.engines.postgresql.PATIENCE", 0.1)
        server.stop(signal.SIGQUIT)
        for failing in (store.write(note(2)), store.read(notes)):
            with pytest.raises(StoreError, match="can't be reached; start it"):
                await failing
        monkeypatch.undo()
        await asyncio.to_thread(server.start)
        await store.write(note(3))
        assert await store.read(notes) == [0, 1, 3]
        await store.close()


async def test_who_may_not_write_leaves_no_transaction_open(postgresql: str) -> None:
    def refuse(db: Database) -> None:
        raise StoreError("not any more")

    engine = PostgresqlEngine(postgresql)
    store, other = await Store.open(engine), await Store.open(engine)
    store.fence(refuse)
    with pytest.raises(StoreError, match="not any more"):
        await store.write(note(1))
    query = """SELECT state FROM pg_stat_activity
        WHERE datname = current_database() AND state LIKE 'idle in transaction%'"""
    assert await other.read(lambda db: db.execute_sql(query).fetchall()) == []
    for one in (store, other):
        await one.close()


async def test_a_second_bot_on_a_database_is_refused_unless_both_share_it(postgresql: str) -> None:
    engine = PostgresqlEngine(postgresql)
    bot = await Store.open(engine, "alone")
    await (await Store.open(engine)).close()  # a command may
    claims: tuple[Claim, ...] = ("alone", "shared")
    for claim in claims:
        with pytest.raises(StoreError, match="Another Parley works on this database"):
            await Store.open(engine, claim)
    await bot.close()
    workers = [await Store.open(engine, "shared") for _ in range(2)]
    with pytest.raises(StoreError, match="Another Parley works on this database"):
        await Store.open(engine, "alone")
    for worker in workers:
        await worker.close()


async def test_a_bot_that_starts_while_another_one_ends_waits_for_that(postgresql: str) -> None:
    engine = PostgresqlEngine(postgresql)
    ending = await Store.open(engine, "alone")
    starting = asyncio.create_task(Store.open(engine, "alone"))
    await ending.close()
    await (await starting).close()


async def test_two_writers_in_each_others_way_both_write(postgresql: str) -> None:
    """Each holds a lock that the other needs: the server aborts one, which is executed again."""
    engine = PostgresqlEngine(postgresql)
    first, second = await Store.open(engine), await Store.open(engine)
    for key in ("a", "b"):
        await first.write(lambda db, key=key: bot_state.save_override(db, "", key, 0))  # type: ignore[misc]
    both = threading.Barrier(2, timeout=20)

    def save(one: str, two: str, value: int) -> Callable[[Database], None]:
        def work(db: Database) -> None:
            bot_state.save_override(db, "", one, value)
            with suppress(threading.BrokenBarrierError):
                both.wait()
            both.abort()  # only the first time
            bot_state.save_override(db, "", two, value)

        return work

    await asyncio.gather(first.write(save("a", "b", 1)), second.write(save("b", "a", 2)))
    kept = (await first.read(bot_state.load_overrides))[""]
    assert kept["a"] == kept["b"]
    for store in (first, second):
        await store.close()
