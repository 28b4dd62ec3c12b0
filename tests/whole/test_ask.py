"""`main.py ask`: one question from a script, as a real process, with its streams and exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Hang, OpenAIServer, Received, Say
from tests.waiting import PATIENCE
from tests.whole.forks import Fork, fork
from tests.whole.process import run_here

pytestmark = pytest.mark.usefixtures("processes")

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(60)


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    errors: str


@asynccontextmanager
async def started(
    folder: Path, url: str, *arguments: str, stdin: int = PIPE
) -> AsyncIterator[Fork]:
    config = folder / "config.json"
    if not config.exists():
        config.write_text('{"model": "gpt-4o-mini"}')
    environ = os.environ | {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": url}
    streams = (stdin, PIPE, PIPE)
    process = await fork(("ask", *arguments), environ, streams=streams, folder=folder)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def ask(folder: Path, url: str, *arguments: str, piped: bytes | None = None) -> Ran:
    """Call it; without `piped`, its standard input is /dev/null."""
    stdin = DEVNULL if piped is None else PIPE
    async with started(folder, url, *arguments, stdin=stdin) as process:
        async with asyncio.timeout(PATIENCE):
            out, errors = await process.communicate(piped)
        assert process.returncode is not None
        return Ran(process.returncode, out.decode(), errors.decode())


def texts(request: Received) -> list[str]:
    """Return the texts of the messages of a request, without the system prompt."""
    return [str(message["content"]) for message in request.body["messages"][1:]]


async def test_a_question_and_what_is_piped_in_are_one_message(tmp_path: Path) -> None:
    async with OpenAIServer([Say("It is **short**."), Say("No.")]) as server:
        ran = await ask(tmp_path, server.base_url, "Sum", "it", "up", piped=b"a long text\n")
        assert ran == Ran(0, "It is **short**.\n", "")
        assert texts(server.requests[0]) == ["Sum it up\n\na long text"]
        again = await ask(tmp_path, server.base_url, "What did I say?")
        assert (again.code, again.out) == (0, "No.\n")
        assert texts(server.requests[1]) == ["What did I say?"], "each stands alone"


async def test_a_named_chat_goes_on_and_json_has_the_figures(tmp_path: Path) -> None:
    async with OpenAIServer([Say("One."), Say("Two.")]) as server:
        first = await ask(tmp_path, server.base_url, "--chat", "trip", "--json", "first")
        second = await ask(tmp_path, server.base_url, "--chat", "trip", "--json", "second")
        assert texts(server.requests[1]) == ["first", "One.", "second"]
    answers: list[dict[str, Any]] = [json.loads(first.out), json.loads(second.out)]
    assert [one["text"] for one in answers] == ["One.", "Two."]
    assert [one["turn"] for one in answers] == ["t1", "t2"]
    for one in answers:
        assert one["chat"] == "trip"
        assert one["problem"] == ""
        assert one["usage"]["prompt"] > 0
        assert 0 < one["cost"] < 0.01


async def test_without_an_answer_the_code_is_1_and_stderr_says_why(tmp_path: Path) -> None:
    nobody = "http://127.0.0.1:9/v1"
    ran = await ask(tmp_path, nobody, "Hi")
    assert (ran.code, ran.out) == (1, "")
    assert ran.errors.startswith("Can't connect to http://127.0.0.1:9/v1;")
    ran = await ask(tmp_path, nobody, "Hi", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["problem"] == "unavailable"


async def test_a_command_is_answered_without_a_model_and_one_that_is_refused_is_no_answer(
    tmp_path: Path,
) -> None:
    async with OpenAIServer([]) as server:
        ran = await ask(tmp_path, server.base_url, "/context drop t9")
        assert (ran.code, ran.out) == (1, "")
        assert "t9" in ran.errors
        told = await ask(tmp_path, server.base_url, "--json", "/nonsense")
        assert told.code == 1
        assert json.loads(told.out)["problem"] == "command_refused"
        done = await ask(tmp_path, server.base_url, "/context")
        assert (done.code, done.errors) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "There is no question; write one"),
        (("-f", "missing.txt", "Hi"), "There is no file 'missing.txt' to attach."),
        (("-f", "/dev/zero", "Hi"), "There is no file '/dev/zero' to attach."),
    ],
)
def test_a_call_that_can_t_be_meant_is_corrected_before_anything_is_asked(
    arguments: tuple[str, ...], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini"}')
    ran = run_here(tmp_path, "ask", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert complaint in ran.stderr
    assert not (tmp_path / "data").exists()


async def test_files_and_piped_bytes_go_with_the_question(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    async with OpenAIServer([Say("Seen.")]) as server:
        ran = await ask(tmp_path, server.base_url, "-f", "notes.txt", "Look", piped=PICTURE)
        assert ran.code == 0
        content = server.requests[0].body["messages"][1]["content"]
    kinds = [part["type"] for part in content]
    assert sorted(kinds) == ["image_url", "text"]
    assert "[file: files/notes.txt" in str(content)


async def test_a_tool_that_asks_first_is_refused_at_once_since_nobody_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "config.json").write_text('{"model": "gpt-4o-mini", "tools": {"shell": true}}')
    answers: list[Answer] = [Say(calls=(Call("shell", '{"command": "id"}', "c1"),)), Say("Well.")]
    async with OpenAIServer(answers) as server:
        ran = await ask(tmp_path, server.base_url, "Who am I?")
        assert "the person said no" in texts(server.requests[1])[-1]
    assert (ran.code, ran.out) == (0, "Well.\n")
    assert "Not allowed, since nobody could be asked: Allow the model to do this?" in ran.errors


async def test_ctrl_c_ends_it_and_nothing_is_asked_again_at_the_next_start(tmp_path: Path) -> None:
    answers: list[Answer] = [Hang("Half"), Say("Fine.")]
    async with OpenAIServer(answers) as server:
        async with started(tmp_path, server.base_url, "Hi", stdin=DEVNULL) as process:
            async with asyncio.timeout(PATIENCE):
                await server.reached.acquire()
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(PATIENCE):
                out, _ = await process.communicate()
            assert (process.returncode, out) == (130, b"")
        ran = await ask(tmp_path, server.base_url, "And now?")
        assert (ran.code, ran.out) == (0, "Fine.\n")
        assert texts(server.requests[1]) == ["And now?"]
