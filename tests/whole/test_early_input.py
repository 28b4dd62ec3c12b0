"""The input line of a terminal is ready before the bot is loaded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from bot.data_folder import lock_data_folder
from bot.sending import dump_reply
from channels.message import Reply
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, OutboxRow
from memory.record.store import Store
from tests.fakes.openai_server import Answer, Hang, OpenAIServer, Received, Say, echo
from tests.waiting import until
from tests.whole.pseudo_terminal import Sitter, sitting

pytestmark = pytest.mark.usefixtures("processes")

HOLDING = """
import sys, time
from pathlib import Path

while not Path("go").exists():
    time.sleep(0.01)
sys.path.remove(str(Path(__file__).parent))
del sys.modules["peewee"]
import peewee
"""
"""A package found before the one that the bot needs; it loads the real one once the file `go`
exists."""


async def begin(folder: Path, *left: OutboxRow) -> None:
    """Make a folder of a bot that was used and has these unsent replies."""
    (folder / "config.json").write_text('{"model": "gpt-4o-mini"}')
    (folder / "data").mkdir(mode=0o700)
    (folder / "data" / "terminal_history").touch()
    store = await Store.open(folder / "data" / "parley.db")
    for row in left:
        await store.write(partial(mailbox.enqueue_reply, reply=row))
    await store.close()
    (folder / "python").mkdir()
    (folder / "python" / "peewee.py").write_text(HOLDING)


@asynccontextmanager
async def early(
    folder: Path,
    endpoint: OpenAIServer | None = None,
    arguments: tuple[str, ...] = (),
    editor: str = "",
) -> AsyncIterator[Sitter]:
    """A person who sees the input line of a bot that is not loaded until the file `go` exists."""
    environ = {"PYTHONPATH": str(folder / "python"), "EDITOR": editor}
    async with sitting(
        folder, endpoint, environ=environ, arguments=arguments, afresh=True
    ) as person:
        await person.sees("›")
        yield person


def go(folder: Path) -> None:
    (folder / "go").touch()


def is_cooked(person: Sitter) -> bool:
    """Return whether the terminal echoes input and handles Ctrl-C as a signal, as before."""
    flags = termios.tcgetattr(person.keyboard)[3]
    return bool(flags & termios.ICANON and flags & termios.ECHO and flags & termios.ISIG)


def has_open(person: Sitter, file: Path) -> bool:
    """Return whether the bot has started far enough to have this file open."""
    links = Path(f"/proc/{person.process.pid}/fd").iterdir()
    return file in [Path(os.path.realpath(link)) for link in links]


async def test_what_is_sent_before_the_bot_is_there_is_answered_and_half_a_line_stays(
    tmp_path: Path,
) -> None:
    await begin(tmp_path)
    async with OpenAIServer(echo) as endpoint, early(tmp_path, endpoint) as person:
        person.types("First\r")
        person.types("Second\rAnd a thi")
        await person.sees("› And a thi")
        await person.sees("› Second")
        assert not is_cooked(person)
        go(tmp_path)
        await person.sees("re: Second")
        person.types("rd\r")
        await person.sees("re: And a third")
        assert await person.leaves() == 0
        assert is_cooked(person)
        said = [request.body["messages"][-1]["content"] for request in endpoint.requests]
        assert said == ["First", "Second", "And a third"]
        order = ("Just write", "› First", "re: First", "› Second", "re: Second")
        places = [person.glass.text.rindex(text) for text in order]
        assert places == sorted(places)


async def test_what_was_not_sent_before_comes_when_somebody_listens_and_commands_are_carried_out(
    tmp_path: Path,
) -> None:
    place = AddressColumns("terminal", "main", "", "")
    await begin(tmp_path, OutboxRow(place, "7", "t1", dump_reply(Reply("From before."))))
    async with early(tmp_path) as person:
        person.types("/vers\t")  # the commands are not loaded yet
        person.types("ion\rhalf a li")
        await person.sees("› half a li")
        go(tmp_path)
        await person.sees("From before.")
        await person.sees("Parley 0.", times=2)
        await person.sees("0/20 turns")
        order = ("Just write", "(sent again after a restart)", "From before.", "› half a li")
        places = [person.glass.text.rindex(text) for text in order]
        assert places == sorted(places)
        person.types("\x15")
        assert await person.leaves() == 0


EDITOR = """#!/bin/sh
echo "the editor is open"
while [ ! -e saved ]; do sleep 0.1; done
printf ' and more' >> "$1"
echo "the editor closes"
"""


async def test_what_is_written_in_an_editor_meanwhile_is_waited_for(tmp_path: Path) -> None:
    await begin(tmp_path)
    editor = tmp_path / "editor"
    editor.write_text(EDITOR)
    editor.chmod(0o700)
    async with (
        OpenAIServer(echo) as endpoint,
        early(tmp_path, endpoint, editor=str(editor)) as person,
    ):
        person.types("A draft\x18\x05")
        await person.sees("the editor is open")
        go(tmp_path)
        await until(lambda: has_open(person, tmp_path / "data" / "parley.db"))
        (tmp_path / "saved").touch()
        await person.sees("› A draft and more")
        await person.sees("0/20 turns")
        person.types("\r")
        await person.sees("re: A draft and more")
        raw = person.glass.raw
        assert raw.index("the editor closes") < raw.index("Just write"), "it was not cut off"
        assert await person.leaves() == 0


async def test_who_leaves_before_the_bot_is_there_has_left(tmp_path: Path) -> None:
    await begin(tmp_path)
    async with early(tmp_path) as person:
        person.types("\x04")
        go(tmp_path)
        assert await person.ended() == 0
        assert is_cooked(person)


async def test_a_refusal_stands_where_the_line_was(tmp_path: Path) -> None:
    await begin(tmp_path)
    with lock_data_folder(tmp_path / "data"):
        async with early(tmp_path) as person:
            person.types("Hello?")
            go(tmp_path)
            assert await person.ended() == 1
            await person.sees("Another Parley is running")
            assert "Traceback" not in person.glass.text
            assert is_cooked(person)


async def test_a_process_that_is_ended_meanwhile_leaves_the_terminal_as_it_was(
    tmp_path: Path,
) -> None:
    await begin(tmp_path)
    async with early(tmp_path) as person:
        os.kill(person.process.pid, signal.SIGTERM)
        assert await person.ended() == 128 + signal.SIGTERM
        assert is_cooked(person)


async def test_once_the_bot_is_there_signals_do_what_they_always_did(tmp_path: Path) -> None:
    await begin(tmp_path)
    async with early(tmp_path) as person:
        go(tmp_path)
        await person.sees("0/20 turns")
        os.kill(person.process.pid, signal.SIGHUP)
        assert await person.ended() == -signal.SIGHUP


async def test_questions_of_the_set_up_are_asked_without_it(tmp_path: Path) -> None:
    await begin(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "data" / "parley.db").unlink()
    async with early(tmp_path) as person:
        go(tmp_path)
        await person.sees("Number [1]")
        person.types("1\r")
        await person.sees("0/20 turns")
        assert await person.leaves() == 0
        assert is_cooked(person)


@pytest.mark.parametrize("arguments", [("doctor",), ("--nonsense",)])
async def test_other_starts_have_no_line(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    await begin(tmp_path)
    go(tmp_path)
    async with sitting(tmp_path, arguments=arguments, afresh=True) as person:
        await person.ended()
        assert "›" not in person.glass.raw


async def test_a_terminal_that_can_only_be_written_on_waits_for_the_bot(tmp_path: Path) -> None:
    await begin(tmp_path)
    go(tmp_path)
    async with sitting(tmp_path, environ={"TERM": "dumb"}, afresh=True) as person:
        await person.sees("Just write")
        person.types("/version\r")
        await person.sees("Parley 0.", times=2)
        assert await person.leaves() == 0


MAIN = Path(__file__).resolve().parents[2] / "main.py"


async def test_ctrl_c_after_ctrl_d_ends_the_waiting(tmp_path: Path) -> None:
    """The end waits for running work, including background work; a signal interrupts it."""
    (tmp_path / "config.json").write_text(
        json.dumps({"model": "gpt-4o-mini", "shutdown_timeout": 0})
    )

    def script(request: Received) -> Answer:
        last = str(request.body["messages"][-1]["content"])
        return Say("word " * 300) if last.startswith("Say") else Hang("")

    async with OpenAIServer(script) as endpoint, sitting(tmp_path, endpoint, afresh=True) as person:
        for number in range(4):
            person.types(f"Say {number}\r")
            await person.sees(f"{number + 1}/20 turns")
        person.types("/context compact\r")
        await endpoint.reached.acquire()
        await person.sees("answers.")
        person.types("\x04")
        await person.sees("To continue:")
        os.kill(person.process.pid, signal.SIGINT)
        assert await person.ended() == 0


def test_ctrl_c_while_the_program_loads_ends_it_without_a_word(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(MAIN), "--web", "--data", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        # Each module is named once it is loaded, so the others are still missing.
        told = [next(line for line in process.stderr if "agent.models" in line)]
        process.send_signal(signal.SIGINT)
        told += process.stderr
    assert process.returncode == -signal.SIGINT
    assert all(line.startswith("import time:") for line in told), "".join(told[-20:])
