"""Arguments of calls as providers write them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.partial_calls import repair, to_text
from agent.tools.lean import unwrap_call
from agent.tools.toolbox import resolve_name
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.context.view import View
from memory.messages import CUT_OFF, TOOL_SEARCH, USE_TOOL, Message, ToolCall
from memory.turns import Entry, Turn
from tests.tables import each_row

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), VALUES, max_size=4)

SHAPES = {
    "nothing": ("", {}),
    "null": ("null", {}),
    "twice": ('{"at": 1}{"at": 1}', {"at": 1}),
    "an empty one first": ('{}{"at": 1}', {"at": 1}),
    "fenced": ('```json\n{"at": 1}\n```', {"at": 1}),
    "a brace too many": ('{"at": 1}}', {"at": 1}),
    "a bracket too many": ('{"at": 1}]}', {"at": 1}),
    "a raw line end": ('{"at": "a\nb"}', {"at": "a\nb"}),
    "JSON in JSON": ('"{\\"at\\": 1}"', {"at": 1}),
    "a comma too many": ('{"at": [1,], "s": ",}",}', {"at": [1], "s": ",}"}),
    "Python": ("{'at': True, 'of': None}", {"at": True, "of": None}),
    "a list of one": ('[{"at": 1}]', {"at": 1}),
    "a token that ends a call": ('{"at": 1}<|call|>', {"at": 1}),
    "a tag that ends a call": ('{"at": 1}\n</tool_call>', {"at": 1}),
    "a mark at the beginning": ('\ufeff{"at": 1}', {"at": 1}),
}


@each_row("shape", SHAPES)
def test_what_was_meant_is_made_out(shape: str) -> None:
    text, meant = SHAPES[shape]
    assert orjson.loads(repair(text)) == meant


@each_row(
    "text",
    [
        '{"at": 1',
        '{"at": 1}{"at": 2}',
        "[1]",
        "look",
        '{"at": NaN}',
        '"look"',
        '{"at": 1} then',
        "{1, 2}",
    ],
)
def test_what_cannot_be_made_out_stays_as_it_is(text: str) -> None:
    assert repair(text) == text


@settings(max_examples=100)
@given(OBJECTS, st.sampled_from([None, 2]))
def test_an_object_stays_and_is_found_however_it_is_wrapped(
    value: dict[str, object], indent: int | None
) -> None:
    text = json.dumps(value, indent=indent)
    assert repair(text) == text
    wrapped = (
        *(text + text, "{}" + text, f"{text}\n{text}", f"```json\n{text}\n```", f"```{text}```"),
        *(json.dumps(text), json.dumps(json.dumps(text)), text + "}", text + "\n}]"),
    )
    for odd in wrapped:
        assert orjson.loads(repair(odd)) == value, odd


@settings(max_examples=100)
@given(st.text(max_size=30) | st.text('{}[]":,1a`\\n \n', max_size=20))
def test_any_text_is_repaired_once(text: str) -> None:
    assert repair(repair(text)) == repair(text)


def test_a_deep_nest_is_left_alone() -> None:
    deep = '{"a":' * 50_000
    assert repair(deep) == deep


def test_an_object_in_the_place_of_its_text_is_taken() -> None:
    assert orjson.loads(to_text({"at": 1})) == {"at": 1}
    assert [to_text(value) for value in ("{}", None, 7)] == ["{}", "", ""]


@pytest.mark.timeout(20)
def test_no_text_takes_longer_than_its_length() -> None:
    for text in (
        "```" + " " * 500_000 + "x",
        "{}" * 200_000 + "x",
        "1" + "]" * 500_000 + "x",
        '{"' + '\\\\"' * 300_000,
    ):
        assert repair(text) == text


KNOWN = ("current_time", "read_file", "Read", "read")


@each_row(
    "name",
    [
        "functions.current_time",
        "current_time<|channel|>commentary",
        " current_time ",
        "default_api.current_time",
        "default_api:current_time",
        "tool.current_time",
        "functions.tools.current_time",
        "current_time()",
        "Current_Time",
        "current-time",
        "`current_time`",
        "functions.current-time<|constrain|>json",
    ],
)
def test_what_stands_around_a_name_is_left_out(name: str) -> None:
    assert resolve_name(name, KNOWN) == "current_time"


@each_row(
    "name", ["READ", "time", "current_time_now", "", "<|channel|>", "x" * 900, "other.current_time"]
)
def test_a_name_that_means_no_tool_or_two_stays_as_it_is(name: str) -> None:
    assert resolve_name(name, KNOWN) == name


def test_a_name_that_is_one_is_not_touched() -> None:
    assert resolve_name("functions.a", ["functions.a", "a"]) == "functions.a"
    assert resolve_name("read", KNOWN) == "read"


@each_row("arguments", ['{"path": "tea', "[", "", '{"path": "tea.txt"}'])
def test_a_wrapped_call_keeps_its_name_whatever_its_arguments_are(arguments: str) -> None:
    call = ToolCall("c1", "read_file", arguments)
    asked = Message("assistant", tool_calls=(call,))
    turn = Turn(1, (Entry(1, 1, asked, 9, datetime.now(UTC)),))
    lean = tuple({"function": {"name": name}} for name in (TOOL_SEARCH, USE_TOOL))
    view = View((turn,), (turn,), PrefixTokens(0, 0))
    (sent,) = view.to_wire(PromptPrefix("", lean))
    wrapped = sent["tool_calls"][0]["function"]
    assert wrapped["name"] == USE_TOOL
    assert json.loads(wrapped["arguments"])["name"] == "read_file"
    meant = unwrap_call(ToolCall("c1", USE_TOOL, wrapped["arguments"]))
    assert meant.name == "read_file"


@each_row("cut", ["", CUT_OFF])
def test_the_name_of_a_wrapped_call_is_kept_where_the_call_is_broken(cut: str) -> None:
    wanted = '{"name": "read_file", "arguments": {"path": "te'
    meant = unwrap_call(ToolCall("c1", USE_TOOL, wanted + cut))
    assert (meant.name, meant.arguments) == ("read_file", '{"path": "te' + cut)
    assert meant.is_cut == bool(cut)
    nested = ToolCall("c1", USE_TOOL, '{"name": "use_tool", "arguments": {"na')
    assert unwrap_call(nested) == nested
