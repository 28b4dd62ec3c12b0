"""Tests of the transport of requests to an endpoint, and of the events that it returns."""

from __future__ import annotations

import asyncio
import errno
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from openai._streaming import SSEDecoder

from agent.models import wire
from agent.models.base import ModelError
from agent.models.endpoint import Endpoint
from agent.models.openai_client import read_places
from agent.models.sdk_client import find_proxy
from agent.models.served import EndpointModel
from agent.tools import child_process
from tests.agent.endpoints import CHAT, HELLO, ask, conversation
from tests.fakes.openai_server import Say

ANSWER = json.dumps({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]})
WHOLE = f"data: {ANSWER}\n\ndata: [DONE]\n\n".encode()
HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nSet-Cookie: id=1\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
HALF_AN_ERROR = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 1000\r\n\r\nNo."


@dataclass
class Counter:
    """A server with the same answer to each request. `requests` has one number for each connection:
    its number of requests. `keeps` says whether a connection stays open, as llama.cpp's does not,
    though its answers don't say so; it closes without an answer if it has none. Each answer sets a
    cookie."""

    keeps: bool = True
    answer: bytes = HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(WHOLE), WHOLE)
    heads: list[bytes] = field(default_factory=list)
    requests: list[int] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        self.requests.append(0)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests[number] += 1
                self.heads.append(head)
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                if not self.answer:
                    break
                writer.write(self.answer[: len(HEAD)])
                await writer.drain()
                await asyncio.sleep(0)  # the answer's end comes by itself, as from a real model
                writer.write(self.answer[len(HEAD) :])
                await writer.drain()
                if not self.keeps:
                    break
        writer.close()


@asynccontextmanager
async def counting(counter: Counter, **more: Any) -> AsyncIterator[EndpointModel]:
    """A model for that server, which retries nothing unless its endpoint says so."""
    async with await asyncio.start_server(counter.serve, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = CHAT.at(url, **more)
        try:
            yield model
        finally:
            await model.close()


async def test_a_connection_is_used_again() -> None:
    counter = Counter()
    async with counting(counter) as model:
        for _ in range(5):
            assert (await ask(model)).text == "Hi."
    assert counter.requests == [5]


async def test_a_server_that_closes_without_a_word_answers_all_the_same() -> None:
    counter = Counter(keeps=False)
    async with counting(counter) as model:
        for _ in range(50):
            assert (await ask(model)).text == "Hi."


async def test_no_cookie_is_sent_back() -> None:
    counter = Counter()
    async with counting(counter) as model:
        for _ in range(3):
            await ask(model)
    assert not any(b"cookie" in head.lower() for head in counter.heads)


async def test_a_server_that_closes_without_an_answer_is_asked_once_more_than_others() -> None:
    counter = Counter(answer=b"")
    async with counting(counter) as model:
        with pytest.raises(ModelError, match="connect"):
            await ask(model)
    assert len(counter.heads) == 2
    counter.heads.clear()
    async with counting(counter, max_retries=1) as model:
        with pytest.raises(ModelError, match="connect"):
            await ask(model)
    assert len(counter.heads) == 3


async def test_a_refusal_that_breaks_off_is_an_error_with_a_sentence() -> None:
    async with counting(Counter(keeps=False, answer=HALF_AN_ERROR)) as model:
        with pytest.raises(ModelError, match="connect"):
            await ask(model)


def test_proxies_are_those_of_http_and_none_to_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    there = Endpoint("m", "https://models.example/v1")
    assert find_proxy(there) is None
    for odd in ("socks://127.0.0.1:1080/", "socks5://127.0.0.1:1080"):
        monkeypatch.setenv("all_proxy", odd)
        assert find_proxy(there) is None
    for odd in ("http://[broken", "http://proxy.example:port"):
        monkeypatch.setenv("https_proxy", odd)
        assert find_proxy(there) is None
    for said in ("http://proxy.example:3128", "proxy.example:3128"):
        monkeypatch.setenv("https_proxy", said)
        assert find_proxy(there) == "http://proxy.example:3128"
    assert find_proxy(Endpoint("m", "http://127.0.0.1:8080/v1")) is None
    monkeypatch.setenv("no_proxy", "models.example")
    assert find_proxy(there) is None


async def test_a_request_with_a_header_of_its_own_is_no_pattern_for_others() -> None:
    script = [Say("One."), Say("Two."), Say("Three.")]
    async with conversation(CHAT, *script, provider="xai") as (server, model):
        for affinity in ("a", "", "b"):
            await ask(model, replace(HELLO, affinity=affinity))
        assert [one.headers.get("x-grok-conv-id") for one in server.requests] == ["a", None, "b"]


# --- the events of a stream ---

STREAM = (
    b'data: {"a": 1}\n\n',
    b": a comment\r\n",
    b"event: ping\rid: 7\r\n",
    b"data:{}\r\r",
    "data: Привет\r\n\r\n".encode(),
    b"data: one\ndata:  two\n\n",
    b"\n\r\n\r",
    b"data: 1",
)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(STREAM), max_size=12), st.data())
async def test_events_are_the_same_however_their_bytes_are_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)])]
    assert await events_of(pieces) == await events_of([stream]) == await sdk_events_of(stream)


