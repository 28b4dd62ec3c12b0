"""A damaged database loses the damaged rows only, never prevents the start, and is always
reported."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.damaged_files import damaged, lived_in
from bot.assembly import assemble
from bot.data_folder import FolderError, check_not_emptied, start_fresh
from bot.settings import load_layers
from main import main
from memory.conversations import MOST_ATTEMPTS
from memory.record.database import StoreError
from memory.record.engines import engine_for
from memory.record.engines.soundness import is_unused
from tests.docs.pages import ROOT
from tests.fakes.openai_server import Call, Received, Say
from tests.waiting import until
from tests.whole.scenario import copy_as_killed
from tests.whole.testbot import TestBot, TestChannel, run_bot


def yes(request: Received) -> Say:
    return Say("Yes.")


SETTINGS = {"agent_max_context_turns": 2, "restore": "exact"}


async def lived(folder: Path, turns: int = 6) -> Path:
    """Make a folder with turns removed by a cut; return its database."""
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
    """Wait until everything checked after the start has been reported."""
    await until(lambda: bot.app.schedule.next_tick is not None)
    await bot.app.delivery.queues.idle()


async def refusal(folder: Path) -> str:
    """Return the sentence with which a bot refuses to start on a folder."""
    channel = TestChannel()
    channel.leave()
    (folder / "config.json").write_text('{"model": "gpt-4o-mini"}')
    layers = load_layers(folder / "config.json", {"OPENAI_API_KEY": "test-key"})
    try:
        check_not_emptied(folder / "data")
        app = await assemble(layers, folder / "data", [channel])
        await app.run()
    except (StoreError, FolderError) as error:
        return str(error)
    return ""


async def killed(folder: Path) -> Path:
    """Make a folder as left by a bot that is killed after two answers."""
    async with run_bot(folder, yes) as bot:
        await bot.says("Hi")
        await bot.says("And again")
        return await copy_as_killed(bot, folder)


@pytest.mark.parametrize("broken", ["[1, 2", "null", '{"tools": 5}'])
async def test_unreadable_text_costs_neither_start_nor_turn(tmp_path: Path, broken: str) -> None:
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await bot.says("/config agent_max_steps 7")
    whole = await lived(tmp_path)
    for number, columns in enumerate(
        (
            ["view_event.change"],
            ["view_event.snapshot"],
            ["summary.turns", "job.turns"],
            ["conversation.framing", "message.extra", "override.value"],
        )
    ):
        folder = tmp_path / str(number)
        shutil.copytree(whole.parent, folder / "data")
        database = folder / "data" / "parley.db"
        execute(database, "UPDATE job SET is_done = 0")
        for table, column in (one.split(".") for one in columns):
            execute(database, f"UPDATE {table} SET {column} = ?", broken)
        async with run_bot(folder, yes, SETTINGS) as bot:
            assert (await bot.says("Are you there?")).text == "Yes."
            for line in ("/context", "/context history", "/memory", "/context undo", "/status"):
                assert "inside the bot" not in (await bot.says(line)).text, line
            await started(bot)
            await bot.app.conversations.flush()
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


async def test_an_unknown_role_and_broken_text_fail_no_turn(tmp_path: Path) -> None:
    database = await lived(tmp_path, 2)
    execute(database, "UPDATE message SET role = 'asRistant' WHERE seq = 4")
    execute(database, "UPDATE message SET text = CAST(x'48ff69' AS TEXT) WHERE seq = 3")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        sent = bot.sent_to_model(0)
    assert {message["role"] for message in sent} <= {"system", "user", "assistant"}
    assert sent[1]["content"] == "H\N{REPLACEMENT CHARACTER}i", "it is shown as far as it goes"


async def test_a_database_that_was_cut_short_does_not_start(tmp_path: Path) -> None:
    database = await lived(tmp_path, 12)
    with database.open("r+b") as file:
        file.truncate(int(database.stat().st_size * 0.9))
    before = database.read_bytes()
    told = await refusal(tmp_path)
    assert "is cut short" in told
    assert "restore FILE" in told
    assert database.read_bytes() == before
    assert "is cut short" in engine_for(database).examine()


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


def spoiled_schema(database: Path) -> None:
    content = database.read_bytes()
    spoiled = content.replace(b"CREATE TABLE message", b"CREATE \xbaABLE message")
    assert spoiled != content
    database.write_bytes(spoiled)


async def test_what_is_no_database_of_ours_is_neither_taken_nor_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = await lived(tmp_path)
    harms: dict[Callable[[Path], None], str] = {
        taken_by_another: "is not a Parley database, or no longer one",
        from_the_beginning: "is not a Parley database, or no longer one",
        without_tables: "The database is damaged. Stop the bot",
        spoiled_schema: "is damaged",
        a_folder: "can't be read (Is a directory)",
    }
    for harm, sentence in harms.items():
        folder = tmp_path / harm.__name__
        shutil.copytree(whole.parent, folder / "data")
        database = folder / "data" / "parley.db"
        harm(database)
        before = database.read_bytes() if database.is_file() else b""
        told = await refusal(folder)
        assert sentence in told
        assert "restore FILE" in told
        assert not before or database.read_bytes() == before
        engine_for(database).examine()  # raises nothing, and neither do these:
        places = ["--config", str(folder / "config.json"), "--data", str(folder / "data")]
        backup = str(folder / "backup.tar.gz")
        for line in (["audit"], ["backup", backup], ["pair", "K7QM-2XRD"], ["key", "list"]):
            await asyncio.to_thread(main, [*places, *line])
    assert "Traceback" not in "".join(capsys.readouterr())


async def test_damage_in_what_was_written_last_is_told(tmp_path: Path) -> None:
    def flip(content: bytearray, place: int) -> None:
        content[place] ^= 1

    def lose_frame(content: bytearray, place: int) -> None:
        """Zero the beginning of a frame in the middle, as a disk does that has lost it."""
        frame = 32 + (len(content) - 32) // (4096 + 24) // 2 * (4096 + 24)
        content[frame : frame + 512] = bytes(512)

    healthy = await killed(tmp_path)
    for number, (harm, place) in enumerate(
        [(flip, 20), (flip, 32 + 24 + 50), (flip, -5_000), (lose_frame, 0)]
    ):
        folder = tmp_path / str(number)
        shutil.copytree(healthy / "data", folder / "data")
        log = folder / "data" / "parley.db-wal"
        content = bytearray(log.read_bytes())
        harm(content, place)
        log.write_bytes(content)
        if is_unused(folder / "data" / "parley.db"):
            assert "although there was a bot here" in await refusal(folder)
        else:
            async with run_bot(folder, yes) as bot:
                assert "may be missing" in str(bot.app.losses)
        copies = list((folder / "data").glob("parley.db-wal*"))
        assert any(copy.read_bytes() == bytes(content) for copy in copies)


async def test_after_a_kill_nothing_is_said_to_be_damaged(tmp_path: Path) -> None:
    folder = await killed(tmp_path)
    async with run_bot(folder, yes) as bot:
        assert "2 turns" in (await bot.says("/context")).text
        await started(bot)
        assert (bot.app.losses, alerts(bot)) == ((), [])
    assert not [name for name in os.listdir(folder / "data") if "damaged" in name]


async def test_a_job_that_is_never_done_is_put_aside_and_the_owner_hears(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    execute(database, "UPDATE view_event SET change = '{'")
    assert "view_event rows that can't be read" in engine_for(database).examine()
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
            await bot.app.conversations.flush()
    assert count(database, "aside") == 0
    memory.unlink()
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        await bot.app.conversations.flush()
    assert memory.is_dir()


async def test_mail_that_can_not_be_read_is_put_aside_and_the_rest_goes_on(tmp_path: Path) -> None:
    database = await lived(tmp_path, 2)
    execute(database, "UPDATE inbox SET is_done = 0, attachments = '[[' WHERE id = 1")
    execute(database, "UPDATE outbox SET is_sent = 0, reply = '[[' WHERE id = 2")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        await started(bot)
        assert any("was put aside" in text for text in alerts(bot))
    for table in ("inbox", "outbox"):
        assert f"1 {table} rows that were put aside" in engine_for(database).examine()
    with closing(sqlite3.connect(database)) as connection:
        found = connection.execute("SELECT kind, content FROM aside").fetchall()
    assert {kind: json.loads(content)["id"] for kind, content in found} == {"inbox": 1, "outbox": 2}


async def test_an_owner_hears_of_a_page_that_is_damaged(tmp_path: Path) -> None:
    database = await lived(tmp_path, 12)
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


@pytest.mark.usefixtures("processes")
async def test_no_damage_ends_in_a_traceback_or_in_silence(tmp_path: Path) -> None:
    await lived_in(tmp_path)
    kinds = ("database, zero", "write-ahead log, zero")
    for row in await asyncio.to_thread(damaged, tmp_path, 1, 40, kinds):
        assert row.tries == 1
        assert row.is_well, row.failures or row


@pytest.mark.usefixtures("processes")
async def test_the_steps_for_a_destroyed_beginning_bring_the_messages_back(tmp_path: Path) -> None:
    database = await lived(tmp_path)
    before = count(database, "message")
    from_the_beginning(database)
    told = await refusal(tmp_path)
    assert "python main.py --new" in told
    assert "the troubleshooting page" in told
    start_fresh(tmp_path / "data")
    async with run_bot(tmp_path, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        assert "My number is 2" in (await bot.says("/memory")).text, "the daily file is in use"
    shutil.copytree(tmp_path / "data", tmp_path / "saved")
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    save, patch = re.findall(r"```sh\n(.+?)```", page.partition("### A damaged")[2], re.DOTALL)
    for commands in (patch, save):
        subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True, capture_output=True)  # noqa: ASYNC221
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "saved").rename(again / "data")
    assert count(again / "data" / "parley.db", "message") == before
    async with run_bot(again, yes, SETTINGS) as bot:
        assert (await bot.says("Are you there?")).text == "Yes."
        assert "My number is 5." in str(bot.sent_to_model())


async def test_a_sound_database_is_not_put_aside(tmp_path: Path) -> None:
    database = await lived(tmp_path, 1)
    with pytest.raises(FolderError, match="holds a bot"):
        start_fresh(tmp_path / "data")
    with database.open("r+b") as file:
        file.truncate(database.stat().st_size // 2)
    content = database.read_bytes()
    start_fresh(tmp_path / "data")
    (aside,) = (tmp_path / "data").glob("parley.db.before-*")
    assert aside.read_bytes() == content
