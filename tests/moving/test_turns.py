"""Tests that messages in any order become whole turns, and that JSON lists are read entry by
entry."""

from __future__ import annotations

import io
import json
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.messages import Message, ToolCall
from plugins.context_files.files import fault
from plugins.moving import reading
from plugins.moving.importer import new_part
from plugins.moving.reading import Archive
from plugins.moving.source import ForeignMessage, ForeignRole, MovingError, as_time
from plugins.moving.turns import NO_QUESTION, NO_RESULT, ImportedMessage, as_turns

NOW = datetime(2026, 1, 1, tzinfo=UTC)
THEN = datetime(2024, 1, 1, tzinfo=UTC)

words = st.sampled_from(["", " ", "hay", "needle", "a\x00b", "\ud800", "</untrusted>"])
ids = st.sampled_from(["", "one", "two", "x" * 300])
calls = st.builds(ToolCall, ids, st.sampled_from(["search", "dalle.text2im", ""]), words)
messages = st.builds(
    ForeignMessage,
    role=st.sampled_from(["user", "assistant", "tool"]),
    text=words,
    at=st.none() | st.datetimes(datetime(1999, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC)),
    reasoning=words,
    calls=st.lists(calls, max_size=3).map(tuple),
    call_id=ids,
    tool=st.sampled_from(["search", ""]),
    pictures=st.sampled_from([(), ("dot",)]),
)


def turn(*said: ForeignMessage, is_own: bool = False) -> list[list[ImportedMessage]]:
    return as_turns(said, NOW, is_own=is_own, begun=THEN)


def shown(turns: list[list[ImportedMessage]]) -> list[list[tuple[str, str]]]:
    return [[(told.message.role, told.message.text) for told in one] for one in turns]


@given(st.lists(messages, max_size=12), st.booleans())
def test_any_messages_become_whole_turns(said: list[ForeignMessage], is_own: bool) -> None:
    turns = turn(*said, is_own=is_own)
    for one in turns:
        assert fault([told.message for told in one]) == ""
    everything = [told.message for one in turns for told in one]
    made = [call.id for message in everything for call in message.tool_calls]
    assert len(made) == len({*made}), "an id comes once in a conversation"
    assert all(told.at <= NOW for one in turns for told in one)
    texts = "\n".join(message.text for message in everything)
    for word in ("hay", "needle"):
        written = sum(m.text == word for m in said)
        assert texts.count(word) == written, "what was said is there, and once"
    assert all(m.is_untrusted for m in everything if m.role == "tool")
    assert is_own or all(m.is_tainted for m in everything)
    assert "\x00" not in texts
    texts.encode()


def test_a_model_that_speaks_first_and_a_person_who_writes_twice() -> None:
    turns = turn(
        ForeignMessage("assistant", "Good morning!"),
        ForeignMessage("user", "Hello"),
        ForeignMessage("user", "Anybody there?"),
        ForeignMessage("assistant", "One moment."),
        ForeignMessage("assistant", "Yes."),
    )
    assert shown(turns) == [
        [("user", NO_QUESTION), ("assistant", "Good morning!")],
        [("user", "Hello"), ("assistant", "")],
        [("user", "Anybody there?"), ("assistant", "One moment.\n\nYes.")],
    ]
    assert turns[1][-1].message.mark == "stopped"


def test_results_find_their_calls_and_calls_their_results() -> None:
    asked = ForeignMessage(
        "assistant", "I look.", calls=(ToolCall("a", "web.run", "{}"), ToolCall("b", "python", "1"))
    )
    turns = turn(
        ForeignMessage("user", "Weather?"),
        asked,
        ForeignMessage("tool", "rain", call_id="b"),
        ForeignMessage("assistant", "Rain."),
        ForeignMessage("tool", "by itself", tool="browser"),
        ForeignMessage("assistant", "Done."),
    )
    (said,) = [[told.message for told in one] for one in turns]
    assert [(m.role, m.text, m.tool) for m in said] == [
        ("user", "Weather?", ""),
        ("assistant", "I look.", ""),
        ("tool", "rain", "python"),
        ("tool", NO_RESULT, "web_run"),
        ("assistant", "Rain.", ""),
        ("tool", "by itself", "browser"),
        ("assistant", "Done.", ""),
    ]


def test_what_is_ones_own_is_tainted_from_the_first_result_on() -> None:
    said = turn(
        ForeignMessage("user", "One"),
        ForeignMessage("assistant", "1"),
        ForeignMessage("user", "Two"),
        ForeignMessage("tool", "a page"),
        ForeignMessage("assistant", "2"),
        ForeignMessage("user", "Three"),
        ForeignMessage("assistant", "3"),
        is_own=True,
    )
    everything: list[Message] = [told.message for one in said for told in one]
    assert [m.text for m in everything if m.has_outside] == ["a page", "2", "3"]


