"""Histories as the strictest endpoints take them, whatever was recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.models.history import (
    CHAT,
    INTERRUPTED,
    NO_RESULT,
    NOTHING,
    alternate,
    check,
    clean_name,
    find_faults,
    normalize,
)

Json = dict[str, Any]

IDS = st.sampled_from(["", "c", "call_0", "call_0_2", "x" * 70])
NAMES = st.sampled_from(
    ["look", "functions.look", " look", "a" * 90, "", "…", "look<|channel|>commentary"]
) | st.text(max_size=6)
ARGUMENTS = st.sampled_from(
    ["{}", '{"a": 1}', "", "null", "[]", '{"a": NaN}', '{"a": -Infinity}', '{"a": "cut…[cut off]']
)
WORDS = st.sampled_from(["", " ", "Hello.", "<system-reminder>\nBrief.\n</system-reminder>"])
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
CONTENTS: st.SearchStrategy[Any] = (
    WORDS | st.just([]) | st.just([{"type": "text", "text": "See"}, PICTURE])
)


def call(own: str, name: str = "look", arguments: str = "{}") -> Json:
    return {"id": own, "type": "function", "function": {"name": name, "arguments": arguments}}


def asking(*calls: Json, text: str | None = None) -> Json:
    return {"role": "assistant", "content": text, "tool_calls": [*calls]}


def said(role: str, content: Any) -> Json:
    return {"role": role, "content": content}


def result(own: str, content: str = "A moon.") -> Json:
    return {"role": "tool", "tool_call_id": own, "content": content}


MESSAGES = st.one_of(
    st.builds(said, st.just("user"), CONTENTS),
    st.builds(said, st.just("assistant"), WORDS | st.none()),
    st.builds(result, IDS, WORDS),
    st.lists(st.builds(call, IDS, NAMES, ARGUMENTS), min_size=1, max_size=3).map(
        lambda calls: asking(*calls)
    ),
)
HISTORIES = st.builds(
    lambda system, rest: [*([said("system", "Be brief.")] if system else []), *rest],
    st.booleans(),
    st.lists(MESSAGES, max_size=12),
)


def words(content: Any) -> str:
    """Return the text of a message's content."""
    parts = content if isinstance(content, list) else [{"text": content or ""}]
    return "\n".join(part.get("text", "") for part in parts)


def sent(messages: list[Json]) -> list[Mapping[str, Any]]:
    return alternate(normalize(messages))


@settings(max_examples=300)
@given(HISTORIES)
def test_whatever_was_recorded_what_is_sent_keeps_every_rule_and_stays_as_it_is(
    messages: list[Json],
) -> None:
    made = sent(messages)
    assert find_faults(made, CHAT) == []
    again = alternate(normalize(made))
    assert len(again) == len(made)
    assert all(one is other for one, other in zip(again, made, strict=True))
    kept = [one["content"] for one in messages if one["role"] == "user" and one["content"]]
    for content in kept:  # nothing that a person said is lost
        if isinstance(content, str) and content.strip():
            assert any(content in words(one["content"]) for one in made)


TURNS = st.lists(
    st.builds(
        lambda rest, last: [said("user", "Well?"), *rest, said("assistant", last)],
        st.lists(MESSAGES, max_size=6),
        WORDS,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150)
@given(TURNS, st.data())
def test_a_later_turn_changes_nothing_that_was_sent_before(
    turns: list[list[Json]], data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, len(turns)))
    before = sent([one for turn in turns[:first] for one in turn])
    after = sent([one for turn in turns for one in turn])
    assert after[: len(before)] == before


def test_a_name_has_letters_that_all_take() -> None:
    names = ("functions.time", "time<|channel|>commentary", " time", "a" * 90, "…", "")
    cleaned = ["functions_time", "time_channel_commentary", "time", "a" * 64, "unknown", "unknown"]
    assert [clean_name(name) for name in names] == cleaned


def test_each_call_has_its_own_result_though_ids_come_again() -> None:
    twice = [
        said("user", "Look!"),
        asking(call("c"), call("c")),
        *(result("c", "One."), result("c", "Two."), result("d", "Whose?")),
        asking(call("c")),
        said("user", "Stop."),
    ]
    made = sent(twice)
    assert [one["id"] for one in made[1]["tool_calls"]] == ["c", "c_2"]
    assert made[2:4] == [result("c", "One."), result("c_2", "Two.")]
    assert made[5:] == [
        result("c_3", NO_RESULT),
        said("assistant", INTERRUPTED),
        said("user", "Stop."),
    ]


def test_roles_take_turns() -> None:
    note = "<system-reminder>\nBrief.\n</system-reminder>"
    messages = [
        said("system", "Be."),
        said("assistant", "Good morning."),
        *(said("user", "One."), said("user", [PICTURE]), said("user", note)),
        *(asking(call("c")), result("c"), said("user", note), said("user", "Two.")),
        *(said("assistant", ""), said("assistant", "Yes.")),
    ]
    parts = [{"type": "text", "text": "One."}, PICTURE, {"type": "text", "text": note}]
    assert sent(messages) == [
        *(said("system", "Be."), said("user", NOTHING), said("assistant", "Good morning.")),
        *(said("user", parts), asking(call("c")), result("c", f"A moon.\n\n{note}")),
        *(said("assistant", INTERRUPTED), said("user", "Two.")),
        said("assistant", f"{NOTHING}\n\nYes."),
    ]


def test_a_request_that_breaks_a_rule_is_an_error_in_tests() -> None:
    with pytest.raises(AssertionError, match=r"order of roles: message 1 is of user"):
        check([said("user", "One."), said("user", "Two.")], CHAT)
