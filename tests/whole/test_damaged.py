"""A damaged database costs what is damaged, never the start, and never without a word."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.damaged_files import damaged, lived_in
from memory.conversations import MOST_ATTEMPTS
from memory.record.engines import engine_for
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.process import run_command, talking
from tests.whole.testbot import TestBot, run_bot


def yes(request: Received) -> Say:
    return Say("Yes.")


SETTINGS = {"agent_max_context_turns": 2, "restore": "exact"}


async def lived(folder: Path, turns: int = 6) -> Path:
    """A folder in which turns have left by a cut; returns its database."""
    async with run_bot(folder, yes, SETTINGS) as bot:
        for number in range(turns):
            await bot.says(f"My number is {number}.")
    return folder / "data" / "parley.db"


def execute(database: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        assert connection.execute(statement, values).rowcount, "the test damages something"


def count(database: Path, table: str) -> int:
    with closing(sqlite3.connect(database)) as connection:
        found: int = connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]
        return found


def alerts(bot: TestBot) -> list[str]:
    return [outbound.reply.text for outbound in bot.sent if outbound.reply_to == ""]


async def started(bot: TestBot) -> None:
    """Wait until all that is looked at after the start has been told."""
    while bot.app.schedule.next_tick is None:
        await bot.server_said_something()
    await bot.app.delivery.queues.idle()


@pytest.mark.parametrize("broken", ["[1, 2", "null", '{"tools": 5}'])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("view_event", "snapshot"),
        ("view_event", "change"),
        ("summary", "turns"),
        ("job", "turns"),
        ("conversation", "framing"),
        ("message", "extra"),
        ("override", "value"),
    ],
)
async def test_text_that_can_not_be_read_costs_neither_the_start_nor_a_turn(
    tmp_path: Path, table: str, column: str, broken: str
) -> None:
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await bot.says("/config agent_max_steps 7")
    database = await lived(tmp_path)
    execute(database, "UPDATE job SET is_done = 0")
    execute(database, f"UPDATE {table} SET {column} = ?", broken)
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        for line in ("/context", "/context history", "/memory", "/context undo", "/status"):
            assert "inside the bot" not in (await bot.says(line)).text, line
        await started(bot)
        await bot.app.conversations.settle()
    assert count(database, "message") >= 12


async def test_calls_of_a_damaged_turn_do_not_stand_without_their_results(tmp_path: Path) -> None:
    script = [Say(calls=(Call("current_time", "{}", "a"),)), Say("It is late."), Say("Yes.")]
    async with run_bot(tmp_path, script[:2], {"restore": "exact"}) as bot:
        await bot.says("What time is it?")
    database = tmp_path / "data" / "parley.db"
    execute(database, "UPDATE message SET extra = '{' WHERE seq = 2")
    async with run_bot(tmp_path, script[2:], {"restore": "exact"}) as bot:
        assert (await bot.says("Thanks.")).text == "Yes."
        roles = [m["role"] for m in bot.sent_to_model() if m["role"] != "system"]
    assert roles == ["user", "assistant", "user"]


async def test_a_role_that_nobody_has_does_not_fail_every_turn(tmp_path: Path) -> None:
    database = await lived(tmp_path, 2)
    execute(database, "UPDATE message SET role = 'asRistant' WHERE seq = 2")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        roles = [message["role"] for message in bot.sent_to_model(0)]
    assert set(roles) <= {"system", "user", "assistant"}


async def test_text_that_is_none_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    database = await lived(tmp_path, 1)
    execute(database, "UPDATE message SET text = CAST(x'48ff69' AS TEXT) WHERE seq = 1")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        assert bot.sent_to_model(0)[1]["content"] == "H\N{REPLACEMENT CHARACTER}i"


async def test_a_database_that_was_cut_short_does_not_start(tmp_path: Path) -> None:
    database = await lived(tmp_path, 20)
    with database.open("r+b") as file:
        file.truncate(int(database.stat().st_size * 0.9))
    before = database.read_bytes()
    async with talking(tmp_path) as bot:
        assert await bot.ended() == 1
    assert "is cut short" in bot.errors
    assert "restore FILE" in bot.errors
    assert "Traceback" not in bot.errors
    assert database.read_bytes() == before
    assert "is cut short" in run_command(tmp_path, "doctor").stdout


def taken_by_another(database: Path) -> None:
    database.unlink()
    execute_alone(database, "CREATE TABLE notes (text TEXT)")


def without_tables(database: Path) -> None:
    execute_alone(database, "DROP TABLE job")


def from_the_beginning(database: Path) -> None:
    execute_alone(database, "PRAGMA user_version = 0")


def a_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def execute_alone(database: Path, statement: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (taken_by_another, "is not a Parley database, or no longer one"),
        (from_the_beginning, "is not a Parley database, or no longer one"),
        (without_tables, "database is damaged (no such table: job)"),
        (a_folder, "can't be read (Is a directory)"),
    ],
)
async def test_what_is_no_database_of_ours_is_neither_taken_nor_a_traceback(
    tmp_path: Path, harm: Callable[[Path], None], told: str
) -> None:
    harm(await lived(tmp_path))
    async with talking(tmp_path) as bot:
        assert await bot.ended() == 1
    assert told in bot.errors
    assert "restore FILE" in bot.errors
    backup = str(tmp_path / "backup.tar.gz")
    lines = (("doctor",), ("audit",), ("backup", backup), ("pair", "K7QM-2XRD"), ("key", "list"))
    for done in (run_command(tmp_path, *line) for line in lines):
        assert "Traceback" not in bot.errors + done.stdout + done.stderr


async def test_a_schema_that_is_no_text_gets_a_sentence(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    content = database.read_bytes()
    database.write_bytes(content.replace(b"CREATE TABLE message", b"CREATE \xbaABLE message"))
    before = database.read_bytes()
    assert before != content
    async with talking(tmp_path) as bot:
        assert await bot.ended() == 1
    backup = str(tmp_path / "backup.tar.gz")
    done = [run_command(tmp_path, *line) for line in (("doctor",), ("audit",), ("backup", backup))]
    for said in (bot.errors, *(one.stdout + one.stderr for one in done)):
        assert "Traceback" not in said
    assert "is damaged" in bot.errors
    assert "restore FILE" in bot.errors
    assert database.read_bytes() == before


@pytest.mark.parametrize("place", [20, 32 + 24 + 50, -5_000])
async def test_a_damaged_end_of_what_was_written_is_told(tmp_path: Path, place: int) -> None:
    async with OpenAIServer(yes) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.says("And again")
            await bot.kill()
        log = tmp_path / "data" / "parley.db-wal"
        content = bytearray(log.read_bytes())
        content[place] ^= 1
        log.write_bytes(content)
        async with talking(tmp_path, endpoint) as bot:
            await bot.tell("/context", id="x")
            await bot.ended()
    assert "may be missing" in bot.errors or "although there was a bot here" in bot.errors
    assert "Traceback" not in bot.errors
    copies = list((tmp_path / "data").glob("parley.db-wal*"))
    assert any(copy.read_bytes() == bytes(content) for copy in copies)


async def test_after_a_kill_nothing_is_said_to_be_damaged(tmp_path: Path) -> None:
    async with OpenAIServer(yes) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.kill()
        async with talking(tmp_path, endpoint) as bot:
            assert "1 turn" in (await bot.says("/context"))["text"]
            assert await bot.ended() == 0
    assert "damaged" not in bot.errors
    assert list((tmp_path / "data").glob("*.damaged-*")) == []


async def test_a_job_that_is_never_done_is_put_aside_and_the_owner_hears(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    execute(database, "UPDATE job SET is_done = 0, attempts = ?", MOST_ATTEMPTS)
    jobs = count(database, "job")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await started(bot)
        assert any("could not be summarised into its daily memory" in text for text in alerts(bot))
    assert count(database, "aside") == jobs
    assert f"{jobs} job rows that were put aside" in engine_for(database).examine()
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await started(bot)
        assert alerts(bot) == [], "once is enough"
        asked = await bot.says("/forget chat")
        await bot.says(asked.actions[0].command)
    assert count(database, "aside") == 0


async def test_an_orderly_stop_counts_against_no_job(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    execute(database, "UPDATE job SET is_done = 0")
    memory = next((tmp_path / "data" / "audiences").iterdir()) / "memory"
    for file in memory.iterdir():
        file.unlink()
    memory.rmdir()
    memory.write_text("a file where the folder should be")
    for _ in range(MOST_ATTEMPTS + 2):
        async with run_bot(tmp_path, yes, SETTINGS) as bot:
            await bot.app.conversations.settle()
    assert count(database, "aside") == 0
    memory.unlink()
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await bot.app.conversations.settle()
    assert memory.is_dir()


@pytest.mark.parametrize(("table", "column"), [("inbox", "attachments"), ("outbox", "reply")])
async def test_mail_that_can_not_be_read_is_put_aside_and_the_rest_goes_on(
    tmp_path: Path, table: str, column: str
) -> None:
    database = await lived(tmp_path, 2)
    is_over = "is_done" if table == "inbox" else "is_sent"
    execute(database, f"UPDATE {table} SET {is_over} = 0, {column} = '[[' WHERE id = 1")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        await started(bot)
        assert any("was put aside" in text for text in alerts(bot))
    assert f"1 {table} rows that were put aside" in engine_for(database).examine()
    with closing(sqlite3.connect(database)) as connection:
        (content,) = connection.execute("SELECT content FROM aside").fetchone()
    assert json.loads(content)["id"] == 1


async def test_the_doctor_counts_what_can_not_be_read(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    execute(database, "UPDATE view_event SET change = '{'")
    assert "view_event rows that can't be read" in engine_for(database).examine()


async def test_an_owner_hears_of_a_page_that_is_damaged(tmp_path: Path) -> None:
    database = await lived(tmp_path, 20)
    with closing(sqlite3.connect(database)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'view_event_conversation'"
        (page,) = connection.execute(query).fetchone()
    content = bytearray(database.read_bytes())
    cells = (page - 1) * 4096 + 8
    content[cells : cells + 60] = bytes(60)
    database.write_bytes(content)
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await started(bot)
        assert any("damaged" in text for text in alerts(bot))


@pytest.mark.parametrize(
    "kind",
    ["database, zero", "write-ahead log, zero", "context.jsonl, flip", "JSON in the database"],
)
async def test_no_damage_ends_in_a_traceback_or_in_silence(tmp_path: Path, kind: str) -> None:
    await lived_in(tmp_path)
    (row,) = await asyncio.to_thread(damaged, tmp_path, 2, 40, (kind,))
    assert row.tries == 2
    assert row.is_well, row.failures or row


async def test_a_frame_that_was_lost_from_the_middle_of_the_log_is_told(tmp_path: Path) -> None:
    async with OpenAIServer(yes) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            await bot.says("And again")
            await bot.kill()
        log = tmp_path / "data" / "parley.db-wal"
        content = bytearray(log.read_bytes())
        frame = 32 + (len(content) - 32) // (4096 + 24) // 2 * (4096 + 24)
        content[frame : frame + 512] = bytes(512)
        log.write_bytes(content)
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 0
    assert "may be missing" in bot.errors