async def body_of(pieces: list[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def events_of(pieces: list[bytes]) -> list[bytes]:
    response = httpx2.Response(200, content=body_of(pieces))
    came = [events async for events in wire.events(response, wire.Progress(60))]
    return [event for events in came for event in events]


async def sdk_events_of(stream: bytes) -> list[bytes]:
    """Return the events that the official SDK makes of it."""
    events = SSEDecoder().aiter_bytes(body_of([stream]))
    return [sse.data.encode() async for sse in events if sse.data]


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES, errno.ESRCH])
def test_a_process_that_is_gone_needs_no_signal(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Windows reports that the process id is invalid, or that terminating it is not permitted."""
    ended: list[int] = []

    def kill(process: int, signal: int) -> None:
        ended.append(process)
        raise OSError(number, "gone")

    monkeypatch.setattr(child_process, "HAS_GROUPS", False)
    monkeypatch.setattr("agent.tools.child_process.os.kill", kill)
    child_process.end_group(4_000_000)
    assert ended == [4_000_000]


ROOT = Path(__file__).resolve().parents[2]
LOOK = """
import ast, json, pkgutil, sys
from importlib import import_module
said = {"loaded": len([one for one in sys.modules if one.startswith("openai.types")])}
import openai.types.chat
try:
    openai.types.chat.NoSuchThing
except AttributeError as error:
    said["error"] = str(error)
from openai.types.shared import *
said["fields"] = [*Reasoning.model_fields]
said["dir"] = len(dir(openai.types.chat)) > 50
found = said["found"] = {}
names = ["openai.types", *(one.name for one in pkgutil.walk_packages(
    openai.types.__path__, "openai.types.") if one.ispkg)]
for name in names:
    package = import_module(name)
    source = open(package.__file__).read()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and statement.level:
            for one in statement.names:
                value = getattr(package, one.asname or one.name)
                home = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
                found[f"{name} {one.asname or one.name}"] = [*home, str(type(value))]
json.dump(said, sys.stdout)
"""


def look_after(statement: str) -> dict[str, Any]:
    """Return the output of a separate Python about the SDK after this import."""
    command = [sys.executable, "-c", f"{statement}\n{LOOK}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.usefixtures("processes")
def test_every_name_leads_to_what_it_always_was_and_nearly_none_is_loaded_before() -> None:
    whole, one_by_one = look_after("import openai"), look_after("import agent.models.openai_client")
    assert whole.pop("loaded") > 400
    assert one_by_one.pop("loaded") < 80
    assert len(whole["found"]) > 1_000
    assert whole["dir"]
    assert one_by_one == whole


def test_a_package_that_does_more_than_to_import_is_run_whole() -> None:
    assert read_places("from .a import B as B\nfrom ..c import D") == {
        "B": (".a", "B"),
        "D": ("..c", "D"),
    }
    assert read_places("from .a import B\nB.model_rebuild()") is None
    assert read_places("from .a import *") is None
    assert read_places("import os") is None
