"""Thoughts and calls that a server left in the text."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.models.answer import Answer
from agent.models.base import ModelRequest
from agent.models.chat_thoughts import ThoughtFilter, split_thoughts, without_markup
from agent.models.spoken_calls import extract_calls
from memory.messages import ToolCall
from tests.agent.endpoints import CHAT, TOOL, ask, conversation, user
from tests.fakes.openai_server import Say
from tests.tables import each_row


def filtered(text: str, cuts: list[int]) -> tuple[str, str, str]:
    """Return the visible text, the part held back until the end, and the thoughts."""
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
    shown, held, own = filtered(whole, cuts)
    assert (shown + held, own) == (text.lstrip(), thought)


@settings(max_examples=150)
@given(st.text("ab <>/think\n", max_size=24), CUTS)
def test_all_else_is_answer(text: str, cuts: list[int]) -> None:
    if text.lstrip().startswith("<think>"):
        return
    shown, held, thought = filtered(text, cuts)
    assert (shown + held, thought) == (text, "")


@each_row("text", ["Say <think>no</think>.", "`<think>` begins it.", "<b>Hm</b>"])
def test_a_tag_within_is_text(text: str) -> None:
    assert filtered(text, list(range(len(text))))[0] == text
    assert split_thoughts(text) == (text, "")


def test_thoughts_without_an_end_are_thoughts() -> None:
    assert filtered("<think>Hm. And</thi", [9, 16]) == ("", "", "Hm. And</thi")


@each_row(
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


@each_row(
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
    text, (one, two) = extract_calls(f"Let me look.\n{CALL}\n{CALL}", ["look"])
    assert (text, one.name, two.arguments) == ("Let me look.", "look", '{"at":1}')
    assert one.id != two.id
    assert without_markup(f"Hm.</think>Let me look.\n{CALL}").strip() == "Let me look."


@each_row(
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
    assert extract_calls(text, ["look"]) == (text, ())


async def test_a_call_is_lifted_where_the_tool_was_offered() -> None:
    offered = "look"  # the name of TOOL
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
        assert extract_calls(text, ["look"]) == (text, ())
        assert without_markup(text) == text
    for piece in (" ", "\n", "</", "a</think> b\n"):
        thoughts = ThoughtFilter()
        assert len("".join(thoughts.feed(piece) for _ in range(100_000))) >= 99_000
        split_thoughts(piece * 100_000)


# --- dialects ---

SCHEMAS = {"look": {"type": "object", "properties": {"at": {"type": "integer"}}}, "act": {}}
DIALECTS = {
    "hermes": 'Hi\n<tool_call>\n{"name": "look", "arguments": {"at": 1}}\n</tool_call>',
    "hermes unclosed": '<tool_call>\n{"name": "look", "arguments": {"at": 1}}',
    "hermes fn": (
        '<tool_call>{"type":"function","function":{"name":"look","argumen'
        'ts":"{\\"at\\": 1}"}}</tool_call>'
    ),
    "qwen coder": (
        "<tool_call>\n<function=look>\n<parameter=at>\n1\n</parameter>\n</function>\n</tool_call>"
    ),
    "qwen coder bare": (
        "<function=look>\n<parameter=at>\n1\n</parameter>\n</function>\n</tool_call>"
    ),
    "llama fn": '<function=look>{"at": 1}</function>',
    "mistral": '[TOOL_CALLS] [{"name": "look", "arguments": {"at": 1}}]',
    "mistral new": '[TOOL_CALLS]look[ARGS]{"at": 1}',
    "mistral new2": 'Sure.[TOOL_CALLS]look{"at": 1}',
    "kimi": (
        "Ok.<|tool_calls_section_begin|><|tool_call_begin|>functions.look"
        ':0<|tool_call_argument_begin|>{"at": 1}<|tool_call_end|><|tool_c'
        "alls_section_end|>"
    ),
    "deepseek v3": (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n"
        '```json\n{"at": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
    ),
    "deepseek v31": (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>{"at": 1}'
        "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    "dsml": (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="look">\n<｜DSML｜paramet'
        'er name="at" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        "</｜DSML｜function_calls>"
    ),
    "minimax": (
        '<minimax:tool_call>\n<invoke name="look">\n<parameter name="at">1<'
        "/parameter>\n</invoke>\n</minimax:tool_call>"
    ),
    "anthropic xml": (
        '<function_calls>\n<invoke name="look">\n<parameter name="at">1</pa'
        "rameter>\n</invoke>\n</function_calls>"
    ),
    "python tag": '<|python_tag|>{"name": "look", "parameters": {"at": 1}}',
    "python tag call": "<|python_tag|>look(at=1)<|eom_id|>",
    "tool_code": "```tool_code\nprint(look(at=1))\n```",
    "tool_code2": "```tool_code\nlook(at=1)\n```",
    "glm": "<tool_call>look\n<arg_key>at</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "phi": '<|tool_call|>[{"name": "look", "arguments": {"at": 1}}]<|/tool_call|>',
    "lfm": "<|tool_call_start|>[look(at=1)]<|tool_call_end|>",
    "hunyuan": '<tool_calls>[{"name": "look", "arguments": {"at": 1}}]</tool_calls>',
    "harmony": (
        '<|channel|>commentary to=functions.look <|constrain|>json<|message|>{"at": 1}<|call|>'
    ),
    "harmony2": (
        "<|start|>assistant<|channel|>commentary to=functions.look<|chann"
        'el|>commentary json<|message|>{"at": 1}<|call|>'
    ),
    "seed": (
        "<seed:tool_call>\n<function=look>\n<parameter=at>1</parameter>\n</f"
        "unction>\n</seed:tool_call>"
    ),
    "whole": '{"name": "look", "arguments": {"at": 1}}',
    "whole params": '{"name": "look", "parameters": {"at": 1}}',
    "whole list": '[{"name": "look", "arguments": {"at": 1}}]',
    "tool_call fence": '```tool_call\n{"name": "look", "arguments": {"at": 1}}\n```',
    "caps": '<TOOL_CALL>{"name": "look", "arguments": {"at": 1}}</TOOL_CALL>',
    "action": '<|action_start|><|plugin|>{"name": "look", "parameters": {"at": 1}}<|action_end|>',
    "tool_use": '<tool_use>{"name": "look", "arguments": {"at": 1}}</tool_use>',
    "gemma4": "<|tool_call>call:look{at:1}<tool_call|>",
    "functiongemma": "<start_function_call>call:look{at:1}<end_function_call>",
    "longcat": '<longcat_tool_call>{"name": "look", "arguments": {"at": 1}}</longcat_tool_call>',
}


@each_row("dialect", DIALECTS)
def test_a_call_is_known_in_the_dialect_of_each_model(dialect: str) -> None:
    text, (call,) = extract_calls(DIALECTS[dialect], SCHEMAS)
    assert (call.name, json.loads(call.arguments)) == ("look", {"at": 1})
    assert text in ("", "Hi", "Ok.", "Sure.")
    assert without_markup(DIALECTS[dialect]).strip() == text or dialect.startswith("whole")


@each_row(
    "text",
    [
        DIALECTS["hermes"] + "\n" + DIALECTS["hermes"].replace("look", "act"),
        '<minimax:tool_call><invoke name="look"><parameter name="at">1</parameter></invoke>'
        '<invoke name="act"><parameter name="at">1</parameter></invoke></minimax:tool_call>',
        '[TOOL_CALLS]look[ARGS]{"at": 1}[TOOL_CALLS]act[ARGS]{"at": 1}',
        "<|tool_call_start|>[look(at=1), act(at=1)]<|tool_call_end|>",
    ],
)
def test_several_calls_keep_their_order(text: str) -> None:
    assert [call.name for call in extract_calls(text, SCHEMAS)[1]] == ["look", "act"]


def test_values_without_a_type_stay_text() -> None:
    text = "<function=act><parameter=at>\n1\n2\n</parameter></function>"
    assert json.loads(extract_calls(text, SCHEMAS)[1][0].arguments) == {"at": "1\n2"}


@each_row(
    "text",
    [
        'Use `<tool_call>{"name": "look", "arguments": {}}</tool_call>` to call.',
        '```json\n{"name": "look", "arguments": {}}\n```\nThat is how.',
        "The [TOOL_CALLS] token marks calls.",
        "<function=burn>{}</function>",
        '{"name": "Bob", "arguments": "none"}',
        '{"name": "look", "arguments": 7}',
        'Text\n{"name": "look", "arguments": {}}',
        "```python\nlook(at=1)\n```",
        "look(at=1)",
        "to=functions.look is how it is named",
        '<invoke name="look"> is XML',
        '```\n[TOOL_CALLS] [{"name": "look", "arguments": {}}]\n```',
        '{"name": "Ann", "age": 3}',
    ],
)
def test_what_only_speaks_of_a_call_stays(text: str) -> None:
    assert extract_calls(text, SCHEMAS) == (text, ())


THOUGHT = {
    "<think>h</think>\n\nHi": "h",
    "<thinking>h</thinking>Hi": "h",
    "<thought>h</thought>Hi": "h",
    "<reasoning>h</reasoning> Hi": "h",
    "<seed:think>h</seed:think>Hi": "h",
    "[THINK]h[/THINK]Hi": "h",
    "◁think▷h◁/think▷Hi": "h",
    "<|START_THINKING|>h<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>": "h",
    "<|begin_of_thought|>h<|end_of_thought|>\n<|begin_of_solution|>Hi<|end_of_solution|>": "h",
    (
        "<|channel|>analysis<|message|>h<|end|><|start|>assistant<|channe"
        "l|>final<|message|>Hi<|return|>"
    ): "h",
    "<|channel>thought\nh<channel|>Hi": "h",
    "<think>a</think><think>b</think>Hi": "ab",
    "<think></think>\n\nHi": "",
    "h</think>Hi": "h",
    "h\n</think>\n\nHi": "h",
    "h[/THINK]Hi": "h",
    "h◁/think▷Hi": "h",
    "h</seed:think>\nHi": "h",
    "analysisHm.assistantfinalHi": "Hm.",
    "Hi<|im_end|>": "",
    "Hi<|eot_id|>": "",
    "Hi</s>": "",
    "<THINK>h</THINK>Hi": "h",
    "\n\n<think>\nh\n</think>\n\nHi": "h",
    "<|channel|>final<|message|>Hi": "",
    "h<|END_THINKING|>Hi": "h",
    "<think>h</think>\n<answer>Hi</answer>": "h",
    "<mm:think>h</mm:think>Hi": "h",
    "<thoughts>h</thoughts>Hi": "h",
    "<|think|>h<|/think|>Hi": "h",
    "<think>h</thinking>Hi": "h",
    "<REASONING_SCRATCHPAD>h</REASONING_SCRATCHPAD>Hi": "h",
    "<longcat_think>h</longcat_think>Hi": "h",
}


def read(text: str, size: int) -> tuple[str, str]:
    answer = Answer()
    for start in range(0, len(text), size):
        answer.add({"choices": [{"delta": {"content": text[start : start + size]}}]})
    answer.add({"choices": [{"delta": {}, "finish_reason": "stop"}]})
    reply = answer.reply("m")
    return reply.text.strip(), reply.reasoning.strip()


@each_row("text", THOUGHT)
def test_thoughts_are_known_in_the_dialect_of_each_model(text: str) -> None:
    for size in (1, 3, len(text)):
        assert read(text, size) == ("Hi", THOUGHT[text])


@each_row(
    "text",
    [
        "Use [THINK] and [/THINK] tags.",
        "analysis of it",
        "analysisX",
        "```\nHi<|im_end|>\n```",
        "The token <|im_end|> ends it.",
        "The end is `<|im_end|>`",
        "[1] a",
        "<s>old</s>",
        "<answer>Hi</answer>",
        "<thinker>a</thinker>",
        "It ends with ◁/think▷ always.",
        "<|",
        "<",
    ],
)
def test_what_only_speaks_of_marks_stays(text: str) -> None:
    for size in (1, len(text)):
        assert read(text, size) == (text, "")
