"""Answers put together from chunks of every kind."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.models.answer import MOST_CALLS, MOST_CHARACTERS, Answer
from agent.models.base import ModelReply
from memory.messages import ToolCall
from tests.fakes.openai_server import Call, Say, choices

TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
CALLS = st.lists(st.builds(Call, st.sampled_from(["look", "act"]), TEXTS), max_size=4)
KEYS = st.sampled_from(
    ["choices", "delta", "message", "content", "reasoning", "tool_calls", "function", "index"]
) | st.sampled_from(["id", "name", "arguments", "usage", "prompt_tokens", "finish_reason"])
JSON = st.recursive(
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
    assert reply.text == "".join(streamed) == text
    assert reply.reasoning == reasoning
    assert [(c.name, c.arguments) for c in reply.tool_calls] == [
        (c.name, c.arguments) for c in calls
    ]
    assert len({c.id for c in reply.tool_calls}) == len(calls)
    assert answer.is_whole


@given(st.lists(JSON, max_size=4))
def test_no_chunk_of_any_shape_breaks_it(chunks: list[Any]) -> None:
    answer = Answer()
    for chunk in chunks:
        answer.add(chunk)
    assert isinstance(answer.reply("m"), ModelReply)


def test_calls_that_all_have_index_0_are_told_apart_by_their_ids() -> None:
    reply = reply_of(
        part(index=0, id="a", name="look", arguments='{"x":'),
        part(index=0, arguments="1}"),
        part(index=0, id="b", name="look", arguments="{}"),
    )
    assert reply.tool_calls == (ToolCall("a", "look", '{"x":1}'), ToolCall("b", "look", "{}"))


def test_calls_without_an_index_begin_with_a_name() -> None:
    reply = reply_of(
        part(id="a", name="look", arguments="{"),
        part(arguments="}"),
        part(id="b", name="act", arguments="{}"),
    )
    assert reply.tool_calls == (ToolCall("a", "look", "{}"), ToolCall("b", "act", "{}"))


def test_an_id_and_name_that_are_sent_again_with_every_piece_make_one_call() -> None:
    reply = reply_of(
        part(index=0, id="a", name="look", arguments="{"),
        part(index=0, id="a", name="look", arguments="}"),
    )
    assert reply.tool_calls == (ToolCall("a", "look", "{}"),)


def test_a_call_without_a_name_is_no_call() -> None:
    assert reply_of(part(index=0, id="a", arguments="{}")).tool_calls == ()


def test_reasoning_is_read_under_both_of_its_names() -> None:
    assert reply_of({"reasoning": "Hm, "}, {"reasoning_content": "yes."}).reasoning == "Hm, yes."


def test_a_refusal_is_text() -> None:
    assert reply_of({"refusal": "I can't help with that."}).text == "I can't help with that."


def test_the_model_is_named_by_the_endpoint_or_else_by_the_request() -> None:
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
        *(part(index=n, id=f"c{n}", name="look", arguments=f"{n}") for n in range(40_000))
    )
    assert [call.arguments for call in reply.tool_calls] == [str(n) for n in range(MOST_CALLS)]
    assert reply.finish == "length"


def test_a_call_whose_arguments_have_no_end_is_none() -> None:
    whole, endless = part(index=0, name="look", arguments="{}"), part(index=1, name="act")
    more = part(index=1, arguments="1" * MOST_CHARACTERS)
    assert [call.name for call in reply_of(whole, endless, more).tool_calls] == ["look"]


def test_an_index_may_be_anything() -> None:
    indexes: list[Any] = [[], {}, 1.5, "1", 1, True]
    reply = reply_of(*(part(index=index, name="look", arguments="{}") for index in indexes))
    assert len(reply.tool_calls) >= 4
