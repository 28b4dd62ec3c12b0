"""Tests of the upgrade of every earlier release's data (`record.py`) to this version, and of its
further use."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import main
from bot.data_folder import lock_data_folder
from bot.paragraphs import count
from memory.record import feature_tables
from memory.record.engines.sqlite import in_memory
from memory.record.rehearsal import NEWEST
from plugins.operations.restore import restore
from tests.fakes.openai_server import Say
from tests.upgrades.record import UNANSWERED, list_recorded, own_name, versions_of
from tests.whole.testbot import run_bot

RELEASES = list_recorded()
SCHEMAS = [versions_of(path.name)[1] for path in RELEASES]
pytestmark = pytest.mark.sqlite


@pytest.fixture(params=RELEASES, ids=[path.name.removesuffix(".tar.gz") for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Create a folder with the data of a release."""
    return bring_back(request.param, tmp_path)


@pytest.fixture
def oldest(tmp_path: Path) -> Path:
    """Create a folder with the data of the first release."""
    return bring_back(RELEASES[0], tmp_path)


def bring_back(file: Path, folder: Path) -> Path:
    restore(file, folder / "data", lambda contents: True)
    (folder / "config.json").write_text('{"model": "gpt-4o-mini"}')
    return folder


def run(folder: Path, *arguments: str) -> int:
    """Run the command line in a folder; return its exit code."""
    places = ("--config", str(folder / "config.json"), "--data", str(folder / "data"))
    return main.main([*places, *arguments])


