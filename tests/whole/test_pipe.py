"""Pipe mode from outside: a script's input and output, and its errors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from bot.app import VERSION
from tests.fakes.openai_server import Answer, Body, Call, Fail, Hang, OpenAIServer, Received, Say
from tests.whole.forks import RUN_MAIN
from tests.whole.process import run_here, talking
from tests.whole.requests import with_plugin
from tests.whole.testbot import run_bot

LONGEST_LINE = 20
SHORT_LINE = f"from bot import turns\nturns.LONGEST_LINE = {LONGEST_LINE}\n{RUN_MAIN}"
LONG_ENOUGH = 60  # messages: more than a conversation's queue holds


def echo(request: Received) -> Answer:
    """A model that repeats the question; "hang" is never answered."""
    asked = request.body["messages"][-1]["content"]
    return Hang("Let me think") if asked == "hang" else Say(f"re: {asked}")


def rows(folder: Path, query: str) -> list[tuple[Any, ...]]:
    """Return rows from the database of a bot that has ended."""
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database:
        return database.execute(query).fetchall()


def texts(folder: Path) -> list[str]:
    """Return the transcript's texts, in order."""
    return [text for (text,) in rows(folder, "SELECT text FROM message ORDER BY id")]


def daily_memory(folder: Path) -> str:
    """Return the text of the daily memory files."""
    return "".join(file.read_text() for file in folder.glob("data/audiences/*/memory/*.md"))


# What is said and what comes back


@pytest.mark.usefixtures("processes")
async def test_a_message_is_confirmed_and_then_answered_and_a_command_is_no_turn(
    tmp_path: Path,
) -> None:
    script = [Say("Hello!\nAnd “welcome”.")]
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as bot:
        await bot.tell("Hi", chat="door", id=7)
        await bot.reply_to(7)
        command = await bot.says("/context")
        assert await bot.ended() == 0
    assert bot.lines[:2] == [
        {"accepted": 7},
        {
            "reply_to": 7,
            "chat": "door",
            "turn": "t1",
            "text": "Hello!\nAnd “welcome”.",
            "data": None,
        },
    ]
    assert command["turn"] is None
    assert command["data"]["max_turns"] == 20
    assert bot.errors == ""


@pytest.mark.usefixtures("processes")
async def test_a_flood_in_one_chat_holds_up_no_other_and_can_be_stopped(tmp_path: Path) -> None:
    async with (
        OpenAIServer(echo) as endpoint,
        talking(tmp_path, endpoint, program=SHORT_LINE) as bot,
    ):
        await bot.tell("hang", chat="a", id="slow")
        await endpoint.reached.acquire()
        for number in range(LONG_ENOUGH):
            await bot.tell(f"m{number}", chat="a", id=number)
        for number in range(20):
            chat = f"other {number}"
            assert (await bot.says(f"quick {number}", chat=chat))["text"] == f"re: quick {number}"
        accepted = {line["accepted"] for line in bot.lines if "accepted" in line}
        assert LONGEST_LINE - 5 <= len(accepted & {*range(LONG_ENOUGH)}) <= LONGEST_LINE
        assert (await bot.says("/stop", chat="a"))["text"]
        assert await bot.ended() == 0
    replies = [reply["reply_to"] for reply in bot.replies if reply["chat"] == "a"]
    assert [reply for reply in replies if isinstance(reply, int)] == [*range(LONG_ENOUGH)]


# Bad lines


BAD_LINES = {
    b"hello": "not JSON",
    b'{"text": "cut': "not JSON",
    b'{"text": "\\ud800"}': "not JSON",
    b"[" * 5_000: "not JSON",
    b"\x00": "not JSON",
    b"[]": '"text"',
    b'"text"': '"text"',
    b"{}": '"text"',
    b'{"text": 5, "id": 1}': '"text"',
    b'{"text": null}': '"text"',
    b'{"text": "x", "id": 1.5}': '"id"',
    b'{"text": "x", "id": true}': '"id"',
    b'{"text": "x", "id": 36893488147419103232}': '"id"',
    b'{"text": "x", "chat": {}}': '"chat"',
    b'{"text": "x", "user": []}': '"user"',
    b'{"text": "x", "attachments": "a.png"}': '"attachments"',
    b'{"text": "x", "attachments": [{"name": "a.png"}]}': '"attachments"',
    b'{"text": "x", "attachments": [{"path": 5}]}': '"attachments"',
    b'{"text": "x", "attachments": [{"path": "/no/such/file"}]}': "no file '/no/such/file'",
    b'{"text": "x", "attachments": [{"path": "/dev/zero"}]}': "no file '/dev/zero'",
    b'{"text": "x", "attachments": [{"path": "/"}]}': "no file '/'",
    b'{"text": "x", "attachments": [{"path": "%s"}]}' % (b"x" * 5_000): "can't be read",
    b'{"text": "%s"}' % (b"x" * 40_000_000): "longer than 16 MB",
}


