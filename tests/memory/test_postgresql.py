"""PostgreSQL as the database system: the same tables and the same search, connections that break,
and commits whose answer is lost."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory.record import overrides
from memory.record.database import Database, StoreError
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.engines.sqlite import in_memory
from memory.record.engines.stems import stems
from memory.record.store import Store
from tests.servers.postgresql import PostgresqlServer

ROOT = Path(__file__).resolve().parents[2]


def columns(database: Database) -> dict[str, list[str]]:
    """The columns of all tables that are the same everywhere, in their order."""
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
    await store.write(lambda db: overrides.save(db, "a\0b", "key", "x\0y"))
    assert await store.read(overrides.load) == {"a\ufffdb": {"key": "x\0y"}}, "JSON can hold it"
    await store.close()


async def test_only_a_write_that_must_outlive_a_power_cut_waits_for_the_disk(
    postgresql: str,
) -> None:
    def level(db: Database) -> object:
        return db.execute_sql("SHOW synchronous_commit").fetchone()[0]

    store = await Store.open(PostgresqlEngine(postgresql))
    assert [await store.write(level, is_synced=synced) for synced in (True, False, True)] == [
        *("on", "off", "on")
    ]
    await store.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://parley@/nowhere?host={folder}", "does not exist"),
        ("postgresql://parley@127.0.0.1:9/parley", "can't be reached; start it, or correct"),
        ("postgresql://nobody@/postgres?host={folder}", 'role "nobody" does not exist'),
    ],
)
async def test_a_server_that_is_not_there_ends_in_a_sentence(
    url: str,
    sentence: str,
    postgresql_server: PostgresqlServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("memory.record.engines.postgresql.PATIENCE", 0.3)
    with pytest.raises(StoreError, match=sentence):
        await Store.open(PostgresqlEngine(url.format(folder=postgresql_server.folder)))


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


def test_who_has_no_postgresql_imports_none_of_it() -> None:
    program = "import sys, main; print(sorted({m.split('.')[0] for m in sys.modules}))"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert "'peewee'" in run.stdout
    assert "psycopg" not in run.stdout
