"""Tests of the words for an error of the database: SQLite's words stand in the log alone, and SQL
that is wrong is no damage."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from memory.record.engines.sqlite import SqliteEngine
from memory.record.store import StoreError


def statement(text: str) -> Callable[[SqliteEngine], None]:
    def run(engine: SqliteEngine) -> None:
        with closing(engine.connect()) as database:
            database.execute_sql(text)

    return run


def held(engine: SqliteEngine) -> None:
    with (
        closing(sqlite3.connect(engine.path)) as other,
        closing(engine.connect()) as database,
    ):
        other.execute("BEGIN EXCLUSIVE")
        database.execute_sql("PRAGMA busy_timeout = 0")
        database.execute_sql("CREATE TABLE a (b)")


def full(engine: SqliteEngine) -> None:
    with closing(engine.connect()) as database:
        database.execute_sql("PRAGMA max_page_count = 1")
        database.execute_sql("CREATE TABLE a (b)")
        database.execute_sql("INSERT INTO a VALUES (zeroblob(1000000))")


def no_text(engine: SqliteEngine) -> None:
    with closing(engine.connect()) as database:
        database.execute_sql("SELECT CAST(x'ff' AS TEXT)").fetchall()


def spoiled(engine: SqliteEngine) -> None:
    content = bytearray(engine.path.read_bytes())
    content[100:8_000] = b"\x7f" * 7_900
    engine.path.write_bytes(bytes(content))
    statement("SELECT * FROM message")(engine)


def without(change: str) -> Callable[[SqliteEngine], None]:
    def run(engine: SqliteEngine) -> None:
        with closing(sqlite3.connect(engine.path)) as database, database:
            database.execute(change)
        statement("SELECT is_done FROM job")(engine)

    return run


def fails(engine: SqliteEngine, work: Callable[[SqliteEngine], None]) -> BaseException:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - peewee's, of any kind
        work(engine)
    return engine.explain(raised.value)


@pytest.fixture
def engine(tmp_path: Path) -> SqliteEngine:
    made = SqliteEngine(tmp_path / "parley.db")
    made.prepare()
    return made


FAULTS: dict[str, tuple[Callable[[SqliteEngine], None], str]] = {
    "another process": (held, "This could not be saved: another process holds the database; "),
    "a full disk": (full, "This could not be saved: the disk is full; "),
    "what is no text": (no_text, "The database is damaged. Stop the bot, "),
    "damaged pages": (spoiled, "The database is damaged. Stop the bot, "),
    "a table of ours is gone": (without("DROP TABLE job"), "The database is damaged. Stop "),
    "a column of ours is gone": (
        without("ALTER TABLE job RENAME COLUMN is_done TO other"),
        "The database is damaged. Stop ",
    ),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_is_told_in_words_of_our_own(
    what: str, engine: SqliteEngine, caplog: pytest.LogCaptureFixture
) -> None:
    work, sentence = FAULTS[what]
    with caplog.at_level(logging.INFO):
        told = fails(engine, work)
    assert isinstance(told, StoreError)
    assert str(told).startswith(sentence)
    (record,) = [one for one in caplog.records if one.exc_info]
    said = str(record.exc_info and record.exc_info[1])
    assert said
    assert said not in str(told)


SPACELESS = ("SQLITE_FULL", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_PERM")


@pytest.mark.parametrize("code", SPACELESS)
def test_whatever_sqlite_says_on_a_disk_without_space_the_disk_is_full(
    code: str, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = getattr(sqlite3, code)
    usage = shutil.disk_usage(engine.path.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=4096))
    assert "the disk is full; free some space" in str(engine.explain(error))
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=10**9))
    assert ("is full" in str(engine.explain(error))) == (code == "SQLITE_FULL")


WRONG_SQL = (
    *("SELEC 1", "SELECT * FROM no_such_table", "SELECT nothing FROM message", "SELECT 1 +"),
    *("INSERT INTO message (nothing) VALUES (1)", "SELECT no_function(1)", "CREATE TABLE job (a)"),
    *("ALTER TABLE job ADD COLUMN is_done", "SELECT count(*) FROM job GROUP BY", "SELECT ?"),
)


@pytest.mark.parametrize("wrong", WRONG_SQL)
def test_wrong_sql_is_a_fault_of_who_wrote_it_and_no_damage(
    wrong: str, engine: SqliteEngine
) -> None:
    told = fails(engine, statement(wrong))
    assert not isinstance(told, StoreError), told
    assert engine.examine() == ""


def test_a_database_that_can_t_be_opened_is_told_so_too(tmp_path: Path) -> None:
    path = tmp_path / "parley.db"
    SqliteEngine(path).prepare()
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE job")
        database.execute("PRAGMA user_version = 1")
    with pytest.raises(StoreError) as told:
        SqliteEngine(path).prepare()
    assert str(told.value).startswith(f"{path} is damaged. Stop the bot")
