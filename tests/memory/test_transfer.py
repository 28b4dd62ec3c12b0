"""The record copied from SQLite to PostgreSQL and back: complete, once, without repeated
numbers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from memory.record import feature_tables, mailbox, tables
from memory.record.database import DatabaseEngine, StoreError
from memory.record.engines.postgresql import PostgresqlEngine
from memory.record.engines.sqlite import SqliteEngine
from memory.record.mailbox import AddressColumns, InboxRow
from memory.record.store import Store
from memory.record.transfer import TableDigest, copy_in, copy_out, digest, shapes
from memory.tasks import TaskProgress
from tests.memory.harness import MemoryHarness

PLACE = AddressColumns("pipe", "main", "", "")

pytestmark = pytest.mark.sqlite  # it uses both, whichever one the others run on


@pytest.fixture
async def file(tmp_path: Path) -> Path:
    """Make a database with messages, summaries, a cut, a branch, and answers."""
    harness = MemoryHarness(tmp_path)
    harness.limit(max_turns=4)
    await harness.open()
    for number in range(9):
        await harness.says(f"Number {number}? \0 ☺ 天气", ["a result"], reply="It's € 4 – “fine”.")
    await harness.conversations.fork((await harness.conversation()).key)
    await harness.settle()
    for number in range(3):
        row = InboxRow(0, PLACE, str(number), "Hi", "Ann", 1.25)
        await harness.store.write(lambda db, row=row: mailbox.receive(db, row, "digest"))  # type: ignore[misc]
    await harness.store.write(lambda db: db.execute_sql("DELETE FROM inbox WHERE id = 3"))
    await harness.close()
    return tmp_path / "parley.db"


def digests(engine: DatabaseEngine) -> dict[str, TableDigest]:
    with engine.visit() as database:
        return {shape.name: digest(database, shape) for shape in shapes()}


class StopAfter(TaskProgress):
    """Fails after this table."""

    def __init__(self, table: str) -> None:
        self._table = table

    def write_line(self, text: str) -> None:
        if text.startswith(f"{self._table}: "):
            raise KeyboardInterrupt


class KeptLines(TaskProgress):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, text: str) -> None:
        self.lines.append(text)


def test_an_interrupted_one_goes_on_with_what_is_there_now(file: Path, postgresql: str) -> None:
    engine = PostgresqlEngine(postgresql)
    for table in ("conversation", "message", "branch"):
        with pytest.raises(KeyboardInterrupt):
            copy_in(file, engine, StopAfter(table))
        with pytest.raises(StoreError, match="was moved to this database only in part"):
            engine.prepare()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE message SET text = 'other' WHERE seq = 2")
        database.execute("DELETE FROM message WHERE seq = 5")
    copy_in(file, engine)
    engine.prepare()
    assert digests(engine) == digests(SqliteEngine(file))


async def test_all_of_it_is_there_and_comes_back_and_no_number_comes_to_mean_another_row(
    file: Path, postgresql: str, tmp_path: Path
) -> None:
    engine, back = PostgresqlEngine(postgresql), tmp_path / "back.db"
    count = copy_in(file, engine)
    wanted = digests(SqliteEngine(file))
    assert wanted["message"].rows == 36
    assert count == sum(table.rows for table in wanted.values())
    assert digests(engine) == wanted
    with pytest.raises(StoreError, match="holds a bot already"):
        copy_in(file, engine)
    assert copy_out(engine, back) == count
    assert digests(SqliteEngine(back)) == wanted
    for place in (engine, SqliteEngine(back)):
        store = await Store.open(place)
        row = InboxRow(0, PLACE, "new", "Hi", "Ann", 1.25)
        kept, is_new = await store.write(lambda db: mailbox.receive(db, row, "digest"))  # noqa: B023
        assert (kept.id, is_new) == (4, True), "3 was deleted"
        newest = await store.read(lambda db: [*tables.Conversation.select().tuples().execute(db)])
        assert len(newest) == 2
        await store.close()


def test_tables_of_plugins_that_are_known_here_are_copied_both_ways(
    file: Path, postgresql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = (
        "CREATE TABLE shop_item (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT NOT NULL)",
        "CREATE UNIQUE INDEX shop_once ON shop_item (what)",
    )
    monkeypatch.setattr(feature_tables, "STEPS", {"shop": steps})
    with SqliteEngine(file).visit() as database, database.atomic():
        feature_tables.migrate(database, "shop", steps)
        feature_tables.migrate(database, "gone", ["CREATE TABLE gone_item (id INTEGER)"])
        for what in ("milk", "tea"):
            database.execute_sql("INSERT INTO shop_item (what) VALUES (?)", (what,))
    progress = KeptLines()
    copy_in(file, PostgresqlEngine(postgresql), progress)
    assert (
        "gone_item: not copied, since it belongs to a plugin, which makes it anew" in progress.lines
    )
    copy_out(PostgresqlEngine(postgresql), tmp_path / "back.db")
    with SqliteEngine(tmp_path / "back.db").visit() as database:
        rows = database.execute_sql("SELECT id, what FROM shop_item ORDER BY id").fetchall()
        assert rows == [(1, "milk"), (2, "tea")]
        feature_tables.migrate(database, "shop", steps)  # has nothing left to do


def test_a_row_that_nobody_can_read_ends_in_a_sentence(file: Path, postgresql: str) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE message SET text = x'ff00ff' WHERE seq = 2")
    with pytest.raises(StoreError, match="A row of the table message is damaged"):
        copy_in(file, PostgresqlEngine(postgresql))
