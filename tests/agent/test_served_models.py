"""Tests for a model behind an endpoint with any protocol: each real SDK with a strict loopback
server."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from itertools import chain, repeat
from typing import Any

import anyio
import pytest

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from memory.messages import ToolCall
from tests.agent.endpoints import (
    CHAT,
    CLAUDE,
    HELLO_WITH_TOOL,
    KEY,
    PROTOCOLS,
    TOOL,
    Protocol,
    after,
    ask,
    conversation,
    failure,
)
from tests.fakes.anthropic_server import overflow
from tests.fakes.openai_server import (
    Answer,
    Body,
    Break,
    Call,
    Fail,
    Hang,
    Say,
    StreamError,
    llama_overflow,
    openai_overflow,
)
from tests.waiting import PATIENCE

each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
each_sdk = pytest.mark.parametrize("protocol", [CHAT, CLAUDE], ids=["openai", "anthropic"])


@each_protocol
async def test_text_streams_and_the_reply_is_all_of_it(protocol: Protocol[Any]) -> None:
    gate = asyncio.Event()
    pieces: list[str] = []

    def take(piece: str) -> None:
        pieces.append(piece)
        gate.set()  # the rest arrives after the beginning

    async with conversation(protocol, Say("Good morning, 世界! 👋", pieces=6, gate=gate)) as (
        server,
        model,
    ):
        reply = await ask(model, on_delta=take)
        assert server.requests[-1].headers["Accept-Encoding"] == "identity"
    assert reply.text == "".join(pieces) == "Good morning, 世界! 👋"
    assert len(pieces) > 1
    assert (reply.finish, reply.model, reply.tool_calls) == ("complete", "fake-model", ())


@each_protocol
async def test_an_answer_has_thoughts_text_and_calls_and_a_tool_loop_is_taken(
    protocol: Protocol[Any],
) -> None:
    calls = (Call("look", '{"at": "the moon"}', "call_a"), Call("look", '{"at": 2}', "call_b"))
    first = Say("Let me look.", calls, reasoning="It is up there.")
    async with conversation(protocol, first, Say("A moon.")) as (server, model):
        pieces: list[str] = []
        reply = await ask(model, HELLO_WITH_TOOL, pieces.append)
        step = after(HELLO_WITH_TOOL, reply)
        last = ModelRequest(step.messages, [TOOL], tool_choice="none", beside=step.beside)
        assert (await ask(model, last)).text == "A moon."
        assert [len(one.body["tools"]) for one in server.requests] == [1, 1]
    assert reply.text == "".join(pieces) == "Let me look."
    assert reply.reasoning == "It is up there."
    assert reply.finish == "tools"
    assert reply.tool_calls == (
        ToolCall("call_a", "look", '{"at": "the moon"}'),
        ToolCall("call_b", "look", '{"at": 2}'),
    )


@each_protocol
async def test_many_conversations_ask_at_once(protocol: Protocol[Any]) -> None:
    script = [Say(f"Answer {number}.") for number in range(20)]
    async with conversation(protocol, *script) as (_, model):
        replies = await asyncio.gather(*(ask(model) for _ in script))
    assert {reply.text for reply in replies} == {answer.text for answer in script}


# --- trying again, and stopping ---


@each_sdk
async def test_a_passing_failure_is_tried_again(protocol: Protocol[Any]) -> None:
    script: list[Answer] = [
        *(Fail(429, {"message": "busy"}), Fail(503, {"message": "busy"}), Say("There.")),
        *(Fail(500, {"message": "oops"}), Fail(429, {"message": "busy"}), Say("Again.")),
    ]
    async with conversation(protocol, *script, max_retries=2) as (server, model):
        assert (await ask(model)).text == "There."
        assert (await ask(model)).text == "Again."
        assert len(server.requests) == 6


@each_sdk
async def test_a_wait_for_a_retry_is_as_long_as_asked_for_and_ends_when_it_is_cancelled(
    protocol: Protocol[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    waiting = asyncio.Event()

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        waiting.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(anyio, "sleep", wait)
    busy = Fail(429, {"message": "busy"}, {"Retry-After": "8"})
    async with conversation(protocol, busy, max_retries=2) as (server, model):
        asking = asyncio.create_task(ask(model))
        await waiting.wait()
        await _cancel(asking)
        assert len(server.requests) == 1
    assert waits == [8]


@each_sdk
async def test_a_wait_that_is_too_long_is_not_slept(
    protocol: Protocol[Any],
) -> None:
    """Anthropic's SDK would sleep for the whole time (pi#6911)."""
    busy = Fail(429, {"message": "busy"}, {"Retry-After": "7200"})
    stuck = Fail(503, {"message": "busy"}, {"Retry-After-Ms": "60000"})
    script = (busy, stuck)
    async with conversation(protocol, *script, max_retries=2) as (server, model):
        errors = [await failure(model) for _ in script]
        assert len(server.requests) == 2
    assert [error.retry_after for error in errors] == [7200, 60]
    assert "ask again in 2 hours" in str(errors[0])


