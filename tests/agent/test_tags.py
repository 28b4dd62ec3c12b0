"""Thoughts and calls that a server left in the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.answer import Answer
from agent.models.base import ModelRequest
from agent.models.tags import ThoughtFilter, lift_calls, split_thoughts, without_markup
from memory.messages import ToolCall
from tests.agent.endpoints import CHAT, TOOL, ask, conversation, user
from tests.fakes.openai_server import Say


def filtered(text: str, cuts: list[int]) -> tuple[str, str, str]:
    """What is shown, what of it is held back until the end, and the thoughts."""
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    thoughts = ThoughtFilter()
    shown = thought = ""
    for start, end in pairwise(places):
        shown += thoughts.feed(text[start:end])
        thought += thoughts.thought
    held = thoughts.finish()
    return shown, held, thought + thoughts.thought


CUTS = st.lists(st.integers(0, 200), max_size=30)
THOUGHTS = st.text("ab <>/\n", max_size=20)


@settings(max_examples=150)
@given(THOUGHTS, st.text("ab <>/\n`", max_size=20), st.sampled_from(["think", "THINKING"]), CUTS)
def test_thoughts_at_the_beginning_are_none_of_the_answer(
    thought: str, text: str, tag: str, cuts: list[int]
) -> None:
    whole = f"\n<{tag}>{thought}</{tag}>\n\n{text}"
    assert filtered(whole, cuts) == (text.lstrip(), "", thought)


@settings(max_examples=150)
@given(st.text("ab <>/think\n", max_size=24), CUTS)
def test_all_else_is_answer(text: str, cuts: list[int]) -> None:
    if text.lstrip().startswith("<think>"):
        return
    shown, held, thought = filtered(text, cuts)
    assert (shown + held, thought) == (text, "")


@pytest.mark.parametrize("text", ["Say <think>no</think>.", "`<think>` begins it.", "<b>Hm</b>"])
def test_a_tag_within_is_text(text: str) -> None:
    assert filtered(text, list(range(len(text))))[0] == text
    assert split_thoughts(text) == (text, "")


def test_thoughts_without_an_end_are_thoughts() -> None:
    assert filtered("<think>Hm. And</thi", [9, 16]) == ("", "", "Hm. And</thi")


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("Hm.\nSo.\n</think>\n\nHello.", "Hello.", "Hm.\nSo."),
        ("Hm.</think>Hello.", "Hello.", "Hm."),
        ("</think>\nHello.", "Hello.", ""),
        ("Hm. </think>\nHello.", "Hello.", "Hm."),
    ],
)
def test_thoughts_whose_beginning_is_in_the_prompt_are_none_of_the_answer(
    text: str, answer: str, thought: str
) -> None:
    assert split_thoughts(text) == (answer, thought)
    whole = Answer()
    whole.add({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]})
    reply = whole.reply("m")
    assert (reply.text, reply.reasoning) == (answer, thought)


@pytest.mark.parametrize(
    "text",
    [
        "```\nHm.\n</think>\n```\nThat ends it.",
        "Write `</think>` there.",
        "Write </think> there.",
        'The end is "</think>", as ever.',
        "Well.\n<think>\nHm.\n</think>\nHello.",
    ],
)
def test_a_tag_that_is_spoken_of_stays(text: str) -> None:
    assert split_thoughts(text) == (text, "")


CALL = '<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>'


def test_a_call_in_the_text_is_a_call() -> None:
    text, (one, two) = lift_calls(f"Let me look.\n{CALL}\n{CALL}", ["look"])
    assert (text, one.name, two.arguments) == ("Let me look.", "look", '{"at":1}')
    assert one.id != two.id
    assert without_markup(f"Hm.</think>Let me look.\n{CALL}").strip() == "Let me look."


@pytest.mark.parametrize(
    "text",
    [
        CALL.replace("look", "burn"),
        f"```\n{CALL}\n```",
        f"Write {CALL}",
        "<tool_call>\n{half}\n</tool_call>",
        '<tool_call>\n{"name": "look", "arguments": 7}\n</tool_call>',
    ],
)
def test_what_is_no_call_stays(text: str) -> None:
    assert lift_calls(text, ["look"]) == (text, ())


async def test_a_call_is_lifted_where_the_tool_was_offered() -> None:
    offered = "look"  # as TOOL is called
    text = CALL
    request = ModelRequest([user("Look!")], [TOOL])
    async with conversation(CHAT, *[Say(text)] * 3) as (_, model):
        lifted = await ask(model, request)
        aside = await ask(model, replace(request, tool_choice="none"))
        bare = await ask(model, replace(request, tools=()))
    (call,) = lifted.tool_calls
    assert (lifted.text, lifted.finish) == ("", "tools")
    assert call == ToolCall(call.id, offered, '{"at":1}')
    assert [(reply.text, reply.finish) for reply in (aside, bare)] == [(text, "complete")] * 2


def test_thoughts_in_tags_are_no_answer_by_themselves() -> None:
    for text in ("<think>Hm.</think>", "Hm.\n</think>\n"):
        whole = Answer()
        whole.add({"choices": [{"delta": {"content": text}, "finish_reason": "stop"}]})
        reply = whole.reply("m")
        assert (reply.text, reply.reasoning) == ("", "Hm.")


@pytest.mark.timeout(20)
def test_no_text_takes_longer_than_its_length() -> None:
    for text in ("<tool_call>{\n" * 100_000, "<tool_call>{\n" * 99 + "{}" * 50_000 + "x"):
        assert lift_calls(text, ["look"]) == (text, ())
        assert without_markup(text) == text
    for piece in (" ", "\n", "</", "a</think> b\n"):
        thoughts = ThoughtFilter()
        assert len("".join(thoughts.feed(piece) for _ in range(100_000))) >= 99_000
        split_thoughts(piece * 100_000)
