"""A model asked by OpenAI's Responses API: the real SDK against a strict loopback server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.base import ContextOverflow, ModelAnswerBroken, ModelRequest, Usage
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.responses_answer import ResponsesAnswer, read_layout
from agent.models.responses_request import to_body
from memory.messages import NOTHING_BESIDE, Beside, Message, ToolCall
from tests.fakes.openai_responses import refusal, seal
from tests.fakes.openai_server import Answer, Body, Call, Fail, OpenAIServer, Say

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}], [LOOK])


@asynccontextmanager
async def conversation(
    *script: Answer, **settings: Any
) -> AsyncIterator[tuple[OpenAIServer, OpenAIModel]]:
    async with OpenAIServer(script) as server:
        endpoint = Endpoint("gpt-5-pro", server.base_url, "key", max_retries=0, **settings)
        model = OpenAIModel(endpoint, by_responses=True)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(model: OpenAIModel, request: ModelRequest = HELLO) -> Any:
    return await model.reply(request, lambda _: None)


async def test_nothing_is_stored_and_thoughts_are_asked_for_sealed() -> None:
    wanted = replace(
        HELLO,
        max_tokens=5,
        schema={"type": "object"},
        parameters={"tool_choice": "required", "parallel_tool_calls": False, "seed": 7},
    )
    async with conversation(Say("Hi."), effort="low", provider="openai") as (server, model):
        await ask(model, replace(wanted, affinity="abc"))
        body = server.requests[-1].body
    assert body == {
        "model": "gpt-5-pro",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "max_output_tokens": 16,
        "reasoning": {"effort": "low"},
        "text": {"format": {"type": "json_schema", "name": "answer", "schema": {"type": "object"}}},
        "prompt_cache_key": "abc",
        "input": [{"role": "user", "content": "Hello?"}],
        "tools": [
            {
                "type": "function",
                "name": "look",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }


async def test_usage_has_what_was_cached_and_what_was_thought() -> None:
    async with conversation(Say("Hi.", reasoning="Hm, " * 20)) as (_, model):
        reply = await ask(model)
        prompt = reply.usage.prompt
    assert reply.usage == Usage(prompt, reply.usage.completion, reasoning=20)
    assert prompt > 0


async def test_thoughts_go_back_sealed_in_front_of_the_calls_that_they_led_to() -> None:
    calls = (Call("look", "{}", "c1"), Call("look", '{"at": 2}', "c2"))
    first = Say("Let me look.", calls, reasoning="I should look.")
    async with conversation(first, Say("Two moons.")) as (server, model):
        reply = await ask(model)
        said = Message("assistant", reply.text, reply.tool_calls).to_wire()
        results = [
            Message("tool", "A moon.", call_id=one, tool="look").to_wire() for one in ("c1", "c2")
        ]
        beside = Beside({"c1": reply.thoughts})
        request = replace(HELLO, messages=[*HELLO.messages, said, *results], beside=beside)
        assert (await ask(model, request)).text == "Two moons."
        items = server.requests[-1].body["input"]
    kinds = [item.get("type", item.get("role")) for item in items]
    outputs = ["function_call_output"] * 2
    assert kinds == ["user", "reasoning", "assistant", *["function_call"] * 2, *outputs]
    assert items[1]["encrypted_content"] == seal("I should look.")
    assert reply.reasoning == "I should look."


async def test_thoughts_that_cannot_be_read_there_are_left_out() -> None:
    sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "another key's"}
    said = Message("assistant", tool_calls=(ToolCall("c1", "look", "{}"),)).to_wire()
    result = Message("tool", "A moon.", call_id="c1", tool="look").to_wire()
    beside = Beside({"c1": json.dumps([sealed, "c1"])})
    request = replace(HELLO, messages=[*HELLO.messages, said, result], beside=beside)
    async with conversation(Say("I see.")) as (server, model):
        assert (await ask(model, request)).text == "I see."
        kinds = [item.get("type") for item in server.requests[-1].body["input"]]
        assert "reasoning" not in kinds
        assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("complaint", "name"),
    [
        ("Unsupported parameter: 'temperature' is not supported with this model.", "temperature"),
        ("Encrypted content is not supported with this model.", "include"),
        ("Unsupported parameter: 'reasoning.effort' is not supported.", "reasoning"),
    ],
)
async def test_a_parameter_that_is_refused_is_left_out_for_good(complaint: str, name: str) -> None:
    script = (Fail(400, {"message": complaint}), Say("Hi."), Say("Hi."))
    async with conversation(*script, effort="low", temperature=0.5) as (server, model):
        await ask(model)
        await ask(model)
        assert [name in one.body for one in server.requests] == [True, False, False]


async def test_a_model_that_chat_completions_do_not_serve_is_asked_so_from_then_on() -> None:
    async with OpenAIServer([Say("Hi."), Say("Again.")]) as server:
        server.only_responses = frozenset({"gpt-9"})
        model = OpenAIModel(Endpoint("gpt-9", server.base_url, "key"))
        assert (await ask(model)).text == "Hi."
        assert (await ask(model)).text == "Again."
        await model.close()
        assert ["input" in one.body for one in server.requests] == [False, True, True]


@pytest.mark.parametrize(
    ("name", "by_responses"), [("gpt-5-pro", True), ("o3-pro", True), ("gpt-5-mini", False)]
)
async def test_what_is_known_to_want_it_is_asked_so_at_once(name: str, by_responses: bool) -> None:
    async with OpenAIServer([Say("Hi.")]) as server:
        model = OpenAIModel(Endpoint(name, server.base_url, "key", provider="openai"))
        await ask(model)
        await model.close()
        assert ("input" in server.requests[-1].body) is by_responses


async def test_pictures_and_long_ids_are_taken() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = Message("assistant", tool_calls=(ToolCall("c" * 200, "a tool", "{}"),)).to_wire()
    result = Message("tool", "A moon.", call_id="c" * 200, tool="look").to_wire()
    shown = {"role": "user", "content": [{"type": "text", "text": "This?"}, picture]}
    async with conversation(Say("I see.")) as (server, model):
        await ask(model, replace(HELLO, messages=[shown, said, result]))
        items = server.requests[-1].body["input"]
    assert items[0]["content"][1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,AAAA",
        "detail": "auto",
    }
    assert items[1]["call_id"] == items[2]["call_id"]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
async def test_an_answer_that_is_incomplete_says_why(finish: str) -> None:
    async with conversation(Say("Half an", finish=finish)) as (_, model):
        assert (await ask(model)).finish == finish


async def test_an_overflow_is_told_by_an_event_too() -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    event = {"type": "response.failed", "response": {"error": error}}
    async with conversation(Body(f"data: {json.dumps(event)}\n\n", "text/event-stream")) as (_, m):
        with pytest.raises(ContextOverflow):
            await ask(m)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "GPU on fire"},
        {"type": "response.failed", "response": {"error": {"message": "GPU on fire"}}},
    ],
)
async def test_an_error_event_is_a_plain_sentence(event: dict[str, Any]) -> None:
    async with conversation(Body(f"data: {json.dumps(event)}\n\n", "text/event-stream")) as (_, m):
        with pytest.raises(ModelAnswerBroken, match="broke off with an error: GPU on fire"):
            await ask(m)


async def test_an_answer_in_one_piece_is_read() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'}
    text = {"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]}
    whole = {"object": "response", "status": "completed", "output": [text, call]}
    async with conversation(Body(json.dumps(whole), "application/json")) as (_, model):
        reply = await ask(model)
    assert (reply.text, reply.tool_calls) == (
        "Let me look.",
        (ToolCall("c1", "look", '{"at": 1}'),),
    )
    assert reply.finish == "tool_calls"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(
    [
        *("response.created", "response.completed", "response.incomplete", "response.failed"),
        *("response.output_item.added", "response.output_item.done", "error", "nonsense"),
        *("response.output_text.delta", "response.function_call_arguments.delta"),
        "response.reasoning_summary_text.delta",
    ]
)
NAMES = ("item", "response", "delta", "output_index", "output", "object")


@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(NAMES), JSON))))
def test_events_of_any_shape_make_an_answer(events: list[tuple[str, dict[str, Any]]]) -> None:
    answer = ResponsesAnswer()
    for kind, fields in events:
        answer.add({"type": kind, **fields})
    reply = answer.reply("m")
    assert isinstance(reply.text, str)
    assert all(call.id and call.name for call in reply.tool_calls)


@given(st.text(max_size=60) | JSON.map(json.dumps))
def test_thoughts_of_any_shape_are_read_or_left_out(thoughts: str) -> None:
    said = Message("assistant", "Hm.", (ToolCall("c1", "look", "{}"),)).to_wire()
    result = Message("tool", "A moon.", call_id="c1", tool="look").to_wire()
    neutral = {"model": "m", "messages": [{"role": "user", "content": "Hi"}, said, result]}
    body = to_body(neutral, Beside({"c1": thoughts}))
    assert refusal(body) == ""
    assert [item for item in body["input"] if item.get("type") == "function_call"]


def test_what_claude_thought_stays_there_and_the_order_holds() -> None:
    claude = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, 3, "c1"]
    assert read_layout(json.dumps(claude)) == [3, "c1"]
    assert read_layout("[1, {") == []
    assert to_body({"messages": [{"role": "user", "content": "a"}]}, NOTHING_BESIDE)["input"]
