"""Anthropic's Messages API: requests, answers, and the cache."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.anthropic_answer import AnthropicAnswer, read_layout
from agent.models.anthropic_request import LONGEST_REPLY, to_body, to_neutral
from agent.models.base import ContextOverflow, ModelReply, ModelRequest
from memory.messages import NOTHING_BESIDE, ToolCall
from tests.agent.endpoints import (
    BARE_TOOL,
    CLAUDE,
    HELLO,
    HELLO_WITH_TOOL,
    KEY,
    TOOL,
    after,
    ask,
    conversation,
    said,
    user,
)
from tests.fakes.anthropic_server import AnthropicServer, Think
from tests.fakes.openai_server import Call, Fail, Say

LONG = "It was a dark and stormy night. " * 200


def body_of(server: AnthropicServer, index: int = -1) -> dict[str, Any]:
    return server.requests[index].body


# --- a request ---


async def test_a_request_is_what_the_api_wants_and_nothing_else() -> None:
    system = {"role": "system", "content": "Be brief."}
    request = ModelRequest([system, user("Hello?")], [TOOL, BARE_TOOL], temperature=0.3)
    async with conversation(CLAUDE, Say("Yes.")) as (server, model):
        await ask(model, request)
        headers, body = server.requests[0].headers, body_of(server)
    marked = {"cache_control": {"type": "ephemeral"}}
    assert headers["Authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "fake-model",
        "max_tokens": LONGEST_REPLY,
        "stream": True,
        "system": [{"type": "text", "text": "Be brief.", **marked}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Hello?", **marked}]},
        ],
        "tools": [
            {"name": "look", "description": "Look.", "input_schema": {"type": "object"}},
            {"name": "act", "input_schema": {"type": "object"}},
        ],
    }


async def test_a_clients_parameters_are_put_in_the_apis_words() -> None:
    parameters = {
        "stop": ["END", " "],
        "seed": 7,
        "top_p": 0.5,
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "reasoning_effort": "low",
        "response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "object"}}},
    }
    request = ModelRequest(HELLO.messages, [TOOL], max_tokens=9, parameters=parameters)
    async with conversation(CLAUDE, Say("Yes.")) as (server, model):
        await ask(model, request)
        body = body_of(server)
    assert body["stop_sequences"] == ["END"]
    choice = {"type": "tool", "name": "look", "disable_parallel_tool_use": True}
    assert body["tool_choice"] == choice
    schema = {"type": "json_schema", "schema": {"type": "object"}}
    assert body["output_config"] == {"effort": "low", "format": schema}
    assert body["max_tokens"] == 9
    assert not {"seed", "top_p"} & body.keys()


async def test_a_picture_is_sent_as_one_and_words_stand_for_it_where_it_is_refused() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
    content = [{"type": "text", "text": "What is it?"}, picture]
    refusal = Fail(400, {"type": "invalid_request_error", "message": "Could not process image"})
    async with conversation(CLAUDE, refusal, Say("Nothing.")) as (server, model):
        await ask(model, ModelRequest([{"role": "user", "content": content}]))
        bodies = [received.body for received in server.requests]
    first, second = (body["messages"][0]["content"] for body in bodies)
    source = {"type": "base64", "media_type": "image/png", "data": "iVBO"}
    assert first[1]["source"] == source
    assert [block["type"] for block in second] == ["text"]
    assert "could not read it" in second[0]["text"]


TEXTS = st.sampled_from(["", " ", "yes", "Привет", "<x>"])
IDS = st.sampled_from(["call_1", "functions.look:0", "toolu_1", "a" * 90])


@st.composite
def steps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw the messages that one step of a turn adds to the wire: perhaps calls with their results,
    perhaps notes."""
    made: list[dict[str, Any]] = []
    for call in draw(st.lists(IDS, max_size=3, unique=True)):
        function = {"name": draw(st.sampled_from(["look", "no.such", ""])), "arguments": "{}"}
        made.append({"id": call, "type": "function", "function": function})
    text = draw(TEXTS)
    if not made:
        return [said(text)]
    results = [{"role": "tool", "tool_call_id": c["id"], "content": draw(TEXTS)} for c in made]
    notes = [user(note) for note in draw(st.lists(TEXTS, max_size=2))]
    return [{"role": "assistant", "content": text or None, "tool_calls": made}, *results, *notes]


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["Be brief.", " "]), max_size=2),
    st.lists(st.tuples(TEXTS, st.lists(steps(), max_size=3)), max_size=6),
    st.booleans(),
    st.booleans(),
)
def test_whatever_was_said_becomes_a_request_that_the_api_takes(
    system: list[str], turns: list[tuple[str, list[list[dict[str, Any]]]]], tools: bool, once: bool
) -> None:
    said_so_far = [m for text, made in turns for m in (user(text), *(m for s in made for m in s))]
    messages = [*({"role": "system", "content": text} for text in system), *said_so_far]
    request = ModelRequest([*messages, user("And now?")], [TOOL] if tools else (), is_once=once)
    body = to_body(to_neutral("claude", request), NOTHING_BESIDE)
    refused = AnthropicServer()._refuse(json.loads(json.dumps(body)))
    assert refused is None, refused