def test_a_message_without_a_time_has_that_of_the_one_before() -> None:
    later = THEN + timedelta(hours=1)
    question = ForeignMessage("user", "Hi", later)
    ((asked, answered),) = turn(question, ForeignMessage("assistant", "Ho"))
    assert (asked.at, answered.at) == (later, later)


def test_times_are_known_by_their_size() -> None:
    seconds = 1_700_000_000
    for value in (seconds, float(seconds), seconds * 1_000, seconds * 10**6, seconds * 10**9):
        assert as_time(value) == as_time(str(value)) == datetime.fromtimestamp(seconds, UTC)
    others: tuple[object, ...] = (
        None,
        "170",
        "x1700000000",
        True,
        -5,
        0,
        float("nan"),
        float("inf"),
        10**30,
    )
    assert [as_time(other) for other in others if as_time(other)] == []


def test_only_what_is_new_is_added() -> None:
    one, two, three = ("a", "1"), ("b", "2"), ("c", "3")
    assert new_part([], [one, two]) == 0
    assert new_part([one], [one, two]) == 1
    assert new_part([one, two], [one, two]) == 2
    assert new_part([one, two, three], [one, two]) == 2, "it went on here"
    assert new_part([one, three], [one, two]) is None, "it went on in two ways"


@given(
    whole=st.lists(st.sampled_from(("user", "assistant")), min_size=1, max_size=9)
    | st.integers(1, 9).map(lambda most: [*("user", "assistant") * 5][:most]),
    cuts=st.lists(st.integers(1, 9), max_size=5),
    are_same=st.booleans(),
)
def test_exports_of_any_age_bring_each_answer_once(
    whole: list[ForeignRole], cuts: list[int], are_same: bool
) -> None:
    said = [
        ForeignMessage(role, "Again?" if are_same and role == "user" else f"{role}{number}")
        for number, role in enumerate(whole)
    ]
    stored: list[tuple[str, str]] = []
    for cut in [*cuts, len(said), len(said)]:
        turns = as_turns(said[:cut], NOW, is_own=True, begun=None)
        found = [(turn[0].message.text, turn[-1].message.text) for turn in turns]
        first = new_part(stored, found)
        stored += [] if first is None else found[first:]
    first = new_part(stored, found)
    is_usual = all(role == ("user", "assistant")[n % 2] for n, role in enumerate(whole))
    assert first is not None or not is_usual, "only a second part of an answer is a difference"
    assert first in (None, len(found)), "the same again brings nothing"
    if first is not None:
        answers = [answer for _, answer in stored if answer]
        assert answers == [answer for _, answer in found if answer]


texts = st.text('ab"\\[]{},:\n\u00e9', max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(values, max_size=6), st.integers(1, 9), st.booleans())
def test_entries_are_the_same_whatever_the_pieces(
    entries: list[Any], size: int, is_indented: bool
) -> None:
    splitter = reading._ListSplitter()
    content = json.dumps(entries, ensure_ascii=False, indent=1 if is_indented else None).encode()
    file = io.BytesIO(content[1:])
    found: list[Any] = []
    while chunk := file.read(size):
        found += (json.loads(one) for one in splitter.feed(chunk) if one is not None)
    assert splitter.is_over
    assert found == entries


def test_what_stands_around_the_list_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "conversations.json"
    path.write_bytes(b"\xef\xbb\xbf \n [1, nonsense, [2] ] \n")
    assert list(Archive(path).entries(path.name)) == [1, None, [2]]
    path.write_bytes(b'{"a": 1}')
    assert list(Archive(path).entries(path.name)) == [{"a": 1}]
    path.write_bytes(b'[{"a": 1}, {"b"')
    with pytest.raises(MovingError, match="is incomplete"):
        list(Archive(path).entries(path.name))


@given(
    top=st.sampled_from(("", "export/", "\u00fc \u732b/deep/er/")),
    separator=st.sampled_from("/\\"),
    is_zip=st.booleans(),
    is_of_mac=st.booleans(),
)
def test_the_names_are_the_same_whatever_system_packed_them(
    tmp_path_factory: pytest.TempPathFactory,
    top: str,
    separator: str,
    is_zip: bool,
    is_of_mac: bool,
) -> None:
    names = [f"{top}conversations.json", f"{top}files/a.json"]
    beside = [f"__MACOSX/{top}._conversations.json", f"{top}files/._a.json"] if is_of_mac else []
    path = tmp_path_factory.mktemp("packed") / "export"
    if is_zip:
        with zipfile.ZipFile(path, "w") as archive:
            for name in (*names, *beside):
                archive.writestr(name.replace("/", separator), "[1]")
    else:
        for name in (*names, *beside):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text("[1]")
    found = Archive(path)
    assert found.names == sorted(names)
    assert [list(found.entries(name)) for name in names] == [[1], [1]]