IDS = [7, "7", 0, -1, "", "é\n\x00", 2**63, "null", "x" * 10_000]


@pytest.mark.usefixtures("processes")
async def test_each_bad_line_gets_a_sentence_and_ids_of_others_come_back_as_they_came(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path) as bot:
        await bot.write(b"\n".join((*BAD_LINES, b"", b"   ", b"\r", b'{"text": "/version"}\r\n')))
        await bot.write(b'{"text": "/version", "id": null}\n')
        for own_id in IDS:
            await bot.tell("/version", id=own_id)
        assert await bot.ended() == 0
    complaints = [line["error"] for line in bot.lines if "error" in line]
    for complaint, (line, told) in zip(complaints, BAD_LINES.items(), strict=True):
        assert told in complaint, line[:100]
        assert "\n" not in complaint
    assert {reply["text"] for reply in bot.replies} == {f"Parley {VERSION}"}
    accepted = [line["accepted"] for line in bot.lines if "accepted" in line]
    assert accepted[2:] == IDS
    assert len({*accepted}) == len(accepted), "those without one are given different ones"
    assert sorted(map(repr, accepted)) == sorted(repr(r["reply_to"]) for r in bot.replies)


async def test_a_megabyte_is_kept_whole_and_the_next_message_works(tmp_path: Path) -> None:
    text = "word " * 200_000
    async with run_bot(tmp_path, lambda _: Say("I see.")) as bot:
        told = (await bot.says(text)).text
        assert told.startswith("I see.\n\n(This request was too long")
        assert (await bot.says("And now?")).text == "I see."
        assert "/x" in (await bot.says(f"/x a{' ' * 1_000_000}b")).text
    assert texts(tmp_path)[0] == text


@pytest.mark.usefixtures("processes")
async def test_broken_characters_of_the_person_and_of_the_model_spoil_nothing(
    tmp_path: Path,
) -> None:
    """Some endpoints escape an emoji's two halves in two chunks, or stop between them."""
    chunks = [{"content": "Hi \ud83d"}, {"content": "\ude00 and \ud83d"}]
    events = "".join(
        f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n" for delta in chunks
    )
    end = 'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'

    def script(request: Received) -> Answer:
        is_broken = request.body["messages"][-1]["content"] == "Break!"
        return Body(events + end, "text/event-stream") if is_broken else echo(request)

    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as bot:
        await bot.write(b'{"text": "caf\xe9 \\u0000\\u001b[31m\\u2028!", "id": 1}\n')
        assert (await bot.reply_to(1))["text"] == "re: caf� [31m!"
        assert "empty" in (await bot.says("\x00\x1b", id=2))["text"]
        assert (await bot.says("Break!"))["text"] == "Hi 😀 and �"
        assert (await bot.says("And?"))["text"] == "re: And?"


# Plain lines


@pytest.mark.usefixtures("processes")
async def test_plain_lines_are_answered_plainly_and_what_a_plugin_prints_is_no_reply(
    tmp_path: Path,
) -> None:
    with_plugin(tmp_path, "print('Look at me!')\n", "loud")
    async with OpenAIServer(echo) as endpoint, talking(tmp_path, endpoint, arguments=()) as bot:
        await bot.write('Hi\n\n   \n{"text": "x"}\r\n/version\nlast, mit Ü'.encode())
        assert await bot.ended() == 0
    said = b"".join(bot.out).decode()
    assert sorted(said.splitlines()) == [
        f"Parley {VERSION}",
        "re: Hi",
        "re: last, mit Ü",
        're: {"text": "x"}',
    ]
    assert bot.errors == "Look at me!\n"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [((), 1, []), (("--jsonl",), 0, ["command_refused", "upstream"])],
    ids=["plain lines", "JSON lines"],
)
async def test_a_script_is_told_that_there_is_no_answer(
    tmp_path: Path, arguments: tuple[str, ...], code: int, problem: list[str]
) -> None:
    lines = b"Hi\n/nonsense\n"
    if arguments:
        lines = b'{"text": "Hi"}\n{"text": "/nonsense"}\n{"text": "/version"}\n'
    async with (
        OpenAIServer([Fail(401, "no")]) as endpoint,
        talking(tmp_path, endpoint, arguments=arguments) as bot,
    ):
        await bot.write(lines)
        assert await bot.ended() == code
    if arguments:
        told = [line.get("problem") for line in bot.replies]
        assert sorted(filter(None, told)) == problem
        assert None in told


