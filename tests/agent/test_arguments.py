"""Arguments of calls as providers write them."""

from __future__ import annotations

import json

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.arguments import repair, to_text
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
