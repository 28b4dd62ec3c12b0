"""What some endpoints of chat completions want back with a model's calls."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.base import ModelReply, ModelRequest
from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT, add_details, put_back
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.providers import PROVIDERS
from memory.messages import Beside, Message, ToolCall
from tests.fakes.openai_server import Answer, Call, OpenAIServer, Say

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}], [LOOK])
CALLS = (Call("look", "{}", "c1"), Call("look", '{"at": 2}', "c2"))
DETAIL = {
    "type": "reasoning.text",
    "index": 0,
    "text": "I should look at the sky.",
    "signature": None,
}
WANTING = {name: one.thoughts for name, one in PROVIDERS.items() if one.thoughts}


@asynccontextmanager
async def conversation(
    provider: str, *script: Answer
) -> AsyncIterator[tuple[OpenAIServer, OpenAIModel]]:
    async with OpenAIServer(script) as server:
        server.thoughts = PROVIDERS[provider].thoughts
        model = OpenAIModel(Endpoint("m", server.base_url, "key", provider=provider))
        try:
            yield server, model
        finally:
            await model.close()


def after(reply: ModelReply, thoughts: str | None = None) -> ModelRequest:
    """The request after a reply that calls tools."""
    said = Message("assistant", reply.text, reply.tool_calls).to_wire()
    results = [
        Message("tool", "A moon.", call_id=call.id, tool="look").to_wire()
        for call in reply.tool_calls
    ]
    kept = reply.thoughts if thoughts is None else thoughts
    beside = Beside({reply.tool_calls[0].id: kept} if kept else {})
    return replace(HELLO, messages=[*HELLO.messages, said, *results], beside=beside)


async def ask(model: OpenAIModel, request: ModelRequest = HELLO) -> ModelReply:
    return await model.reply(request, lambda _: None)


def test_three_providers_want_something_back() -> None:
    assert WANTING == {"deepseek": TEXT, "gemini": SIGNATURES, "openrouter": DETAILS}


@pytest.mark.parametrize("provider", WANTING)
async def test_a_tool_loop_is_taken_by_who_wants_thoughts_back(provider: str) -> None:
    first = Say("One moment.", CALLS, reasoning="I should look at the sky.")
    async with conversation(provider, first, Say("Two moons.")) as (server, model):
        reply = await ask(model)
        assert (await ask(model, after(reply))).text == "Two moons."
        said = server.requests[-1].body["messages"][1]
    kept: dict[str, Any] = {
        TEXT: said.get(TEXT),
        DETAILS: said.get(DETAILS),
        SIGNATURES: said["tool_calls"][0].get(SIGNATURES),
    }
    assert kept == {
        TEXT: "I should look at the sky." if provider == "deepseek" else None,
        DETAILS: [DETAIL] if provider == "openrouter" else None,
        SIGNATURES: {"google": {"thought_signature": "signed-look"}}
        if provider == "gemini"
        else None,
    }
    assert SIGNATURES not in said["tool_calls"][1]


@pytest.mark.parametrize("provider", WANTING)
@pytest.mark.parametrize(
    "thoughts",
    ["", "[1, 2", '[{"type": "thinking", "thinking": "Hm.", "signature": "s"}, "c1"]', "{}"],
)
async def test_calls_that_another_model_made_are_taken_too(provider: str, thoughts: str) -> None:
    made = ModelReply("", (ToolCall("c1", "look", "{}"),), "tool_calls", "another")
    async with conversation(provider, Say("I see.")) as (_, model):
        assert (await ask(model, after(made, thoughts))).text == "I see."


@pytest.mark.parametrize("provider", ["openai", "groq", "vllm"])
async def test_nobody_else_is_sent_any(provider: str) -> None:
    first = Say("One moment.", CALLS, reasoning="I should look.")
    async with conversation(provider, first, Say("Two moons.")) as (_, model):
        reply = await ask(model)
        assert reply.thoughts == ""
        kept = json.dumps({TEXT: "Hm.", DETAILS: [{}], SIGNATURES: [{"google": {}}]})
        assert (await ask(model, after(reply, kept))).text == "Two moons."


def test_details_grow_piece_by_piece() -> None:
    details: list[dict[str, Any]] = []
    for piece in (
        {"type": "reasoning.text", "index": 0, "text": "I ", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "see.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ):
        add_details(details, [piece])
    assert details == [
        {"type": "reasoning.text", "index": 0, "text": "I see.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc"},
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.lists(JSON), st.sampled_from([TEXT, DETAILS, SIGNATURES]), JSON)
def test_what_has_any_shape_breaks_nothing(pieces: list[Any], field: str, kept: Any) -> None:
    details: list[dict[str, Any]] = []
    add_details(details, pieces)
    said = Message("assistant", "", (ToolCall("c1", "look", "{}"),)).to_wire()
    for thoughts in (json.dumps(kept), json.dumps({field: kept})):
        made = put_back(said, field, thoughts)
        assert made["tool_calls"][0]["id"] == "c1"