# Its end


@pytest.mark.usefixtures("processes")
async def test_at_the_end_of_input_all_is_finished_also_summaries(tmp_path: Path) -> None:
    settings = {"agent_max_context_turns": 3}

    def script(request: Received) -> Say:
        task = str(request.body["messages"][0]["content"])
        diary = "\n=== Diary ===\nThey talked on." if "=== Diary ===" in task else ""
        return Say(f"They talked.{diary}" if task.startswith("Summarise") else "I see.")

    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint, settings) as bot:
        for number in range(8):
            await bot.tell(f"message {number}" + " and so on" * 100, id=number)
        assert await bot.ended() == 0
    assert len(bot.replies) == 8
    jobs = rows(tmp_path, "SELECT id, is_done FROM job")
    written = daily_memory(tmp_path)
    assert jobs
    assert all(is_done and f"<!-- job {job} -->" in written for job, is_done in jobs)


@pytest.mark.usefixtures("processes")
async def test_a_turn_that_a_signal_cuts_short_at_the_end_of_input_goes_on_at_the_next_start(
    tmp_path: Path,
) -> None:
    async with OpenAIServer([Hang("Let me"), Say("Here I am again.")]) as endpoint:
        async with talking(tmp_path, endpoint, {"shutdown_timeout": 0}) as bot:
            await bot.tell("Hello?", id="q")
            await endpoint.reached.acquire()
            bot.stdin.close()
            bot.process.send_signal(signal.SIGINT)
            assert await bot.gone() == 0
        assert bot.lines == [{"accepted": "q"}]
        assert bot.errors == ""
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 0
    (reply,) = bot.lines
    assert (reply["reply_to"], reply["text"]) == ("q", "Here I am again.")
    assert texts(tmp_path) == ["Hello?", "Here I am again."]


SLEEPER = """
import time

from plugins.api import hookimpl, tool

@tool
def sleep() -> str:
    \"\"\"Sleep for longer than anybody waits.\"\"\"
    time.sleep(3_600)
    return "rested"

@hookimpl
def parley_tools():
    return [sleep]
"""


@pytest.mark.usefixtures("processes")
async def test_a_signal_does_not_wait_for_a_tool_that_does_not_return(tmp_path: Path) -> None:
    with_plugin(tmp_path, SLEEPER, "sleeper")
    asleep = Say(calls=tuple(Call("sleep", "{}", f"c{number}") for number in range(20)))

    def script(request: Received) -> Answer:
        return asleep if request.body["messages"][-1]["content"] == "Sleep" else Say("Yes.")

    hurried = {"shutdown_timeout": 0}
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint, hurried) as bot:
        await bot.tell("Sleep", chat="a")
        await endpoint.reached.acquire()
        assert (await bot.says("word " * 100_000, id="b", chat="b"))["text"] == "Yes."
        bot.process.send_signal(signal.SIGTERM)
        assert await bot.gone() == 0


@pytest.mark.usefixtures("processes")
async def test_a_signal_lets_a_turn_finish_that_is_about_to(tmp_path: Path) -> None:
    whole = "All of it. " * 500
    script = [Say(whole, pieces=500)]
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as bot:
        await bot.tell("Hello?")
        await endpoint.reached.acquire()
        bot.process.send_signal(signal.SIGTERM)
        assert await bot.gone() == 0
    assert [reply["text"] for reply in bot.replies] == [whole]


@pytest.mark.usefixtures("processes")
async def test_when_nobody_reads_any_more_it_stops_and_tells_the_rest_at_the_next_start(
    tmp_path: Path,
) -> None:
    reader, writer = os.pipe()
    async with OpenAIServer(echo) as endpoint:
        async with talking(tmp_path, endpoint, stdout=writer) as bot:
            os.close(writer)
            await bot.tell("one", id=1)
            await endpoint.reached.acquire()
            os.close(reader)  # as `| head -1` does
            await bot.tell("two", id=2)
            assert await bot.gone() == 1
        assert "The output can no longer be written" in bot.errors.splitlines()[-1]
        assert "Traceback" not in bot.errors
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 0
    assert {reply["text"] for reply in bot.replies} <= {"re: one", "re: two"}
    assert all(reply["resent"] for reply in bot.replies if reply["reply_to"] == 1)
    assert texts(tmp_path)[0] == "one"


