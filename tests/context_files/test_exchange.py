"""Tests of the files of export and import: exported data is imported unchanged, and invalid data is
refused."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.terse import lines_of
from memory.messages import Image, Mark, Message, ToolCall
from memory.turns import Entry, Turn
from plugins.context_files import files

NOON = datetime(2025, 11, 21, 12, tzinfo=UTC)

texts = st.text(st.characters(codec="utf-8"), max_size=20)
spoken = texts.filter(str.strip)
MARKS: tuple[Mark, ...] = ("", "stopped", "failed", "steps")


@st.composite
def whole_turns(draw: st.DrawFn) -> list[Message]:
    messages = [Message("user", draw(spoken), speaker=draw(st.sampled_from(("", "Ann"))))]
    for step in range(draw(st.integers(0, 2))):
        calls = tuple(
            ToolCall(f"c{step}_{number}", "look", draw(texts))
            for number in range(draw(st.integers(1, 3)))
        )
        messages.append(Message("assistant", draw(texts), calls, reasoning=draw(texts)))
        for call in draw(st.permutations(calls)):
            result = Message("tool", draw(texts), call_id=call.id, tool="look")
            result = replace(result, is_error=draw(st.booleans()), is_untrusted=draw(st.booleans()))
            messages.append(replace(result, terse=draw(texts)))
    mark = draw(st.sampled_from(MARKS))
    images = draw(st.sampled_from(((), (Image("0" * 64, "image/png"),))))
    return [
        *messages,
        Message("assistant", draw(spoken), mark=mark, terse=draw(texts), images=images),
    ]


@settings(max_examples=30)
@given(st.lists(whole_turns(), min_size=1, max_size=3))
def test_what_is_exported_is_imported_word_for_word(said: list[list[Message]]) -> None:
    turns = [turn_of(number, messages) for number, messages in enumerate(said, 1)]
    whole = files.serialize(files.as_data(turns, "pipe/main"))
    terse = files.serialize(files.as_terse(turns, "pipe/main"))
    shown = [[entry.message for entry in turn.entries] for turn in turns]
    assert files.parse(whole) == shown
    assert files.parse(whole, terse) == shown, "what a turn says by itself is not added to it"


def turn_of(number: int, messages: list[Message]) -> Turn:
    return Turn(number, tuple(Entry(i, number, m, 1, NOON) for i, m in enumerate(messages)))


def test_the_terse_file_has_the_lines_of_each_turn() -> None:
    calls = (ToolCall("a", "delegate", "{}"),)
    turns = [
        turn_of(1, [Message("user", "Hi"), Message("assistant", "Made it.", terse="created it")]),
        turn_of(
            2,
            [
                Message("user", "And?"),
                Message("assistant", "", calls),
                Message("tool", "42", call_id="a", tool="delegate", terse="counted to 42"),
                Message("assistant", "word " * 100),
            ],
        ),
    ]
    data = files.as_terse(turns, "pipe/main")
    lines = [(e["turnId"], e["role"], e["summary"][:16]) for e in data["entries"]]
    assert lines == [
        ("t1", "assistant", "created it"),
        ("t2", "subagent", "counted to 42"),
        ("t2", "assistant", "And? → word word"),
    ]
    assert {e["timestamp"] for e in data["entries"]} == {"2025-11-21T12:00:00+00:00"}


def file(**content: object) -> bytes:
    return orjson.dumps({"format": "parley-context", "version": 1, **content})


LINE = {
    "timestamp": "2024-01-15T10:30:00+00:00",
    "turnId": "t1",
    "role": "assistant",
    "summary": "created dashboard",
}


def test_lines_of_subagents_come_back_where_their_results_are() -> None:
    call = {**CALL, "name": "delegate"}
    messages = [USER, {**CALLS, "tool_calls": [call]}, {**RESULT, "tool": "delegate"}, REPLY]
    entries = [{**LINE, "role": "subagent", "summary": "counted"}, LINE]
    (turn,) = files.parse(file(messages=messages), file(entries=entries))
    assert [(line.role, line.text) for line in lines_of(turn_of(1, turn))] == [
        ("subagent", "counted"),
        ("assistant", "created dashboard"),
    ]


def refusal(content: bytes, *terse: bytes) -> str:
    """Return the error for files that are refused."""
    with pytest.raises(files.Unreadable) as error:
        files.parse(content, *terse)
    return str(error.value)


WRONG_LINES: list[tuple[object, str]] = [
    ({**LINE, "turnId": "t9"}, "has a line for turn 't9', which does not exist"),
    ({**LINE, "role": "user"}, "at entries[0].role"),
    ({**LINE, "timestamp": "yesterday"}, "at entries[0].timestamp"),
    ({**LINE, "timestamp": "2024-01-15T10:30:00"}, "at entries[0].timestamp"),
    ({**LINE, "summary": ""}, "at entries[0].summary"),
    ({**LINE, "summary": ["x"]}, "at entries[0].summary"),
    ("created dashboard", "at entries[0]"),
]


def test_a_terse_file_that_is_wrong_is_refused() -> None:
    for line, sentence in WRONG_LINES:
        said = refusal(file(messages=[USER, REPLY]), file(entries=[line]))
        assert sentence in said
        assert "context.terse.json" in said


USER = {"turnId": "t1", "role": "user", "content": "Hi"}
REPLY = {"turnId": "t1", "role": "assistant", "content": "Hello"}
CALL = {"id": "a", "name": "look", "arguments": "{}"}
CALLS = {"turnId": "t1", "role": "assistant", "tool_calls": [CALL]}
RESULT = {"turnId": "t1", "role": "tool", "content": "1", "tool_call_id": "a"}


INVALID: list[tuple[list[object], str]] = [
    ([], "at messages"),
    ([REPLY], "does not begin with the user's text"),
    ([{**USER, "content": " "}, REPLY], "does not begin with the user's text"),
    ([USER], "does not end with a reply"),
    ([USER, {**REPLY, "content": ""}], "does not end with a reply"),
    ([USER, CALLS, RESULT], "does not end with a reply"),
    ([USER, USER, REPLY], "more than one message of the user"),
    ([USER, REPLY, REPLY], "goes on after its reply"),
    ([USER, CALLS, REPLY], "has no result for the call 'a'"),
    ([USER, RESULT, REPLY], "has a result for the call 'a', which is not open"),
    ([USER, CALLS, RESULT, RESULT, REPLY], "which is not open"),
    ([USER, CALLS, RESULT, CALLS, RESULT, REPLY], "has the call 'a' twice"),
    ([USER, {**CALLS, "tool_calls": [CALL, CALL]}, RESULT, REPLY], "has the call 'a' twice"),
    ([{**USER, "tool_calls": [CALL]}, RESULT, REPLY], "from somebody other than the assistant"),
    ([USER, REPLY, {**USER, "turnId": "t2"}, {**REPLY, "turnId": "t2"}, USER], "comes twice"),
    ([{**USER, "role": "system"}, REPLY], "at messages[0].role"),
    ([{**USER, "content": 7}, REPLY], "at messages[0].content"),
    ([{**USER, "colour": "red"}, REPLY], "at messages[0].colour"),
    ([USER, {**REPLY, "mark": "happy"}], "at messages[1].mark"),
]


def test_a_file_that_would_make_an_invalid_request_is_refused() -> None:
    for messages, sentence in INVALID:
        assert sentence in refusal(file(messages=messages)), messages


def test_what_is_no_such_file_is_refused_in_one_sentence() -> None:
    other = b'{"format": "other", "version": 1, "messages": []}'
    broken = file(messages=[{**USER, "content": "BROKEN"}]).replace(b"BROKEN", rb"\ud800")
    for content in (b"", b"not json", b"[]", other, b"\xff\xfe", b"[" * 100_000, broken):
        said = refusal(content)
        assert "This is not a context.json saved by Parley" in said
        assert len(said) < 300
