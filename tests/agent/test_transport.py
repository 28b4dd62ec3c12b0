"""How requests get to an endpoint: the same the second time, over connections that are kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from agent.models.anthropic import AnthropicModel
from agent.models.base import ModelError, ModelRequest
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.served import EndpointModel
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.openai_server import Fail, OpenAIServer, Say

HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])
ANSWER = json.dumps({"choices": [{"delta": {"content": "Hi."}, "finish_reason": "stop"}]})
STREAM = f"data: {ANSWER}\n\ndata: [DONE]\n\n".encode()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass
class Counter:
    """A server that answers each request alike. `requests` has one number for each connection: how
    many requests came by it. `keeps` is asked after each answer whether the connection stays,
    `hangs_up` before each whether it is closed without one."""

    keeps: Callable[[], bool] = lambda: True
    hangs_up: Callable[[], bool] = lambda: False
    requests: list[int] = field(default_factory=list)
    url: str = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.requests)
        self.requests.append(0)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests[number] += 1
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                if self.hangs_up():
                    break
                writer.write(HEAD)
                await writer.drain()
                await asyncio.sleep(0)  # the answer's end comes by itself, as from a real model
                writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(STREAM), STREAM))
                await writer.drain()
                if b"connection: close" in head.lower() or not self.keeps():
                    break
        writer.close()


@asynccontextmanager
async def counting(counter: Counter) -> AsyncIterator[EndpointModel]:
    """A model behind that server, which tries nothing again."""
    async with await asyncio.start_server(counter.serve, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = OpenAIModel(Endpoint("m", url, max_retries=0, timeout=5))
        try:
            yield model
        finally:
            await model.close()


async def ask(model: EndpointModel) -> str:
    return (await model.reply(HELLO, lambda _: None)).text


async def ask_until(model: EndpointModel, is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not is_so():
            assert await ask(model) == "Hi."


async def test_connections_are_used_again_once_the_server_is_seen_to_keep_them() -> None:
    counter = Counter()
    async with counting(counter) as model:
        await ask_until(model, lambda: max(counter.requests, default=0) > 5)


async def test_a_server_that_closes_without_a_word_gets_a_connection_for_each_request() -> None:
    counter = Counter(keeps=lambda: False)
    async with counting(counter) as model:
        await ask_until(model, lambda: len(counter.requests) > 100)
        await ask_until(model, lambda: len(counter.requests) > 200)
    assert set(counter.requests) == {1}


async def test_a_request_on_a_connection_that_is_just_closed_goes_by_a_new_one() -> None:
    counter = Counter()
    async with counting(counter) as model:
        await ask_until(model, lambda: max(counter.requests, default=0) > 5)
        refused: list[bool] = []
        counter.hangs_up = lambda: not refused and not refused.append(True)  # type: ignore[func-returns-value]
        assert await ask(model) == "Hi."
        assert refused == [True]
        before = len(counter.requests)
        await ask_until(model, lambda: len(counter.requests) > before + 5)
        assert set(counter.requests[before:]) == {1}  # it is not trusted again


@pytest.mark.parametrize("kind", [OpenAIServer, AnthropicServer])
async def test_later_requests_say_what_the_first_one_has_said(
    kind: type[OpenAIServer] | type[AnthropicServer],
) -> None:
    make = OpenAIModel if kind is OpenAIServer else AnthropicModel
    async with kind([Say("One."), Say("Two."), Say("Three.")]) as server:
        model = make(Endpoint("fake-model", server.base_url, "key"))
        for text in ("One.", "Two.", "Three."):
            assert await ask(model) == text
        await model.close()
        first, *later = [one.headers for one in server.requests]
    left_out = {"Connection"}  # which is about the way, not about what is said
    for headers in later:
        assert {k: v for k, v in headers.items() if k not in left_out} == {
            k: v for k, v in first.items() if k not in left_out
        }


async def test_a_request_with_a_header_of_its_own_is_no_pattern_for_others() -> None:
    async with OpenAIServer([Say("One."), Say("Two."), Say("Three.")]) as server:
        model = OpenAIModel(Endpoint("fake-model", server.base_url, "key", provider="xai"))
        for affinity in ("a", "", "b"):
            await model.reply(replace(HELLO, affinity=affinity), lambda _: None)
        await model.close()
        said = [one.headers.get("x-grok-conv-id") for one in server.requests]
    assert said == ["a", None, "b"]


async def test_a_later_request_that_fails_is_sent_no_more_often_than_the_sdk_would() -> None:
    busy = Fail(503, {"message": "busy"}, {"Retry-After-Ms": "1"})
    async with OpenAIServer([Say("One."), busy, busy, busy, Say("Two.")]) as server:
        model = OpenAIModel(Endpoint("fake-model", server.base_url, "key", max_retries=2))
        await ask(model)
        with pytest.raises(ModelError, match="503"):
            await ask(model)
        assert len(server.requests) == 1 + 3
        counts = [one.headers.get("x-stainless-retry-count") for one in server.requests]
        assert counts == ["0", "0", "1", "2"]
        assert await ask(model) == "Two."
        await model.close()