def test_messages_of_a_system_between_others_are_shown_as_reminders() -> None:
    request = ModelRequest([user("Hello."), {"role": "system", "content": "Be kind."}])
    (message,) = to_body(to_neutral("claude", request), NOTHING_BESIDE)["messages"]
    assert message["content"][1]["text"] == "<system-reminder>\nBe kind.\n</system-reminder>"


# --- tools and thoughts ---


async def test_thoughts_are_sent_back_with_the_calls_as_they_came() -> None:
    calls = (Call("look", '{"at": 1}'), Call("look", '{"at": 2}'))
    thought = Think("Let me see.", calls, "I should look.", redacted="c2VjcmV0", again="Twice.")
    more = Think(calls=(Call("look", "{}"),), reasoning="Once more.")
    async with conversation(CLAUDE, thought, more, Say("A moon.")) as (server, model):
        first = await ask(model, HELLO_WITH_TOOL)
        second_request = after(HELLO_WITH_TOOL, first)
        second = await ask(model, second_request)
        third = await ask(model, after(second_request, second))
        messages = body_of(server)["messages"]
    assert first.reasoning == "I should look.Twice."
    kinds = [block["type"] for block in messages[1]["content"]]
    assert kinds == ["thinking", "redacted_thinking", "text", "thinking", "tool_use", "tool_use"]
    assert [block["type"] for block in messages[3]["content"]] == ["thinking", "tool_use"]
    assert third.text == "A moon."


async def test_thoughts_that_another_model_had_are_left_out_once_they_are_refused() -> None:
    foreign = '[{"type": "thinking", "thinking": "Hm.", "signature": "theirs"}, "toolu_9"]'
    made = ModelReply("", (ToolCall("toolu_9", "look", "{}"),), "tools", "m")
    async with conversation(CLAUDE, Say("I see.")) as (server, model):
        answer = await ask(model, after(HELLO_WITH_TOOL, made, foreign))
        kinds = [[b["type"] for b in r.body["messages"][1]["content"]] for r in server.requests]
    assert answer.text == "I see."
    assert kinds == [["thinking", "tool_use"], ["tool_use"]]


def test_thoughts_that_a_file_made_up_are_none() -> None:
    for junk in ("{", "7", '[{"type": "text", "text": "I am you"}, 1.5, null]'):
        assert read_layout(junk) == []


async def test_a_call_that_failed_is_marked_as_one() -> None:
    calls = (Call("look", "{}"), Call("look", "{}"))
    async with conversation(CLAUDE, Say(calls=calls), Say("Oh.")) as (server, model):
        first = await ask(model, HELLO_WITH_TOOL)
        failed = frozenset({first.tool_calls[0].id})
        await ask(model, after(HELLO_WITH_TOOL, first, errors=failed))
        results = body_of(server)["messages"][2]["content"]
    assert [result.get("is_error", False) for result in results] == [True, False]


async def test_how_hard_it_thinks_is_put_as_the_model_takes_it() -> None:
    old = {"message": "adaptive thinking is not supported on this model"}
    none = {"message": "output_config.effort: this model does not support the effort parameter."}
    script = (Fail(400, old), Fail(400, none), Say("One."), Say("Two."))
    async with conversation(CLAUDE, *script, effort="medium") as (server, model):
        await ask(model)
        await ask(model)
        sent = [(r.body.get("thinking"), r.body.get("output_config")) for r in server.requests]
    enabled = {"type": "enabled", "budget_tokens": 8_192}
    assert sent[0] == ({"type": "adaptive"}, {"effort": "medium"})
    assert sent[1] == (enabled, {"effort": "medium"})
    assert sent[2:] == [(enabled, None)] * 2


# --- an answer ---


async def test_why_an_answer_ends_is_said_in_our_own_terms() -> None:
    reasons = {
        "stop": "complete",
        "stop_sequence": "complete",
        "length": "length",
        "model_context_window_exceeded": "length",
        "content_filter": "refused",  # the fake says `refusal`
        "of_tomorrow": "unknown",
    }
    script = [Say("So far.", finish=reason) for reason in reasons]
    async with conversation(CLAUDE, *script) as (_, model):
        assert [(await ask(model)).finish for _ in reasons] == [*reasons.values()]


async def test_an_answer_that_pauses_goes_on_and_is_one_answer() -> None:
    script = (Think("Half", finish="pause_turn", reasoning="Hm."), Say(", and half."))
    async with conversation(CLAUDE, *script) as (server, model):
        reply = await ask(model)
        counted = [bill.prompt for bill in server.bills]
        last = body_of(server)["messages"][-1]
    assert (reply.text, reply.finish) == ("Half, and half.", "complete")
    assert reply.usage is not None
    assert reply.usage.prompt == sum(counted)
    assert [block["type"] for block in last["content"]] == ["thinking", "text"]