@pytest.mark.usefixtures("processes")
async def test_it_can_be_stopped_while_its_reader_is_asleep(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    long = "x" * 300_000  # more than a pipe holds
    async with OpenAIServer(lambda _: Say(long)) as endpoint:
        async with talking(tmp_path, endpoint, {"shutdown_timeout": 1}, stdout=writer) as bot:
            os.close(writer)
            await bot.tell("Hi", id=1)
            while b"xxx" not in await asyncio.to_thread(os.read, reader, 100):
                pass
            bot.process.send_signal(signal.SIGTERM)
            assert await bot.gone() == 0
        os.close(reader)
        async with talking(tmp_path, endpoint) as bot:
            assert await bot.ended() == 0
    assert [(reply["text"], reply["resent"]) for reply in bot.replies] == [(long, True)]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("streams", ["<&-", ">/dev/full"])
async def test_streams_that_are_not_there_are_told_in_one_sentence(
    tmp_path: Path, streams: str
) -> None:
    async with talking(tmp_path, shell=f'exec "$@" {streams}') as bot:
        await bot.write(b"hello\n")
        assert await bot.ended() == 1
    assert "put" in bot.errors  # input or output
    assert bot.errors.count("\n") == 1


# A start that fails


def refused(folder: Path) -> str:
    """Return the one line printed by a start that fails, with the exit code before it."""
    done = run_here(folder, "--jsonl")
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    return f"{done.returncode}: {done.stderr}"


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{", "not valid JSON"),
        ('{"agent_max_turns": 5}', "did you mean 'agent_max_context_turns'?"),
        ('{"agent_max_steps": 0}', "agent_max_steps in config.json is 0"),
        ('{"system_prompt": "gone.md"}', "gone.md"),
        (None, "config.json (the configuration) was not found"),
    ],
)
def test_a_wrong_configuration_is_told_in_one_sentence(
    tmp_path: Path, written: str | None, told: str
) -> None:
    if written is not None:
        (tmp_path / "config.json").write_text(written)
    line = refused(tmp_path)
    assert line.startswith("2: ")
    assert told in line


@pytest.mark.usefixtures("processes")
async def test_a_second_bot_on_the_same_folder_says_so_and_the_first_goes_on(
    tmp_path: Path,
) -> None:
    script = [Say("Still here.")]
    async with OpenAIServer(script) as endpoint, talking(tmp_path, endpoint) as first:
        await first.says("/version")
        async with talking(tmp_path, endpoint) as second:
            assert await second.ended() == 1
        assert "Another Parley is running on the data folder" in second.errors
        assert second.errors.count("\n") == 1
        assert (await first.says("Hello?"))["text"] == "Still here."


def _under(data: Path, name: str) -> Path:
    data.mkdir()
    return data / name


def _from_the_future(data: Path) -> None:
    with closing(sqlite3.connect(_under(data, "parley.db"))) as connection:
        connection.execute("PRAGMA user_version = 1000")


SPOILERS: dict[str, Callable[[Path], object]] = {
    "a file in place of the folder": lambda data: data.write_text(""),
    "a file in place of the logs": lambda data: _under(data, "logs").write_text(""),
    "a folder in place of the lock": lambda data: _under(data, "lock").mkdir(),
    "a folder in place of the database": lambda data: _under(data, "parley.db").mkdir(),
    "not a database": lambda data: _under(data, "parley.db").write_bytes(b"garbage" * 1_000),
    "a database of a newer Parley": _from_the_future,
}


@pytest.mark.parametrize("spoiler", SPOILERS)
def test_a_data_folder_that_is_no_good_is_told_in_one_sentence(
    tmp_path: Path, spoiler: str
) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini"}')
    SPOILERS[spoiler](tmp_path / "data")
    line = refused(tmp_path)
    assert line.startswith("1: ")
    assert str(tmp_path / "data") in line


@pytest.mark.usefixtures("processes")
async def test_on_a_full_disk_nothing_is_confirmed_and_what_was_is_kept(tmp_path: Path) -> None:
    """No file may grow beyond a megabyte here: for SQLite that is a disk failure."""
    long = "word " * 60_000
    async with OpenAIServer(lambda _: Say("Noted.")) as endpoint:
        async with talking(tmp_path, endpoint, shell='ulimit -f 2000; exec "$@"') as bot:
            assert (await bot.says("short", id=0))["text"] == "Noted."
            refused = [(await bot.says(long, id=number))["text"] for number in range(1, 5)][-1]
            assert "could not be saved: the disk" in refused
            assert await bot.ended() == 0
        accepted = [line["accepted"] for line in bot.lines if "accepted" in line]
        assert accepted[0] == 0
        assert len(accepted) < 5
        async with talking(tmp_path, endpoint) as bot:
            assert (await bot.says("Now?"))["text"] == "Noted."
    said = [text for text in texts(tmp_path) if text != "Noted."]
    assert said == ["short", *[long] * (len(accepted) - 1), "Now?"]
