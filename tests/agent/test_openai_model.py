"""The OpenAI-compatible model: the real SDK against a strict loopback server."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai._streaming import SSEDecoder

from agent.models import failures, wire
from agent.models.base import (
    ContextOverflow,
    ModelReply,
    ModelRequest,
    Usage,
)
from agent.models.openai import Endpoint, OpenAIModel
from tests.fakes.openai_server import (
    Answer,
    Body,
    Call,
    Fail,
    OpenAIServer,
    Say,
    llama_overflow,
)

KEY = "sk-secret-0123456789"
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}


def model_at(server: OpenAIServer, **settings: Any) -> OpenAIModel:
    usual: dict[str, Any] = {"api_key": KEY, "timeout": 5.0, "max_retries": 0}
    return OpenAIModel(Endpoint("fake-model", server.base_url, **(usual | settings)))


@asynccontextmanager
async def conversation(
    *script: Answer, **settings: Any
) -> AsyncIterator[tuple[OpenAIServer, OpenAIModel]]:
    """A server with a script, and a model in front of it."""
    async with OpenAIServer(script) as server:
        model = model_at(server, **settings)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: OpenAIModel, request: ModelRequest = HELLO) -> tuple[ModelReply, list[str]]:
    """The reply, and the pieces in which it streamed."""
    pieces: list[str] = []
    return await model.reply(request, pieces.append), pieces


def body_of(server: OpenAIServer, index: int = -1) -> dict[str, Any]:
    return server.requests[index].body


# --- an answer ---


async def test_the_request_holds_what_was_given_and_nothing_else() -> None:
    request = ModelRequest(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é\u2028"}]
    )
    async with conversation(Say("Yes.")) as (server, model):
        await ask(model, request)
        assert body_of(server) == {
            "model": "fake-model",
            "messages": request.messages,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


async def test_limits_and_a_schema_are_sent_when_they_are_set() -> None:
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    request = ModelRequest(HELLO.messages, max_tokens=64, temperature=0.0, schema=schema)
    async with conversation(Say("{}")) as (server, model):
        await ask(model, request)
        body = body_of(server)
    assert (body["max_tokens"], body["temperature"]) == (64, 0.0)
    assert body["response_format"]["type"] == "json_schema"
    assert body["response_format"]["json_schema"]["schema"] == schema


async def test_usage_tells_what_was_thought_and_what_was_written_into_a_cache() -> None:
    usage = {
        "prompt_tokens": 70,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 10, "cache_write_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    answer = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}], "usage": usage}
    async with conversation(Body(json.dumps(answer), "application/json")) as (_, model):
        reply, _ = await ask(model)
    assert reply.usage == Usage(70, 30, cached=10, written=60, reasoning=20)


async def test_deepseek_tells_in_its_own_way_what_it_had_cached() -> None:
    usage = {"prompt_tokens": 70, "completion_tokens": 3, "prompt_cache_hit_tokens": 64}
    answer = {"choices": [{"message": {"content": "Hi."}, "finish_reason": "stop"}], "usage": usage}
    async with conversation(Body(json.dumps(answer), "application/json")) as (_, model):
        reply, _ = await ask(model)
    assert reply.usage == Usage(70, 3, cached=64)


@pytest.mark.parametrize(
    ("provider", "in_body", "in_header"),
    [("openai", True, False), ("azure", True, False), ("xai", False, True), ("", False, False)],
)
async def test_a_provider_that_wants_to_know_is_told_which_conversation_it_is(
    provider: str, in_body: bool, in_header: bool
) -> None:
    request = replace(HELLO, affinity="abc")
    async with conversation(Say("Hi."), Say("Hi."), provider=provider) as (server, model):
        await ask(model, request)
        received = server.requests[-1]
        assert received.body.get("prompt_cache_key") == ("abc" if in_body else None)
        assert received.headers.get("x-grok-conv-id") == ("abc" if in_header else None)
        await ask(model)
        assert "prompt_cache_key" not in server.requests[-1].body


async def test_an_endpoint_that_does_not_know_the_key_is_asked_without() -> None:
    refused = Fail(400, {"message": "Unrecognized request argument supplied: prompt_cache_key"})
    request = replace(HELLO, affinity="abc")
    async with conversation(refused, Say("Hi."), Say("Hi."), provider="azure") as (server, model):
        for _ in range(2):
            assert (await ask(model, request))[0].text == "Hi."
        assert ["prompt_cache_key" in one.body for one in server.requests] == [True, False, False]


async def test_usage_tells_what_the_provider_had_cached() -> None:
    long = ModelRequest([{"role": "user", "content": "word " * 2000}])
    async with conversation(Say("One."), Say("Two.")) as (_, model):
        first, _ = await ask(model, long)
        second, _ = await ask(model, long)
    assert first.usage == Usage(prompt=2508, completion=2, cached=0)
    assert second.usage == Usage(prompt=2508, completion=2, cached=2432)


async def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    whole = (
        '{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "All at '
        'once."}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}'
    )
    async with conversation(Body(whole, "application/json")) as (_, model):
        reply, pieces = await ask(model)
    assert (reply.text, pieces) == ("All at once.", ["All at once."])
    assert reply.usage == Usage(prompt=7, completion=3)


# --- tool calls ---


async def test_calls_without_ids_are_given_some() -> None:
    async with conversation(Say(calls=(Call("look", "{}"), Call("look", "{}")))) as (_, model):
        reply, _ = await ask(model, ModelRequest(HELLO.messages, [TOOL]))
    first, second = reply.tool_calls
    assert first.id
    assert second.id
    assert first.id != second.id


# --- parameters that an endpoint does not know ---


async def test_an_endpoint_that_refuses_stream_options_is_asked_without_from_then_on() -> None:
    refusal = Fail(400, {"message": "Unrecognized request argument supplied: stream_options"})
    async with conversation(refusal, Say("One."), Say("Two.")) as (server, model):
        first, _ = await ask(model)
        second, _ = await ask(model)
        sent = ["stream_options" in received.body for received in server.requests]
    assert (first.text, second.text) == ("One.", "Two.")
    assert sent == [True, False, False]


async def test_a_reasoning_model_gets_its_limit_under_the_name_that_it_wants() -> None:
    limit = Fail(
        400,
        {
            "message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead."
        },
    )
    heat = Fail(400, {"message": "Unsupported value: 'temperature' does not support 0.2."})
    request = ModelRequest(HELLO.messages, max_tokens=9, temperature=0.2)
    async with conversation(limit, heat, Say("Yes.")) as (server, model):
        await ask(model, request)
        body = body_of(server)
    assert body["max_completion_tokens"] == 9
    assert not {"max_tokens", "temperature"} & set(body)


# --- retries ---


# --- a context that is too long ---


async def test_a_request_over_the_servers_window_overflows_and_a_shorter_one_passes() -> None:
    async with OpenAIServer([Say("Short.")], window=100, overflow=llama_overflow) as server:
        model = model_at(server)
        with pytest.raises(ContextOverflow) as caught:
            await ask(model, ModelRequest([{"role": "user", "content": "long " * 200}]))
        reply, _ = await ask(model)
        await model.close()
    assert caught.value.window == 100
    assert reply.text == "Short."


# --- the models that an endpoint lists ---


def test_an_endpoint_never_shows_its_key() -> None:
    endpoint = Endpoint("m", f"https://me:{KEY}@host.example/v1?key={KEY}", KEY)
    assert KEY not in repr(Endpoint("m", api_key=KEY))
    assert endpoint.shown_url == "https://host.example/v1"


# --- what a hostile endpoint sends ---


@pytest.mark.parametrize("location", ["/v2", "//[", "http://u:p@x.test/", "http://\x00\x07é.test"])
async def test_where_a_redirect_leads_may_be_anything(location: str) -> None:
    message = str(failures.redirect(Endpoint("m"), location))
    assert message.isprintable()
    assert "u:p" not in message


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


@given(st.lists(st.sampled_from(STREAM), max_size=12), st.data())
async def test_events_are_the_same_however_their_bytes_are_cut(
    parts: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    pieces = [stream[a:b] for a, b in itertools.pairwise([0, *cuts, len(stream)])]
    assert await events_of(pieces) == await events_of([stream]) == await sdk_events_of(stream)


async def events_of(pieces: list[bytes]) -> list[bytes]:
    async def body() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    response = httpx2.Response(200, content=body())
    came = [events async for events in wire.events(response, wire.Progress(60))]
    return [event for events in came for event in events]


async def sdk_events_of(stream: bytes) -> list[bytes]:
    """What the official SDK makes of it."""

    async def body() -> AsyncIterator[bytes]:
        yield stream

    return [sse.data.encode() async for sse in SSEDecoder().aiter_bytes(body()) if sse.data]