EVENTS = st.recursive(
    st.none() | st.integers() | st.text(max_size=5) | st.sampled_from(["text", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "index", "delta", "content_block", "message", "usage", "text"]
            ),
            inner
            | st.sampled_from(["message_start", "content_block_start", "content_block_delta"]),
            max_size=4,
        )
    ),
    max_leaves=12,
)


def test_a_piece_of_a_block_that_never_began_is_none() -> None:
    answer = AnthropicAnswer()
    delta = {"type": "text_delta", "text": "Hm."}
    assert answer.add({"type": "content_block_delta", "index": 7, "delta": delta}) == ""
    assert answer.text == ""


@settings(max_examples=50)
@given(st.lists(EVENTS, max_size=8))
def test_no_event_of_any_shape_breaks_an_answer(events: list[Any]) -> None:
    answer = AnthropicAnswer()
    for event in events:
        answer.add(event)
    assert answer.reply("m").text == answer.text


# --- an answer that must be shorter ---


async def test_an_answer_is_as_long_as_the_model_can_write() -> None:
    brief = replace(CLAUDE, server=partial(AnthropicServer, longest=8_192))
    async with conversation(brief, Say("One."), Say("Two.")) as (server, model):
        await ask(model)
        await ask(model)
        assert [r.body["max_tokens"] for r in server.requests] == [LONGEST_REPLY, 8_192, 8_192]


async def test_where_only_the_answer_does_not_fit_a_shorter_one_is_asked_for() -> None:
    long = ModelRequest([user(LONG)])
    wide, narrow = (
        replace(CLAUDE, server=partial(AnthropicServer, window=size)) for size in (10_000, 1_700)
    )
    async with conversation(wide, Say("Yes.")) as (server, model):
        assert (await ask(model, long)).text == "Yes."
        assert body_of(server)["max_tokens"] < 10_000
    async with conversation(narrow) as (_, model):
        with pytest.raises(ContextOverflow) as caught:
            await ask(model, long)
    assert caught.value.window == 1_700


# --- the cache ---


async def test_what_was_sent_before_is_read_and_only_what_is_new_is_written() -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": LONG}]
    script = [Say(f"Answer {n}.") for n in range(12)]
    async with conversation(CLAUDE, *script) as (server, model):
        for number in range(12):
            messages.append(user(f"Question {number}?"))
            reply = await ask(model, ModelRequest(messages, [TOOL]))
            messages.append(said(reply.text))
            assert reply.usage is not None
        bills = server.bills
    assert bills[0].read == 0
    for before, now in pairwise(bills):
        assert now.read == before.prompt
        assert now.fresh == 0
        assert now.written < 60
    assert reply.usage
    assert (reply.usage.cached, reply.usage.written) == (bills[-1].read, bills[-1].written)


async def test_a_step_of_many_calls_reads_what_was_sent_before_it() -> None:
    calls = tuple(Call("look", "{}") for _ in range(30))
    request = ModelRequest([{"role": "system", "content": LONG}, user(LONG)], [TOOL])
    async with conversation(CLAUDE, Say(calls=calls), Say("All round.")) as (server, model):
        first = await ask(model, request)
        await ask(model, after(request, first))
        before, now = server.bills
    assert now.read == before.prompt


async def test_a_cut_leaves_the_system_prompt_to_be_read() -> None:
    system = {"role": "system", "content": LONG}
    async with conversation(CLAUDE, Say("One."), Say("Two.")) as (server, model):
        await ask(model, ModelRequest([system, user("One?")], [TOOL]))
        await ask(model, ModelRequest([system, user("A summary. Two?")], [TOOL]))
        assert server.bills[1].read > 1_500


async def test_nothing_is_kept_of_what_is_asked_once() -> None:
    async with conversation(CLAUDE, Say("In short.")) as (server, model):
        await ask(model, ModelRequest([user(LONG)], is_once=True))
        assert server.bills[0].written == 0


async def test_what_is_kept_for_nobody_is_not_written_where_no_tool_may_be_called() -> None:
    """The cache of the messages is valid for one choice of tools alone."""
    system = {"role": "system", "content": LONG}
    request = ModelRequest([system, user(LONG)], [TOOL])
    aside = ModelRequest([system, user(LONG)], [TOOL], tool_choice="none")
    async with conversation(CLAUDE, Say("One."), Say("Aside."), Say("Two.")) as (server, model):
        for one in (request, aside, request):
            await ask(model, one)
        first, beside, again = server.bills
    assert (beside.written, beside.read > 1_500) == (0, True)
    assert again.read == first.prompt


async def test_no_request_has_more_than_four_marks() -> None:
    system = [{"role": "system", "content": text} for text in ("Be brief.", "A summary.")]
    talk = [user("One?"), said("One."), user("Two?")]
    async with conversation(CLAUDE, Say("Yes.")) as (server, model):
        await ask(model, ModelRequest([*system, *talk], [TOOL]))
        assert server.requests[-1].raw.count(b'"cache_control"') == 4
