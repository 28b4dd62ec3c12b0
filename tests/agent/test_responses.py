"""OpenAI's Responses API: requests, and the events of an answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.base import ContextOverflow, ModelAnswerBroken, ModelReply, Usage
from agent.models.brain import PROVIDERS
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.responses import ResponsesAnswer, read_layout, to_body
from memory.messages import NOTHING_BESIDE, Message, RequestExtras, ToolCall
from tests.agent.endpoints import (
    BARE_TOOL,
    HELLO_WITH_TOOL,
    RESPONSES,
    TOOL,
    after,
    ask,
    conversation,
)
from tests.agent.test_chat_completions import JSON
from tests.fakes.openai_responses import refusal, seal
from tests.fakes.openai_server import Answer, Body, Call, Fail, OpenAIServer, Say


async def test_nothing_is_stored_and_thoughts_are_asked_for_sealed() -> None:
    wanted = replace(
        HELLO_WITH_TOOL,
        tools=[TOOL, BARE_TOOL],
        max_tokens=5,
        schema={"type": "object"},
        parameters={"tool_choice": "required", "parallel_tool_calls": False, "seed": 7},
    )
    async with conversation(RESPONSES, Say("Hi."), effort="low", provider="openai") as (
        server,
        model,
    ):
        await ask(model, replace(wanted, affinity="abc"))
        body = server.requests[-1].body
    assert body == {
        "model": "fake-model",
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
                "description": "Look.",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            },
            {
                "type": "function",
                "name": "act",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            },
        ],
    }


async def test_usage_has_what_was_cached_and_what_was_thought() -> None:
    async with conversation(RESPONSES, Say("Hi.", reasoning="Hm, " * 20)) as (_, model):
        reply = await ask(model, HELLO_WITH_TOOL)
    assert reply.usage
    assert reply.usage == Usage(reply.usage.prompt, reply.usage.completion, reasoning=20)
    assert reply.usage.prompt > 0


async def test_thoughts_go_back_sealed_in_front_of_the_calls_that_they_led_to() -> None:
    calls = (Call("look", "{}", "c1"), Call("look", '{"at": 2}', "c2"))
    first = Say("Let me look.", calls, reasoning="I should look.")
    async with conversation(RESPONSES, first, Say("Two moons.")) as (server, model):
        reply = await ask(model, HELLO_WITH_TOOL)
        assert (await ask(model, after(HELLO_WITH_TOOL, reply))).text == "Two moons."
        items = server.requests[-1].body["input"]
    kinds = [item.get("type", item.get("role")) for item in items]
    outputs = ["function_call_output"] * 2
    assert kinds == ["user", "reasoning", "assistant", *["function_call"] * 2, *outputs]
    assert items[1]["encrypted_content"] == seal("I should look.")
    assert reply.reasoning == "I should look."


async def test_thoughts_that_cannot_be_read_there_are_left_out() -> None:
    sealed = {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "another key's"}
    made = ModelReply("", (ToolCall("c1", "look", "{}"),), "tools", "m")
    request = after(HELLO_WITH_TOOL, made, json.dumps([sealed, "c1"]))
    async with conversation(RESPONSES, Say("I see.")) as (server, model):
        assert (await ask(model, request)).text == "I see."
        kinds = [item.get("type") for item in server.requests[-1].body["input"]]
        assert "reasoning" not in kinds
        assert len(server.requests) == 2


async def test_a_thought_stays_before_a_call_whose_id_came_again() -> None:
    sealed = {
        "type": "reasoning",
        "id": "r",
        "summary": [],
        "encrypted_content": seal("I should look."),
    }
    made = ModelReply("", (ToolCall("c1_t2_9", "look", "{}"),), "tools", "m")
    request = after(HELLO_WITH_TOOL, made, json.dumps([sealed, "c1"]))
    async with conversation(RESPONSES, Say("I see.")) as (server, model):
        assert (await ask(model, request)).text == "I see."
        items = server.requests[-1].body["input"]
    assert [one.get("type") for one in items][1:3] == ["reasoning", "function_call"]
    assert items[2]["call_id"] == items[3]["call_id"] == "c1_t2_9"


async def test_parameters_that_are_refused_are_left_out_for_good() -> None:
    complaints = {
        "temperature": "Unsupported parameter: 'temperature' is not supported with this model.",
        "include": "Encrypted content is not supported with this model.",
        "reasoning": "Unsupported parameter: 'reasoning.effort' is not supported.",
    }
    refusals = [Fail(400, {"message": said}) for said in complaints.values()]
    script: list[Answer] = [*refusals, Say("Hi."), Say("Hi.")]
    more: dict[str, Any] = {"effort": "low", "temperature": 0.5}
    async with conversation(RESPONSES, *script, **more) as (server, model):
        await ask(model)
        await ask(model)
        left = [[name for name in complaints if name in one.body] for one in server.requests]
    names = [*complaints]
    assert left == [names, names[1:], names[2:], [], []]


async def test_a_model_that_chat_completions_do_not_serve_is_asked_so_from_then_on() -> None:
    async with OpenAIServer([Say("Hi."), Say("Again.")]) as server:
        server.only_responses = frozenset({"gpt-9"})
        model = OpenAIModel(Endpoint("gpt-9", server.base_url, "key"))
        assert (await ask(model, HELLO_WITH_TOOL)).text == "Hi."
        assert (await ask(model, HELLO_WITH_TOOL)).text == "Again."
        await model.close()
        assert ["input" in one.body for one in server.requests] == [False, True, True]


def test_what_is_known_to_want_it_is_asked_so_at_once() -> None:
    wanting = {"gpt-5-pro": True, "o3-pro": True, "gpt-5-mini": False}
    assert {name: PROVIDERS["openai"].wants_responses(name) for name in wanting} == wanting


async def test_pictures_and_long_ids_are_taken() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    said = Message("assistant", tool_calls=(ToolCall("c" * 200, "a tool", "{}"),)).to_wire()
    result = Message("tool", "A moon.", call_id="c" * 200, tool="look").to_wire()
    shown = {"role": "user", "content": [{"type": "text", "text": "This?"}, picture]}
    async with conversation(RESPONSES, Say("I see.")) as (server, model):
        await ask(model, replace(HELLO_WITH_TOOL, messages=[shown, said, result]))
        items = server.requests[-1].body["input"]
    assert items[0]["content"][1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,AAAA",
        "detail": "auto",
    }
    assert items[1]["call_id"] == items[2]["call_id"]


async def test_an_answer_that_is_incomplete_says_why() -> None:
    reasons = {"length": "length", "content_filter": "filtered"}
    script = [Say("Half an", finish=reason) for reason in reasons]
    async with conversation(RESPONSES, *script) as (_, model):
        assert [(await ask(model)).finish for _ in reasons] == [*reasons.values()]


async def test_an_error_event_is_a_plain_sentence() -> None:
    fire = {"code": "server_error", "message": "GPU on fire"}
    long = {"code": "context_length_exceeded", "message": "Your input exceeds the window."}
    events = [
        {"type": "error", **fire},
        {"type": "response.failed", "response": {"error": fire}},
        {"type": "response.failed", "response": {"error": long}},
    ]
    script = [Body(f"data: {json.dumps(event)}\n\n", "text/event-stream") for event in events]
    async with conversation(RESPONSES, *script) as (_, model):
        for _ in range(2):
            with pytest.raises(ModelAnswerBroken, match="broke off with an error: GPU on fire"):
                await ask(model)
        with pytest.raises(ContextOverflow):
            await ask(model)


async def test_an_answer_in_one_piece_is_read() -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'}
    text = {"type": "message", "content": [{"type": "output_text", "text": "Let me look."}]}
    whole = {"object": "response", "status": "completed", "output": [text, call]}
    async with conversation(RESPONSES, Body(json.dumps(whole), "application/json")) as (_, model):
        reply = await ask(model, HELLO_WITH_TOOL)
    assert (reply.text, reply.tool_calls) == (
        "Let me look.",
        (ToolCall("c1", "look", '{"at": 1}'),),
    )
    assert reply.finish == "tools"


KINDS = st.sampled_from(
    [
        *("response.created", "response.completed", "response.incomplete", "response.failed"),
        *("response.output_item.added", "response.output_item.done", "error", "nonsense"),
        *("response.output_text.delta", "response.function_call_arguments.delta"),
        "response.reasoning_summary_text.delta",
    ]
)
NAMES = ("item", "response", "delta", "output_index", "output", "object")


@settings(max_examples=50)
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
    body = to_body(neutral | {"tools": [TOOL]}, RequestExtras({"c1": thoughts}))
    assert refusal(body) == ""
    assert [item for item in body["input"] if item.get("type") == "function_call"]


def test_what_claude_thought_stays_there_and_the_order_holds() -> None:
    claude = [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, 3, "c1"]
    assert read_layout(json.dumps(claude)) == [3, "c1"]
    assert read_layout("[1, {") == []
    assert to_body({"messages": [{"role": "user", "content": "a"}]}, NOTHING_BESIDE)["input"]