def query(folder: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
        return database.execute(sql).fetchall()


def dump(folder: Path) -> dict[str, list[Any]]:
    """Return all rows of all tables."""
    tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
    return {
        name: sorted(query(folder, f'SELECT * FROM "{name}"'), key=repr)
        for (name,) in query(folder, tables)
    }


def shape(database: sqlite3.Connection) -> dict[str, set[tuple[Any, ...]]]:
    """Return the columns of each table, regardless of their order, and the indexes."""
    found = {
        name: {tuple(row[1:]) for row in database.execute(f'PRAGMA table_info("{name}")')}
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    names = database.execute("SELECT name FROM sqlite_master WHERE type = 'index'").fetchall()
    return found | {"indexes": {*names}}


def backups(folder: Path) -> list[Path]:
    return sorted(folder.glob("data-before-*.tar.gz"))


def test_each_file_is_named_after_what_it_holds() -> None:
    assert [path.name for path in RELEASES] == [own_name(path) for path in RELEASES]
    assert {"0.1.0", "0.2.0"} <= {path.name.partition("-")[0] for path in RELEASES}


async def test_a_release_goes_on_in_this_version_with_all_that_was_said(release: Path) -> None:
    said = query(release, "SELECT seq, role, text FROM message ORDER BY id")
    set_in_chat = query(release, "SELECT scope, key, value FROM override")
    assert len(said) > 25
    async with run_bot(release, lambda request: Say("It is answered.")) as bot:
        bot.count = 1000  # so that new messages have new ids
        reply = (await bot.reply_to('"last"')).reply
        assert reply.text.endswith("It is answered.")
        assert any(UNANSWERED in str(one.body["messages"][-1]) for one in bot.server.requests)
        assert "lake at **Prien**" in (await bot.says("/context search Prien")).text
        turns = await bot.says("/config agent_max_context_turns")
        assert "is **8** turns (from: /config" in turns.text
        assert (await bot.says("And now?")).text == "It is answered."
        asked = [one.body["messages"] for one in bot.server.requests]
        (last,) = [messages for messages in asked if "And now?" in str(messages[-1])]
        assert "My dog is called Rufus." in str(last), "t1 is pinned"
        assert "Undone" in (await bot.says("/undo")).text
        assert (await bot.says("/memory")).text
    now = query(release, "SELECT seq, role, text FROM message ORDER BY id")
    assert now[: len(said)] == said
    assert query(release, "SELECT scope, key, value FROM override") == set_in_chat
    assert query(release, "PRAGMA user_version") == [(NEWEST,)]
    with (
        closing(sqlite3.connect(release / "data" / "parley.db")) as migrated,
        closing(in_memory()) as fresh,
    ):
        # Plugins that other tests loaded into this process have tables, too.
        for (name,) in migrated.execute("SELECT feature FROM feature_schema"):
            feature_tables.migrate(fresh, name, feature_tables.STEPS[name])
        assert shape(migrated) == shape(fresh.connection())


def test_a_release_is_sound_and_a_check_says_what_would_change_and_changes_nothing(
    release: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, schema = dump(release), query(release, "PRAGMA user_version")[0][0]
    assert schema in SCHEMAS
    run(release, "doctor")
    assert "ok   database: The database is sound." in capsys.readouterr().out
    assert run(release, "upgrade", "--check") == 0
    told = capsys.readouterr().out
    assert dump(release) == before
    assert query(release, "PRAGMA user_version") == [(schema,)]
    if schema == NEWEST:
        assert "nothing to upgrade" in told
        assert not backups(release)
        return
    assert f"{count(NEWEST - schema, 'step')} in " in told
    assert f"The data has schema {schema}; " in told
    assert re.search(rf"^  {NEWEST}  ", told, re.M)
    messages = query(release, "SELECT COUNT(*) FROM message")[0][0]
    assert f"All {messages} messages" in told
    assert "To upgrade it, stop the bot" in told


def test_an_upgrade_and_the_one_command_that_takes_it_back(
    oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = dump(oldest)
    assert run(oldest, "upgrade") == 0
    assert query(oldest, "PRAGMA user_version") == [(NEWEST,)]
    (file,) = backups(oldest)
    places = f"--config {oldest / 'config.json'} --data {oldest / 'data'}"
    told = capsys.readouterr().out
    assert f"python main.py {places} restore {file}\n" in told, "it is about this bot"
    assert file.stat().st_mode & 0o777 == 0o600
    assert run(oldest, "restore", str(file), "--with-code") == 0
    assert dump(oldest) == before
    assert run(oldest, "upgrade", "--backup", str(oldest / "mine.tar.gz")) == 0
    assert (oldest / "mine.tar.gz").exists()
    assert run(oldest, "upgrade") == 0
    assert "nothing to upgrade" in capsys.readouterr().out


def test_settings_that_no_longer_fit_are_named(
    oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(oldest / "data" / "parley.db")) as database, database:
        database.execute("INSERT INTO override VALUES ('', 'agent_max_steps', '-3', 1)")
    assert run(oldest, "upgrade", "--check") == 0
    assert "An earlier /config is ignored: agent_max_steps is -3" in capsys.readouterr().out


def test_an_upgrade_that_would_fail_fails_on_the_copy_alone(
    oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(oldest / "data" / "parley.db")) as database, database:
        database.execute("CREATE TABLE aside (something INTEGER)")
    before = dump(oldest)
    assert run(oldest, "upgrade") == 1
    told = capsys.readouterr().err
    assert "The upgrade would fail" in told
    assert "already exists" in told
    assert str(backups(oldest)[0]) in told
    assert dump(oldest) == before


def test_nothing_is_upgraded_under_a_bot_that_runs(
    oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock_data_folder(oldest / "data"):
        assert run(oldest, "upgrade") == 1
        assert "Another Parley is running" in capsys.readouterr().err
        assert run(oldest, "upgrade", "--check") == 0
    assert query(oldest, "PRAGMA user_version") == [(SCHEMAS[0],)]


def test_the_data_of_a_newer_parley_and_an_empty_folder_get_a_sentence(
    oldest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(oldest / "data" / "parley.db")) as database:
        database.execute(f"PRAGMA user_version = {NEWEST + 1}")
    assert run(oldest, "upgrade", "--check") == 1
    assert "newer Parley" in capsys.readouterr().err
    (oldest / "data").rename(oldest / "elsewhere")
    assert run(oldest, "upgrade", "--check") == 1
    assert "There is no bot in" in capsys.readouterr().err
    assert not (oldest / "data").exists()


@pytest.mark.parametrize("state", ["newer", "gone"])
def test_the_doctor_says_what_the_start_says_of_the_database(
    oldest: Path, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    database = oldest / "data" / "parley.db"
    if state == "newer":
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA user_version = 999")
    else:
        database.unlink()
    assert run(oldest, "upgrade", "--check") == 1
    start = capsys.readouterr().err
    assert ("newer Parley" if state == "newer" else "is gone") in start
    assert f"python main.py --config {oldest / 'config.json'} --data {oldest / 'data'}" in start
    assert run(oldest, "doctor") == 1
    told = capsys.readouterr().out
    assert f"BAD  database: {start.strip()}\n" in told
    assert not database.exists() or query(oldest, "PRAGMA user_version") == [(999,)]
