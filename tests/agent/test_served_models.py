"""What holds for a model behind an endpoint whatever its protocol: each real SDK against a strict
loopback server."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from agent.models.anthropic import AnthropicModel
from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.served import EndpointModel
from memory.messages import Message, ToolCall
from tests.fakes.anthropic_server import AnthropicServer, overflow
from tests.fakes.openai_server import (
    Answer,
    Body,
    Break,
    Call,
    Fail,
    Hang,
    OpenAIServer,
    Say,
    StreamError,
    llama_overflow,
    openai_overflow,
)

KEY = "sk-secret-0123456789"
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
Server = OpenAIServer | AnthropicServer


@dataclass(frozen=True)
class Protocol:
    """A model that speaks it, and a strict server of it. `is_later` says that the model has had an
    answer before, after which requests take another way."""

    model: Callable[[Endpoint], EndpointModel]
    server: Callable[..., Server]
    is_later: bool = False


PROTOCOLS = {
    "openai": Protocol(OpenAIModel, OpenAIServer),
    "anthropic": Protocol(AnthropicModel, AnthropicServer),
    "responses": Protocol(partial(OpenAIModel, by_responses=True), OpenAIServer),
}


PROTOCOLS |= {f"{name}, later": replace(one, is_later=True) for name, one in PROTOCOLS.items()}


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> Protocol:
    return PROTOCOLS[request.param]


def model_at(protocol: Protocol, server: Server, **settings: Any) -> EndpointModel:
    usual: dict[str, Any] = {"api_key": KEY, "timeout": 5.0, "max_retries": 0}
    return protocol.model(Endpoint("fake-model", server.base_url, **(usual | settings)))


@asynccontextmanager
async def conversation(
    protocol: Protocol, *script: Answer, **settings: Any
) -> AsyncIterator[tuple[Server, EndpointModel]]:
    """A server with a script, and a model in front of it."""
    before = [Say("Before.")] if protocol.is_later else []
    async with protocol.server([*before, *script]) as server:
        model = model_at(protocol, server, **settings)
        try:
            if before:
                await ask(model)
                server.requests.clear()
                await server.reached.acquire()
            yield server, model
        finally:
            await model.close()


async def ask(model: EndpointModel, request: ModelRequest = HELLO) -> tuple[ModelReply, list[str]]:
    """The reply, and the pieces in which it streamed."""
    pieces: list[str] = []
    return await model.reply(request, pieces.append), pieces


async def test_text_streams_and_the_reply_is_all_of_it(protocol: Protocol) -> None:
    gate = asyncio.Event()
    said = Say("Good morning, 世界! 👋", pieces=6, gate=gate)
    async with conversation(protocol, said) as (_, model):
        pieces: list[str] = []

        def take(piece: str) -> None:
            pieces.append(piece)
            gate.set()  # the rest comes when the beginning is here

        reply = await model.reply(HELLO, take)
    assert reply.text == "".join(pieces) == "Good morning, 世界! 👋"
    assert len(pieces) > 1
    assert (reply.finish, reply.model, reply.tool_calls) == ("stop", "fake-model", ())


async def test_what_came_before_an_error_is_told(protocol: Protocol) -> None:
    pieces: list[str] = []
    error = StreamError({"message": "overloaded"}, "Half of ")
    async with conversation(protocol, error) as (_, model):
        with pytest.raises(ModelError):
            await model.reply(HELLO, pieces.append)
    assert "".join(pieces) == "Half of "


async def test_reasoning_is_kept_apart_from_the_text(protocol: Protocol) -> None:
    async with conversation(protocol, Say("42.", reasoning="Six times seven.")) as (_, model):
        reply, pieces = await ask(model)
    assert (reply.reasoning, reply.text, "".join(pieces)) == ("Six times seven.", "42.", "42.")


async def test_parallel_tool_calls_are_put_together_from_their_pieces(protocol: Protocol) -> None:
    calls = (Call("look", '{"at": "the moon"}', "call_a"), Call("look", '{"at": 2}', "call_b"))
    async with conversation(protocol, Say("Let me look.", calls)) as (server, model):
        reply, _ = await ask(model, ModelRequest(HELLO.messages, [TOOL]))
        assert len(server.requests[-1].body["tools"]) == 1
    assert reply.text == "Let me look."
    assert reply.tool_calls == (
        ToolCall("call_a", "look", '{"at": "the moon"}'),
        ToolCall("call_b", "look", '{"at": 2}'),
    )
    assert reply.finish == "tool_calls"


async def test_a_tool_loop_is_a_conversation_that_the_server_accepts(protocol: Protocol) -> None:
    async with conversation(protocol, Say(calls=(Call("look", "{}", "c1"),)), Say("A moon.")) as (
        _,
        model,
    ):
        first, _ = await ask(model, ModelRequest(HELLO.messages, [TOOL]))
        history = [
            *HELLO.messages,
            Message("assistant", tool_calls=first.tool_calls).to_wire(),
            Message("tool", "It is round.", call_id="c1", tool="look").to_wire(),
        ]
        second, _ = await ask(model, ModelRequest(history, [TOOL], tool_choice="none"))
    assert second.text == "A moon."


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_passing_failure_is_tried_again(protocol: Protocol, status: int) -> None:
    busy = Fail(status, {"message": "busy"}, {"Retry-After-Ms": "1"})
    async with conversation(protocol, busy, busy, Say("There."), max_retries=2) as (server, model):
        reply, _ = await ask(model)
        assert len(server.requests) == 3
    assert reply.text == "There."


async def test_a_wait_for_a_retry_ends_at_once_when_the_task_is_cancelled(
    protocol: Protocol,
) -> None:
    busy = Fail(429, {"message": "busy"}, {"Retry-After": "100"})
    async with conversation(protocol, Say("First."), busy, max_retries=2) as (server, model):
        await ask(model)
        async with asyncio.timeout(5):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ask(model), 0.3)  # returns when the task has really ended
        assert len(server.requests) == 2


@pytest.mark.parametrize("hang", [Hang(), Hang("A word")])
async def test_cancelling_ends_the_request_on_the_wire(protocol: Protocol, hang: Hang) -> None:
    async with conversation(protocol, hang) as (server, model):
        asking = asyncio.create_task(ask(model))
        await server.reached.acquire()
        await _cancelled_at_once(asking)
        await asyncio.wait_for(server.hung_up.acquire(), 2)


async def test_cancelling_in_mid_answer_leaves_the_model_usable(protocol: Protocol) -> None:
    started = asyncio.Event()
    async with conversation(protocol, Hang("Once upon"), Say("Again.")) as (server, model):
        asking = asyncio.create_task(model.reply(HELLO, lambda _: started.set()))
        await started.wait()
        await _cancelled_at_once(asking)
        await asyncio.wait_for(server.hung_up.acquire(), 2)
        reply, _ = await ask(model)
    assert reply.text == "Again."


async def _cancelled_at_once(task: asyncio.Task[Any]) -> None:
    task.cancel()
    async with asyncio.timeout(1):
        with pytest.raises(asyncio.CancelledError):
            await task


# --- what goes wrong ---

REFUSALS: list[tuple[Answer, type[ModelError], str]] = [
    (Fail(401, {"message": f"Incorrect API key provided: {KEY}"}), AccountRefused, "API key"),
    (Fail(402, {"message": "Insufficient balance"}), AccountRefused, "no credit left"),
    (Fail(403, {"message": f"{KEY} may not"}), AccountRefused, "'fake-model'"),
    (Fail(404, {"message": "The model does not exist"}), ModelRefused, "'fake-model'"),
    (Fail(404, "<html>nginx</html>"), ModelRefused, "'fake-model'"),
    (Fail(422, {"message": f"bad field near {KEY}"}), ModelRefused, "bad field near …."),
    (Fail(429, {"message": "slow down, token limit"}), ModelUnreachable, "no more requests"),
    (Fail(429, {"message": "x", "code": "insufficient_quota"}), AccountRefused, "no credit left"),
    (Fail(500, {"message": "oops"}), ModelUnreachable, "failed with error 500"),
    (Fail(502, "<html>Bad gateway</html>"), ModelUnreachable, "failed with error 502"),
    (Fail(400, "<html>no</html>"), ModelRefused, "it gave no reason."),
]

BROKEN: list[tuple[Answer, str, str]] = [
    (Say(""), "gave an empty answer", ""),
    (Say(" \n "), "gave an empty answer", " \n "),
    (Body("", "text/event-stream"), "gave an empty answer", ""),
    (Say("", reasoning="Hm…", finish="length"), "length limit", ""),
    (Say("", finish="content_filter"), "content filter", ""),
    (Body("<html><body>Sign in</body></html>"), "a web page instead of the chat protocol", ""),
    (Body("{half", "application/json"), "instead of the chat protocol", ""),
    (Body("[]", "application/json"), "gave an empty answer", ""),
    (Body('{"error": "no such thing"}', "application/json"), "error: no such thing.", ""),
    (Body("data: {half\n\n", "text/event-stream"), "broke off", ""),
    (Break("Half an ans"), "broke off", "Half an ans"),
    (Break("Half an ans", is_polite=True), "broke off", "Half an ans"),
    (StreamError({"message": "GPU on fire"}, "Half"), "GPU on fire", "Half"),
    (Hang("Half"), "sent nothing for 0.3 s", "Half"),
]


@pytest.mark.parametrize(("answer", "kind", "words"), REFUSALS)
async def test_a_refusal_says_what_to_do_and_the_next_message_works(
    protocol: Protocol, answer: Answer, kind: type[ModelError], words: str
) -> None:
    async with conversation(protocol, answer, Say("Fine.")) as (_, model):
        error = await _failure(model)
        reply, _ = await ask(model)
    assert type(error) is kind
    assert words in str(error)
    assert error.is_worth_another_model
    assert reply.text == "Fine."
    _assert_is_a_sentence(error)


@pytest.mark.parametrize(("answer", "words", "text"), BROKEN)
async def test_a_broken_answer_keeps_what_streamed_and_the_next_message_works(
    protocol: Protocol, answer: Answer, words: str, text: str
) -> None:
    async with conversation(protocol, answer, Say("Fine."), timeout=0.3) as (_, model):
        error = await _failure(model)
        reply, _ = await ask(model)
    assert isinstance(error, ModelAnswerBroken)
    assert words in str(error)
    assert error.text == text
    assert reply.text == "Fine."
    _assert_is_a_sentence(error)


async def test_an_endpoint_that_never_answers_is_given_up(protocol: Protocol) -> None:
    async with conversation(protocol, Hang(), timeout=0.3) as (_, model):
        error = await _failure(model)
    assert isinstance(error, ModelUnreachable)
    assert "sent nothing for 0.3 s" in str(error)
    _assert_is_a_sentence(error)


async def test_a_refused_connection_names_the_address(protocol: Protocol) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    model = protocol.model(Endpoint("m", url, KEY, max_retries=0))
    error = await _failure(model)
    await model.close()
    assert isinstance(error, ModelUnreachable)
    assert f"Can't connect to {url}" in str(error)
    _assert_is_a_sentence(error)


@pytest.mark.parametrize("url", ["localhost:80", "no address", "ftp://host/v1", "http://[::", ""])
async def test_an_address_that_is_none_is_an_error_with_a_sentence(
    protocol: Protocol, url: str
) -> None:
    model = protocol.model(Endpoint("m", url, KEY, max_retries=0))
    error = await _failure(model)
    await model.close()
    assert "OPENAI_BASE_URL" in str(error)
    _assert_is_a_sentence(error)


@pytest.mark.parametrize("key", ["sk-line\nbreak", "sk-schlüssel"])
async def test_a_key_that_cannot_be_sent_is_an_error_with_a_sentence(
    protocol: Protocol, key: str
) -> None:
    async with protocol.server(key=KEY) as server:
        model = model_at(protocol, server, api_key=key)
        error = await _failure(model)
        await model.close()
    assert isinstance(error, ModelRefused)
    assert key not in str(error)
    _assert_is_a_sentence(error)


async def _failure(model: EndpointModel) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await ask(model)
    return caught.value


def _assert_is_a_sentence(error: ModelError) -> None:
    said = str(error)
    assert KEY not in said
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 400


@pytest.mark.parametrize(
    ("answer", "window"),
    [
        (openai_overflow(3015, 2048), 2048),
        (overflow(203_000, 200_000), 200_000),
        (llama_overflow(6320, 2048), 2048),
        (Fail(400, {"message": "PROMPT IS TOO LONG: 203000 tokens > 200000 maximum"}), 200_000),
        (Fail(500, "upstream said: Please reduce the length of the messages"), 0),
        (StreamError({"message": "context_length_exceeded", "code": 400}), 0),
        (Body('{"error": {"message": "too many tokens"}}', "application/json"), 0),
    ],
)
async def test_an_overflow_is_recognised_and_names_the_window(
    protocol: Protocol, answer: Answer, window: int
) -> None:
    async with conversation(protocol, answer) as (_, model):
        error = await _failure(model)
    assert isinstance(error, ContextOverflow)
    assert error.window == window
    assert not error.is_worth_another_model
    _assert_is_a_sentence(error)


@pytest.mark.parametrize(
    ("models", "key", "first"),
    [(("qwen3", "llama3"), KEY, "qwen3"), ((), KEY, None), (("qwen3",), "wrong", None)],
)
async def test_the_first_listed_model_or_none(
    protocol: Protocol, models: Sequence[str], key: str, first: str | None
) -> None:
    async with protocol.server(models=models, key=KEY) as server:
        model = model_at(protocol, server, api_key=key)
        assert await model.first_listed_model() == first
        await model.close()


async def test_no_model_is_listed_where_nobody_answers(protocol: Protocol) -> None:
    model = protocol.model(Endpoint("", "http://127.0.0.1:9/v1", max_retries=0))
    assert await model.first_listed_model() is None
    await model.close()


async def test_many_conversations_ask_at_once(protocol: Protocol) -> None:
    script = [Say(f"Answer {number}.") for number in range(20)]
    async with conversation(protocol, *script) as (_, model):
        replies = await asyncio.gather(*(ask(model) for _ in script))
    assert {reply.text for reply, _ in replies} == {answer.text for answer in script}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nothing_is_sent_to_where_an_endpoint_redirects(
    protocol: Protocol, status: int
) -> None:
    async with protocol.server(models=("theirs",)) as elsewhere:
        place = elsewhere.base_url.replace("127.0.0.1", "localhost")
        moved = Fail(status, "", {"Location": f"{place}/anywhere"})
        async with conversation(protocol, moved) as (server, model):
            with pytest.raises(ModelRefused) as caught:
                await ask(model)
        assert not elsewhere.requests
    assert str(caught.value) == (
        f"{server.base_url} redirects requests to {place.split('/')[2]}. "
        "Nothing was sent there; if that address is right, put it into OPENAI_BASE_URL."
    )
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_what_is_said_to_a_model_on_this_machine_takes_no_way_around(
    protocol: Protocol, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with protocol.server() as proxy, protocol.server([Say("Hello.")]) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
        model = protocol.model(Endpoint("m", server.base_url.replace("127.0.0.1", host), KEY))
        try:
            reply, _ = await ask(model)
        finally:
            await model.close()
    assert reply.text == "Hello."
    assert not proxy.requests


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: -5\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 64,
        b"X: " + b"y" * 20_000 + b"\r\n",
        b"X: y\r\n" * 5_000,
    ],
    ids=["a negative length", "an endless chunk", "a long header", "many headers"],
)
async def test_what_is_no_http_is_an_error_with_a_sentence(protocol: Protocol, head: bytes) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + head + b"\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        model = protocol.model(Endpoint("m", url, KEY, max_retries=0))
        error = await _failure(model)
        listed = await model.first_listed_model()
        await model.close()
    assert "instead of the chat protocol" in str(error)
    _assert_is_a_sentence(error)
    assert not listed


async def test_no_error_has_a_number_that_python_does_not_read(protocol: Protocol) -> None:
    async with conversation(protocol, Fail(400, {"message": "n_ctx: " + "9" * 60_000})) as (
        _,
        model,
    ):
        with pytest.raises(ModelError):
            await ask(model)


async def test_an_answer_asked_for_unpacked_is_told_so(protocol: Protocol) -> None:
    async with conversation(protocol, Say("Hello.")) as (server, model):
        await ask(model)
        assert server.requests[-1].headers["Accept-Encoding"] == "identity"
