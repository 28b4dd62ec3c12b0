"""OpenAI's chat completions: requests, and the chunks of an answer."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.answer import MOST_CHARACTERS, Answer
from agent.models.base import ModelReply, ModelRequest, Usage
from agent.models.brain import PROVIDERS
from agent.models.chat_thoughts import DETAILS, SIGNATURES, TEXT, add_details, restore_thoughts
from agent.models.partial_calls import MOST_CALLS, repair
from memory.messages import Message, ToolCall
from tests.agent.endpoints import CHAT, HELLO, HELLO_WITH_TOOL, KEY, after, ask, conversation
from tests.fakes.openai_server import Answer as Scripted
from tests.fakes.openai_server import Body, Call, Fail, Say, choices

# --- a request ---


async def test_a_request_holds_what_was_given_and_nothing_else() -> None:
    request = ModelRequest(
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "é\u2028"}]
    )
    schema = {"type": "object", "properties": {"answer": {"type": "string"}}}
    limited = replace(request, max_tokens=64, temperature=0.0, schema=schema)
    async with conversation(CHAT, Say("Yes."), Say("{}")) as (server, model):
        await ask(model, request)
        await ask(model, limited)
        plain, more = (one.body for one in server.requests)
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"
    assert plain == {
        "model": "fake-model",
        "messages": request.messages,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    asked = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
    assert more == plain | {"max_tokens": 64, "temperature": 0.0, "response_format": asked}


@pytest.mark.parametrize(
    ("provider", "in_body", "in_header"),
    [("openai", "abc", None), ("xai", None, "abc"), ("", None, None)],
)
async def test_a_provider_that_wants_to_know_is_told_which_conversation_it_is(
    provider: str, in_body: str | None, in_header: str | None
) -> None:
    script = [Say("Hi."), Say("Hi.")]
    async with conversation(CHAT, *script, provider=provider) as (server, model):
        await ask(model, replace(HELLO, affinity="abc"))
        await ask(model)
        told, untold = server.requests
    assert told.body.get("prompt_cache_key") == in_body
    assert told.headers.get("x-grok-conv-id") == in_header
    assert "prompt_cache_key" not in untold.body


async def test_what_an_endpoint_refuses_is_left_out_or_named_otherwise_from_then_on() -> None:
    complaints = (
        "Unrecognized request argument supplied: stream_options",
        "Unrecognized request argument supplied: prompt_cache_key",
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "Unsupported value: 'temperature' does not support 0.2.",
    )
    refusals = [Fail(400, {"message": said}) for said in complaints]
    script: list[Scripted] = [*refusals, Say("One."), Say("Two.")]
    request = replace(HELLO, affinity="abc", max_tokens=9, temperature=0.2)
    async with conversation(CHAT, *script, provider="azure") as (server, model):
        assert (await ask(model, request)).text == "One."
        assert (await ask(model, request)).text == "Two."
        bodies = [one.body for one in server.requests]
    names = ("stream_options", "prompt_cache_key", "max_tokens", "temperature")
    assert [sum(name in body for name in names) for body in bodies] == [4, 3, 2, 1, 0, 0]
    assert bodies[-1] == {
        "model": "fake-model",
        "messages": HELLO.messages,
        "stream": True,
        "max_completion_tokens": 9,
    }


# --- usage ---


async def test_usage_comes_at_the_end_of_a_stream() -> None:
    long = ModelRequest([{"role": "user", "content": "word " * 2000}])
    async with conversation(CHAT, Say("One."), Say("Two.")) as (_, model):
        replies = [await ask(model, long) for _ in range(2)]
    assert [reply.usage for reply in replies] == [Usage(2508, 2), Usage(2508, 2, cached=2432)]


# --- an answer ---


async def test_an_endpoint_that_does_not_stream_is_understood() -> None:
    whole = (
        '{"model": "m", "choices": [{"finish_reason": "stop", "message": {"content": "All at '
        'once."}}], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}'
    )
    pieces: list[str] = []
    async with conversation(CHAT, Body(whole, "application/json")) as (_, model):
        reply = await ask(model, on_delta=pieces.append)
    assert (reply.text, pieces) == ("All at once.", ["All at once."])
    assert reply.usage == Usage(prompt=7, completion=3)


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
CALLS = st.lists(st.builds(Call, st.sampled_from(["look", "act"]), TEXTS), max_size=4)
KEYS = st.sampled_from(
    ["choices", "delta", "message", "content", "reasoning", "tool_calls", "function", "index"]
) | st.sampled_from(["id", "name", "arguments", "usage", "prompt_tokens", "finish_reason"])
CHUNKS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def reply_of(*deltas: dict[str, Any]) -> ModelReply:
    answer = Answer()
    for delta in deltas:
        answer.add({"choices": [{"delta": delta}]})
    return answer.reply("m")


def part(**fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {"tool_calls": [fields | {"function": function}]}


@settings(max_examples=40)
@given(TEXTS, TEXTS, CALLS, st.integers(1, 9))
def test_nothing_is_lost_however_an_answer_is_cut_into_chunks(
    text: str, reasoning: str, calls: list[Call], pieces: int
) -> None:
    answer = Answer()
    streamed = [
        answer.add({"choices": [choice]})
        for choice in choices(Say(text, tuple(calls), reasoning, pieces=pieces))
    ]
    reply = answer.reply("m")
    is_thought = bool(reasoning) and not calls and not text.strip()
    assert (reply.text, reply.reasoning) == ((reasoning, "") if is_thought else (text, reasoning))
    shown = "".join(streamed)
    assert text.startswith(shown), "what may be a tag is held back until it is known"
    assert shown == text or text.lstrip()[:1] in ("", "<")
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [
        (c.name, repair(c.arguments)) for c in calls
    ]
    assert len({c.id for c in reply.tool_calls if c.id}) == len(calls), "ids are made up"
    assert answer.is_whole


@settings(max_examples=60)
@given(st.lists(CHUNKS, max_size=4))
def test_no_chunk_of_any_shape_breaks_it(chunks: list[Any]) -> None:
    answer = Answer()
    for chunk in chunks:
        answer.add(chunk)
    assert isinstance(answer.reply("m"), ModelReply)


def test_an_index_may_be_anything() -> None:
    indexes: list[Any] = [[], {}, 1.5, "1", 1, True]
    reply = reply_of(*(part(index=index, name="look", arguments="{}") for index in indexes))
    assert len(reply.tool_calls) >= 4


def test_the_model_that_answers_is_the_one_that_is_named_in_the_answer() -> None:
    answer = Answer()
    assert answer.reply("asked").model == "asked"
    answer.add({"model": "answered-2026", "choices": []})
    assert answer.reply("asked").model == "answered-2026"


def test_of_a_text_without_an_end_so_much_is_kept() -> None:
    answer = Answer()
    while not answer.is_full:
        answer.add({"choices": [{"delta": {"content": "word " * 10_000, "reasoning": "Hm. "}}]})
    reply = answer.reply("m")
    assert len(reply.text) + len(reply.reasoning) == MOST_CHARACTERS
    assert (reply.finish, answer.is_whole) == ("length", True)


def test_of_calls_without_an_end_so_many_are_kept_and_each_is_whole() -> None:
    reply = reply_of(
        *(part(index=n, id=f"c{n}", name="look", arguments=f"{n}") for n in range(2 * MOST_CALLS))
    )
    assert [call.arguments for call in reply.tool_calls] == [str(n) for n in range(MOST_CALLS)]
    assert reply.finish == "length"


def test_a_call_whose_arguments_have_no_end_is_none() -> None:
    whole, endless = part(index=0, name="look", arguments="{}"), part(index=1, name="act")
    more = part(index=1, arguments="1" * MOST_CHARACTERS)
    assert [call.name for call in reply_of(whole, endless, more).tool_calls] == ["look"]


# --- what some endpoints want back with a model's calls ---

TWO_CALLS = (Call("look", "{}", "c1"), Call("look", '{"at": 2}', "c2"))
THINKING = Say("One moment.", TWO_CALLS, reasoning="I should look.")
DETAIL = {"type": "reasoning.text", "index": 0, "text": "I should look.", "signature": None}
WANTED: dict[str, dict[str, Any]] = {
    "deepseek": {TEXT: "I should look."},
    "openrouter": {DETAILS: [DETAIL]},
    "gemini": {SIGNATURES: {"google": {"thought_signature": "signed-look"}}},
    "minimax": {DETAILS: [DETAIL]},
    "moonshot": {TEXT: "I should look."},
    "volcengine": {TEXT: "I should look."},
    "zai": {TEXT: "I should look."},
}
"""The providers with a requirement, its field, and the required value."""


def test_no_other_provider_wants_something_back() -> None:
    assert {name: one.thoughts for name, one in PROVIDERS.items() if one.thoughts} == {
        name: next(iter(wanted)) for name, wanted in WANTED.items()
    }


@pytest.mark.parametrize("provider", WANTED)
async def test_a_tool_loop_is_taken_by_who_wants_thoughts_back(provider: str) -> None:
    script = [THINKING, Say("Two moons."), *[Say("I see.")] * 4]
    async with conversation(CHAT, *script, provider=provider) as (server, model):
        server.thoughts = PROVIDERS[provider].thoughts
        server.known |= orjson.loads(PROVIDERS[provider].extra or "{}").keys()
        step = after(HELLO_WITH_TOOL, await ask(model, HELLO_WITH_TOOL))
        assert (await ask(model, step)).text == "Two moons."
        said = server.requests[-1].body["messages"][1]
        made = ModelReply("", (ToolCall("c1", "look", "{}"),), "tools", "another")
        others = '[{"type": "thinking", "thinking": "Hm.", "signature": "s"}, "c1"]'
        for thoughts in ("", "[1, 2", others, "{}"):  # of calls made by another model
            assert (await ask(model, after(HELLO_WITH_TOOL, made, thoughts))).text == "I see."
    fields = {**said, **said["tool_calls"][0]}
    kept = {name: fields[name] for name in (TEXT, DETAILS, SIGNATURES) if name in fields}
    assert kept == WANTED[provider]
    assert SIGNATURES not in said["tool_calls"][1]


async def test_nobody_else_is_sent_any() -> None:
    async with conversation(CHAT, THINKING, Say("Two moons."), provider="groq") as (_, model):
        reply = await ask(model, HELLO_WITH_TOOL)
        assert reply.thoughts == ""
        kept = json.dumps({TEXT: "Hm.", DETAILS: [{}], SIGNATURES: [{"google": {}}]})
        assert (await ask(model, after(HELLO_WITH_TOOL, reply, kept))).text == "Two moons."


def test_details_grow_piece_by_piece() -> None:
    details: list[dict[str, Any]] = []
    for piece in (
        {"type": "reasoning.text", "index": 0, "text": "I ", "signature": None},
        {"type": "reasoning.text", "index": 0, "text": "see.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc", "id": "one"},
        {"type": "reasoning.encrypted", "index": 1, "data": "def", "id": "two"},
    ):
        add_details(details, [piece])
    assert details == [
        {"type": "reasoning.text", "index": 0, "text": "I see.", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 1, "data": "abc", "id": "one"},
        {"type": "reasoning.encrypted", "index": 1, "data": "def", "id": "two"},
    ]


def test_details_that_come_whole_so_far_are_not_doubled() -> None:
    details: list[dict[str, Any]] = []
    own = {"type": "reasoning.text", "index": 0, "format": "MiniMax-response-v1"}
    for text in ("I ", "I should", "I should look.", " Yes."):
        add_details(details, [{**own, "text": text}])
    assert details == [{**own, "text": "I should look. Yes."}]


def test_calls_without_thoughts_have_a_field_that_is_not_empty() -> None:
    said = Message("assistant", "", (ToolCall("c1", "look", "{}"),)).to_wire()
    for thoughts in ("", json.dumps({TEXT: ""}), json.dumps({DETAILS: [{}]})):
        assert restore_thoughts(said, TEXT, thoughts, "")[TEXT].strip()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(JSON), st.sampled_from([TEXT, DETAILS, SIGNATURES]), JSON)
def test_details_and_thoughts_of_any_shape_break_nothing(
    pieces: list[Any], field: str, kept: Any
) -> None:
    details: list[dict[str, Any]] = []
    add_details(details, pieces)
    said = Message("assistant", "", (ToolCall("c1", "look", "{}"),)).to_wire()
    for thoughts in (json.dumps(kept), json.dumps({field: kept})):
        made = restore_thoughts(said, field, thoughts, "")
        assert made["tool_calls"][0]["id"] == "c1"
