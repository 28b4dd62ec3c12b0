"""Adversity: a folder, disk, clock, model or platform fails for a while, and the bot continues."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import time_machine

from bot.assembly import assemble
from bot.data_folder import FolderError, lock_data_folder
from bot.settings import load_layers
from channels.message import Outbound
from main import main
from memory.turn_log import LEFT_OPEN
from plugins.operations import doctor
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.process import run_command, talking
from tests.whole.scenario import forbid_retries
from tests.whole.testbot import TestBot, TestChannel, run_bot, running

ANOTHER = "Another Parley is running on the data folder"


def echo(request: Received) -> Say:
    return Say("Yes.")


def run(folder: Path, *arguments: str) -> int:
    """Run the command line in this process."""
    if not (folder / "config.json").exists():
        (folder / "config.json").write_text("{}")
    places = ("--config", str(folder / "config.json"), "--data", str(folder / "data"))
    return main([*places, *arguments])


def test_deleting_the_lock_lets_no_second_bot_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock_data_folder(tmp_path / "data"):
        (tmp_path / "data" / "lock").unlink()
        with pytest.raises(FolderError, match=ANOTHER), lock_data_folder(tmp_path / "data"):
            pass
        for line in (("--jsonl",), ("restore", "nothing.tar.gz")):
            assert run(tmp_path, *line) == 1
            assert ANOTHER in capsys.readouterr().err


def test_a_file_in_the_place_of_the_data_folder_is_said_to_be_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("Milk")
    for name in ("notes.txt", "notes.txt/data"):
        data = tmp_path / name
        assert run(tmp_path, "--data", str(data), "--jsonl") == 1
        assert capsys.readouterr().err == (
            f"The data folder {data} can't be made: a file is in its place. Choose another one "
            "with --data DIR.\n"
        )
        found = doctor.check_data_folder(data)
        assert found.sentence == f"{tmp_path / 'notes.txt'} is a file, not a folder."


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["lock", "parley.db", "parley.db-wal"])
def test_a_file_that_another_account_has_made_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    file = tmp_path / "data" / name
    file.parent.mkdir()
    shutil.copy("/bin/sleep", file)
    with subprocess.Popen([file, "60"]) as running:  # even root may not write a running program
        try:
            for line in (("--jsonl",), ("restore", "nothing.tar.gz")):
                assert run(tmp_path, *line) == 1
                said = capsys.readouterr().err
                assert said.startswith(f"The file {file} of the bot can't be written (")
                assert said.count("\n") == 1
            found = doctor.check_data_folder(file.parent)
            assert found.sentence.startswith(f"{file} cannot be written: ")
        finally:
            running.kill()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("line", [["doctor"], ["audit"], ["key", "list"], ["completion", "bash"]])
def test_a_reader_that_has_read_enough_is_no_fault(tmp_path: Path, line: list[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    reader, writer = os.pipe()
    os.close(reader)  # as `| head` does, sooner or later
    done = run_command(tmp_path, *line, stdout=writer)
    os.close(writer)
    assert done.stderr == ""


async def test_a_lost_database_is_said_and_one_that_holds_a_bot_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "data", tmp_path / "saved"
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        shutil.copytree(data, saved)  # as a kill leaves it, with a write-ahead log
    ways: dict[str, list[str]] = {
        "emptied": [],
        "gone": ["parley.db", "parley.db-wal", "parley.db-shm"],
        "only the file gone": ["parley.db"],
    }
    for lost in ways.values():
        shutil.rmtree(data)
        shutil.copytree(saved, data)
        (data / "parley.db").write_bytes(b"")
        for name in lost:
            (data / name).unlink(missing_ok=True)
        before = {path.name: path.read_bytes() for path in data.glob("parley.db*")}
        assert await asyncio.to_thread(run, tmp_path, "--jsonl") == 1
        told = capsys.readouterr().err
        assert "although there was a bot here (audiences" in told
        assert "restore FILE" in told
        assert "--new" in told
        assert {path.name: path.read_bytes() for path in data.glob("parley.db*")} == before
    shutil.rmtree(data)
    shutil.copytree(saved, data)
    assert await asyncio.to_thread(run, tmp_path, "--jsonl", "--new") == 1
    assert "omit --new" in capsys.readouterr().err
    async with run_bot(tmp_path, echo) as bot:
        await bot.writes("/context", id="asked")  # the previous answer may be sent once more
        assert "1 turn" in (await bot.reply_to("asked")).reply.text


@pytest.mark.usefixtures("processes")
async def test_new_begins_beside_what_is_left_for_its_owner_alone(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("Hi")
            async with talking(tmp_path, endpoint) as second:
                assert await second.ended() == 1
            assert ANOTHER in second.errors
            await bot.kill()
        (data / "parley.db").unlink()
        before = {path.name for path in data.glob("parley.db*")}
        async with talking(tmp_path, endpoint, arguments=("--jsonl", "--new")) as bot:
            assert (await bot.says("Hello?"))["text"] == "Yes."
            everything = [data, *data.rglob("*")]
            assert [path for path in everything if path.stat().st_mode & 0o077] == []
            assert await bot.ended() == 0
        aside = {path.name.partition(".before-")[0] for path in data.glob("*.before-*")}
        assert aside == before, "what was left is kept"


def test_a_backup_with_code_is_restored_without_it_unless_that_is_wanted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "data", str(tmp_path / "saved.tar.gz")
    (data / "plugins").mkdir(parents=True)
    (data / "plugins" / "dice.py").write_text("import os\n")
    assert run(tmp_path, "backup", saved) == 0
    assert run(tmp_path, "restore", saved) == 0, "there is nobody who could agree"
    told = capsys.readouterr().out
    assert "plugins/dice.py" in told
    assert "--with-code" in told
    assert not (data / "plugins" / "dice.py").exists()
    assert run(tmp_path, "restore", saved, "--with-code") == 0
    assert (data / "plugins" / "dice.py").read_text() == "import os\n"


NOON = 1_800_000_000.0
DAY = 86_400.0


async def pragma(bot: TestBot, text: str) -> None:
    """Set an option of the writing connection, outside of any transaction."""
    store = bot.app.store
    await store._put(store._writer, lambda db: db.execute_sql(f"PRAGMA {text}"), is_alone=True)


async def questions(bot: TestBot) -> list[str]:
    rows = await bot.app.store.read(
        lambda db: db.execute_sql(
            "SELECT text FROM message WHERE role = 'user' ORDER BY seq"
        ).fetchall()
    )
    return [text for (text,) in rows]


async def test_on_a_disk_that_becomes_read_only_messages_are_refused_until_it_is_mended(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, [Say("One."), Say("Three.")]) as bot:
        await bot.says("first")
        await pragma(bot, "query_only = 1")
        for text in ("second", "/context"):
            refusal = (await bot.says(text)).text
            assert "can't be opened or written; check the permissions of the data folder" in refusal
        await pragma(bot, "query_only = 0")
        assert (await bot.says("third")).text == "Three."
        assert await questions(bot) == ["first", "third"]


async def test_a_database_that_gets_locked_in_mid_turn_ends_it_and_no_tool_runs_again(
    tmp_path: Path,
) -> None:
    """Lock the database. An accepted message is not lost: the next start answers it."""
    with closing(sqlite3.connect(tmp_path / "holder", isolation_level=None)) as holder:
        answers = [Say(calls=(Call("calculate", '{"expression": "6*7"}', "a"),)), Say("It is 42.")]

        def script(request: Received) -> Say:
            if request.body["messages"][-1]["role"] == "tool":
                holder.execute("BEGIN EXCLUSIVE")
            return answers.pop(0)

        async with run_bot(tmp_path, script) as bot:
            await pragma(bot, "busy_timeout = 20")
            holder.execute(f"ATTACH '{tmp_path / 'data' / 'parley.db'}' AS bot")
            told = (await bot.says("6*7?")).text
            assert "another process holds the database; stop it and try again" in told
            holder.execute("ROLLBACK")
            holder.execute("DETACH bot")
    async with run_bot(tmp_path, [Say("42, as I said.")]) as bot:
        assert (await bot.reply_to("m1")).reply.text == "42, as I said."
        assert [message["role"] for message in bot.sent_to_model()][1:] == [
            *("user", "assistant", "tool")
        ]
        assert await questions(bot) == ["6*7?"]


async def test_a_turn_that_could_not_be_saved_is_said_to_be_that_where_others_came_after_it(
    tmp_path: Path,
) -> None:
    with closing(sqlite3.connect(tmp_path / "holder", isolation_level=None)) as holder:

        def script(request: Received) -> Say:
            if request.body["messages"][-1]["content"] == "first":
                holder.execute("BEGIN EXCLUSIVE")
            return Say("Yes.")

        async with run_bot(tmp_path, script) as bot:
            await pragma(bot, "busy_timeout = 20")
            holder.execute(f"ATTACH '{tmp_path / 'data' / 'parley.db'}' AS bot")
            assert "another process holds the database" in (await bot.says("first")).text
            holder.execute("ROLLBACK")
            holder.execute("DETACH bot")
            assert (await bot.says("second")).text == "Yes."
    async with run_bot(tmp_path) as bot:
        assert (await bot.reply_to("m1")).reply.text == f"({LEFT_OPEN})"


async def test_a_clock_that_jumps_changes_no_order_and_loses_nothing(tmp_path: Path) -> None:
    moments = [NOON, NOON - DAY, NOON + 20 * DAY, NOON - 400 * DAY, NOON]
    settings = {"agent_max_context_turns": 2}
    async with run_bot(tmp_path, lambda _: Say("Noted."), settings) as bot:
        for number, moment in enumerate(moments):
            with time_machine.travel(moment, tick=True):
                assert (await bot.says(f"question {number}")).text == "Noted."
                for command in ("/context", "/context history", "/usage", "/memory", "/status"):
                    assert "inside the bot" not in (await bot.says(command)).text
        found = (await bot.says("/memory search question")).text
    said = [f"question {number}" for number in range(len(moments))]
    assert all(f"**question** {number}" in found for number in range(len(moments)))
    async with run_bot(tmp_path, lambda _: Say("All."), settings | {"restore": "exact"}) as bot:
        await bot.says("What was said?")
        assert await questions(bot) == [*said, "What was said?"]


@pytest.mark.parametrize("shift", [-30 * DAY, 30 * DAY])
async def test_a_message_that_waits_is_answered_though_the_clock_jumped(
    tmp_path: Path, shift: float
) -> None:
    go = asyncio.Event()

    class Slow(OpenAIServer):
        async def _respond(self, request, received):  # type: ignore[no-untyped-def]
            await go.wait()
            return await super()._respond(request, received)

    async with Slow([Say("One."), Say("Two.")]) as server:
        bot = TestBot()
        bot.server = server
        environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
        async with running(tmp_path, bot, {}, environ):
            with time_machine.travel(NOON, tick=True):
                await bot.writes("first", id="1")
                await server.reached.acquire()
            with time_machine.travel(NOON + shift, tick=True):
                await bot.writes("second", id="2")
                go.set()
                assert (await bot.reply_to("1")).reply.text == "One."
                assert (await bot.reply_to("2")).reply.text == "Two."


async def test_a_model_that_is_down_is_told_and_the_next_message_works_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forbid_retries(monkeypatch)
    async with run_bot(tmp_path, [Say("I am here.")]) as bot:
        assert (await bot.says("Hello?")).text == "I am here."
        await bot.server.close()
        told = (await bot.says("And now?")).text
        assert "Can't connect to" in told
        assert (await bot.says("/context")).data is not None
        port = int(bot.server.base_url.rsplit(":", 1)[1].split("/")[0])
        back = OpenAIServer([Say("Back again.")])
        await back.start(port)
        try:
            assert (await bot.says("Better?")).text == "Back again."
        finally:
            await back.close()
        back.assert_done()


class Far(TestChannel):
    """A platform that accepts no reply until it is released."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.gate = asyncio.Event()

    async def send(self, outbound: Outbound) -> None:
        await self.gate.wait()
        await super().send(outbound)


async def test_a_channel_that_takes_nothing_holds_up_no_other_channel(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini", "owners": ["far/ann"]}')
    async with OpenAIServer(lambda _: Say("Here you are.")) as server:
        environ = {"OPENAI_BASE_URL": server.base_url, "OPENAI_API_KEY": "test-key"}
        near, far = TestChannel(), Far("far")
        layers = load_layers(tmp_path / "config.json", environ)
        app = await assemble(layers, tmp_path / "data", [near, far])
        task = asyncio.create_task(app.run())
        for number in range(20):
            await far.writes("Hello?", user="ann", id=f"far{number}")
        for number in range(20):
            assert (await near.says(f"question {number}")).text == "Here you are."
        assert far.sent == []
        far.gate.set()
        await far.reply_to("far19")
        assert [outbound.reply_to for outbound in far.sent] == [f"far{n}" for n in range(20)]
        near.leave()
        far.leave()
        await task