@each_protocol
async def test_cancelling_ends_the_request_on_the_wire_and_the_model_can_be_asked_again(
    protocol: Protocol[Any],
) -> None:
    script: list[Answer] = [Hang(), Hang("Once upon"), Say("Again.")]
    async with conversation(protocol, *script) as (server, model):
        asking = asyncio.create_task(ask(model))
        await server.reached.acquire()
        await _cancel(asking)
        await asyncio.wait_for(server.hung_up.acquire(), PATIENCE)
        started = asyncio.Event()
        asking = asyncio.create_task(ask(model, on_delta=lambda _: started.set()))
        await started.wait()
        await _cancel(asking)
        await asyncio.wait_for(server.hung_up.acquire(), PATIENCE)
        assert (await ask(model)).text == "Again."


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(asyncio.CancelledError):
            await task


# --- what goes wrong ---


def assert_is_a_sentence(error: ModelError) -> None:
    said = str(error)
    assert KEY not in said
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 400


REFUSALS: list[tuple[Fail, type[ModelError], str]] = [
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


@each_protocol
async def test_refusals_say_what_to_do_and_the_next_message_works(protocol: Protocol[Any]) -> None:
    """Refusals of first requests, per provider, are in test_provider_errors.py."""
    script: list[Answer] = [*(answer for answer, _, _ in REFUSALS), Say("Fine.")]
    async with conversation(protocol, *script) as (_, model):
        for answer, kind, words in REFUSALS:
            error = await failure(model)
            assert isinstance(error, kind), answer
            assert words in str(error)
            assert error.status == answer.status
            assert error.is_worth_another_model
            assert_is_a_sentence(error)
        assert (await ask(model)).text == "Fine."


BROKEN: list[tuple[Answer, str, str]] = [
    (Say(""), "gave an empty answer", ""),
    (Say(" \n "), "gave an empty answer", " \n "),
    *(
        (Say(tag), "gave an empty answer", tag)
        for tag in ("<terse></terse>", "<terse>", "<TERSE> </TERSE>\n<terse>\n</terse>", "<ters")
    ),
    (Body("", "text/event-stream"), "gave an empty answer", ""),
    (Say("", reasoning="Hm…", finish="length"), "length limit", ""),
    (Say("", finish="content_filter"), "the question in other words", ""),
    (Body("<html><body>Sign in</body></html>"), "a web page instead of the chat protocol", ""),
    (Body("{half", "application/json"), "instead of the chat protocol", ""),
    (Body("[]", "application/json"), "gave an empty answer", ""),
    (Body('{"error": "no such thing"}', "application/json"), "error: no such thing.", ""),
    (Body("data: {half\n\n", "text/event-stream"), "broke off", ""),
    (Break("Half an ans"), "broke off", "Half an ans"),
    (Break("Half an ans", is_polite=True), "broke off", "Half an ans"),
    (StreamError({"message": "GPU on fire"}, "Half"), "GPU on fire", "Half"),
]


@each_protocol
async def test_broken_answers_keep_what_streamed_and_the_next_message_works(
    protocol: Protocol[Any],
) -> None:
    script = [*(answer for answer, _, _ in BROKEN), Say("Fine.")]
    async with conversation(protocol, *script) as (_, model):
        for answer, words, text in BROKEN:
            pieces: list[str] = []
            error = await failure(model, pieces.append)
            assert isinstance(error, ModelAnswerBroken), answer
            assert words in str(error)
            assert error.text.strip() == "".join(pieces).strip() == text.strip()
            assert_is_a_sentence(error)
        assert (await ask(model)).text == "Fine."


@each_sdk
@pytest.mark.parametrize("answer", [Break("Half an ans"), StreamError({"message": "Oh"}, "Half")])
async def test_a_first_answer_that_breaks_off_keeps_what_streamed_too(
    protocol: Protocol[Any], answer: Break | StreamError
) -> None:
    async with conversation(protocol, answer) as (_, model):
        error = await failure(model)
    assert isinstance(error, ModelAnswerBroken)
    assert error.text == answer.text


@each_sdk
async def test_an_endpoint_that_is_silent_is_given_up(
    protocol: Protocol[Any],
) -> None:
    answers, heard = chain([Hang()], repeat(Hang("Half"))), list[str]()
    async with protocol.server(lambda _: next(answers)) as server:
        model = protocol.at(server.base_url, timeout=0.3)
        before = await failure(model)
        while not heard:  # on a busy machine its beginning may be late, too
            within = await failure(model, heard.append)
        await model.close()
    assert isinstance(before, ModelUnreachable)
    assert isinstance(within, ModelAnswerBroken)
    assert within.text == "Half"
    for error in (before, within):
        assert "sent nothing for 0.3 s" in str(error)
        assert_is_a_sentence(error)


@each_protocol
async def test_an_overflow_is_recognised_and_names_the_window(protocol: Protocol[Any]) -> None:
    overflows: list[tuple[Answer, int]] = [
        (openai_overflow(3015, 2048), 2048),
        (overflow(203_000, 200_000), 200_000),
        (llama_overflow(6320, 2048), 2048),
        (Fail(500, "upstream said: Please reduce the length of the messages"), 0),
        (StreamError({"message": "context_length_exceeded", "code": 400}), 0),
        (Body('{"error": {"message": "too many tokens"}}', "application/json"), 0),
    ]
    async with conversation(protocol, *(answer for answer, _ in overflows)) as (_, model):
        for answer, window in overflows:
            error = await failure(model)
            assert isinstance(error, ContextOverflow), answer
            assert error.window == window
            assert not error.is_worth_another_model
            assert_is_a_sentence(error)


@each_sdk
async def test_a_refused_connection_names_the_address(protocol: Protocol[Any]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    model = protocol.at(url)
    error = await failure(model)
    assert isinstance(error, ModelUnreachable)
    assert f"Can't connect to {url}" in str(error)
    assert_is_a_sentence(error)
    assert await model.first_listed_model() is None
    await model.close()
    bare = protocol.at(url.removeprefix("http://"))
    with pytest.raises(ModelUnreachable, match="write http:// or https:// before it"):
        raise await failure(bare)
    await bare.close()


@each_sdk
async def test_what_cannot_be_sent_is_an_error_with_a_sentence(protocol: Protocol[Any]) -> None:
    for url in ("localhost:80", "no address", "ftp://host/v1", "http://[::", ""):
        model = protocol.at(url)
        error = await failure(model)
        assert "OPENAI_BASE_URL" in str(error), url
        assert_is_a_sentence(error)
        await model.close()
    async with protocol.server(key=KEY) as server:
        for key in ("sk-line\nbreak", "sk-schlüssel"):
            model = protocol.at(server.base_url, api_key=key)
            error = await failure(model)
            assert isinstance(error, ModelRefused)
            assert key not in str(error)
            assert_is_a_sentence(error)
            await model.close()


@each_sdk
async def test_the_first_listed_model_or_none(protocol: Protocol[Any]) -> None:
    async with protocol.server(models=("qwen3", "llama3"), key=KEY) as server:
        for key, first in ((KEY, "qwen3"), ("wrong", None)):
            model = protocol.at(server.base_url, api_key=key)
            assert await model.first_listed_model() == first
            await model.close()
    async with protocol.server(models=()) as server:
        model = protocol.at(server.base_url)
        assert await model.first_listed_model() is None
        await model.close()


# --- where requests go ---


@each_sdk
async def test_nothing_is_sent_to_where_an_endpoint_redirects(protocol: Protocol[Any]) -> None:
    async with protocol.server(models=("theirs",)) as elsewhere:
        place = elsewhere.base_url.replace("127.0.0.1", "localhost")
        moved = [
            Fail(status, "", {"Location": f"{place}/anywhere"})
            for status in (301, 302, 303, 307, 308)
        ]
        async with conversation(protocol, *moved[:3], Say("Hi."), *moved[3:]) as (server, model):
            errors = [await failure(model) for _ in range(3)]
            await ask(model)
            errors += [await failure(model) for _ in range(2)]
        assert not elsewhere.requests
    assert {type(error) for error in errors} == {ModelRefused}
    assert {str(error) for error in errors} == {
        f"{server.base_url} redirects requests to {place.split('/')[2]}. "
        "Nothing was sent there; if that address is right, put it into OPENAI_BASE_URL."
    }


async def test_what_is_said_to_a_model_on_this_machine_takes_no_way_around(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with CHAT.server() as proxy, CHAT.server([Say("Hello.")] * 2) as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
        for host in ("127.0.0.1", "localhost"):
            model = CHAT.at(server.base_url.replace("127.0.0.1", host))
            assert (await ask(model)).text == "Hello."
            await model.close()
    assert not proxy.requests


@each_sdk
async def test_what_is_no_http_is_an_error_with_a_sentence(protocol: Protocol[Any]) -> None:
    heads = {
        "a negative length": b"Content-Length: -5\r\n",
        "an endless chunk": b"Transfer-Encoding: chunked\r\n\r\n" + b"f" * 64,
        "a long header": b"X: " + b"y" * 20_000 + b"\r\n",
        "many headers": b"X: y\r\n" * 5_000,
    }
    head = b""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + head + b"\r\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1") as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        for what, head in heads.items():  # noqa: B007 - the server sends it
            model = protocol.at(url)
            error = await failure(model)
            assert "instead of the chat protocol" in str(error), what
            assert_is_a_sentence(error)
            assert await model.first_listed_model() is None
            await model.close()


def test_an_endpoint_never_shows_its_key() -> None:
    endpoint = Endpoint("m", f"https://me:{KEY}@host.example/v1?key={KEY}", KEY)
    assert KEY not in repr(Endpoint("m", api_key=KEY))
    assert endpoint.shown_url == "https://host.example/v1"
    assert OpenAIModel(endpoint).provider == endpoint.base_url
