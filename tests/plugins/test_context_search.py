"""Tests of the answers of `context_search` to its model: flo.monster's own example, and its
limits."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.tools.base import ToolContext
from agent.tools.toolbox import Toolbox
from memory.messages import Message, ToolCall
from memory.record.closeness import Span, finder, to_model_text
from memory.record.search import Hit, SearchHits, Words
from memory.record.search.excerpts import window
from memory.turns import Entry
from plugins.builtin.context_search import LONGEST, as_text, context_search
from tests.memory.harness import KEY, MemoryHarness

NOON = datetime(2025, 11, 21, 12, tzinfo=UTC)


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[MemoryHarness]:
    harness = MemoryHarness(tmp_path)
    await harness.open()
    yield harness
    await harness.close()


async def run(harness: MemoryHarness, **arguments: Any) -> str:
    """Return the text for the model; a refusal begins with "!"."""
    context = ToolContext(KEY, Path("nowhere"), ZoneInfo("UTC"), await harness.conversation())
    call = ToolCall("1", "context_search", json.dumps(arguments))
    text, is_error = await Toolbox([context_search]).run(call, context)
    return f"! {text}" if is_error else text


def test_the_example_of_the_document() -> None:
    dom = ToolCall("c", "dom", "{action: 'create', ...}")
    said = (
        (7, Message("user", "Can you make a colour palette?")),
        (7, Message("assistant", "I'll create a nature-inspired palette.", (dom,))),
        (7, Message("tool", "created", call_id="c", tool="dom")),
        (8, Message("user", "Can you make the greens warmer?")),
        (8, Message("assistant", "Updated the palette with warmer greens.")),
    )
    hits = tuple(
        Hit(Entry(n, turn, message, 1, NOON), to_model_text(message), number=n)
        for n, (turn, message) in enumerate(said, 14)
    )
    found = SearchHits(hits, 42)

    assert as_text(found, Words("colour palette"), LONGEST) == (
        "--- messages 14-18 of 42 ---\n"
        "[user t7] Can you make a colour palette?\n"
        "[assistant t7] I'll create a nature-inspired palette. "
        "[tool: dom({action: 'create', ...})]\n"
        "[tool t7] result of dom: created\n"
        "[user t8] Can you make the greens warmer?\n"
        "[assistant t8] Updated the palette with warmer greens."
    )


async def test_each_mode_has_the_defaults_of_the_document(harness: MemoryHarness) -> None:
    for number in range(1, 22):
        await harness.says(f"question {number}", reply=f"reply {number}")

    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"mode": "tail"}, ["33-42"]),
        ({"mode": "tail", "last": 20}, ["23-42"]),
        ({"mode": "head"}, ["1-10"]),
        ({"mode": "head", "first": 3}, ["1-3"]),
        ({"mode": "search", "query": "QUESTION 9"}, ["15-19"]),
        (
            {"mode": "search", "query": "reply 2", "before": 0, "after": 0},
            ["4-4", "40-40", "42-42"],
        ),
        ({"mode": "turn", "turnId": "t5"}, ["9-10"]),
        ({"mode": "turn", "turnId": "t5", "before": 2, "after": 1}, ["5-12"]),
    ]
    for arguments, headers in cases:
        lines = (await run(harness, **arguments)).splitlines()
        expected = [f"--- messages {header} of 42 ---" for header in headers]
        assert [line for line in lines if line.startswith("---")] == expected, arguments


async def test_a_wish_for_more_than_is_shown_gets_the_most(harness: MemoryHarness) -> None:
    for number in range(60):
        await harness.says(f"question {number}")
    assert (await run(harness, mode="tail", last=5_000)).startswith(
        "--- messages 21-120 of 120 ---"
    )


async def test_what_can_not_be_looked_up_is_refused_with_a_sentence(harness: MemoryHarness) -> None:
    await harness.says("Hi")
    refusals: list[tuple[dict[str, Any], str]] = [
        ({"mode": "search"}, "Mode 'search' needs a query: the text to find."),
        ({"mode": "search", "query": " \n"}, "Mode 'search' needs a query"),
        ({"mode": "turn"}, "Mode 'turn' needs a turnId"),
        ({"mode": "turn", "turnId": "t0"}, "The turnId 't0' is not a turn; turns are named t1"),
        ({"mode": "turn", "turnId": "x"}, "The turnId 'x' is not a turn"),
        ({"mode": "grep"}, "`mode` is 'grep', but it should be 'search', 'tail', 'head' or 'turn'"),
        ({}, "`mode` is missing"),
        ({"mode": "tail", "last": 0}, "`last` is 0"),
        ({"mode": "search", "query": "a", "before": -1}, "-1"),
    ]
    for arguments, sentence in refusals:
        text = await run(harness, **arguments)
        assert text.startswith("! ")
        assert sentence in text


async def test_what_is_not_there_is_said_plainly(harness: MemoryHarness) -> None:
    assert await run(harness, mode="tail") == "Nothing was said before this turn."
    await harness.says("Hi")
    missing = await run(harness, mode="search", query="quark")
    assert missing.startswith("Nothing among the 2 messages before this turn contains 'quark'")
    assert (await run(harness, mode="turn", turnId="t9")).startswith("There is no turn t9 among")


async def test_the_matching_part_of_a_long_message_is_shown(harness: MemoryHarness) -> None:
    await harness.says("Look!", results=["x" * 70_000 + " Needle " + "y" * 70_000])

    text = await run(harness, mode="search", query="needle")

    assert "x Needle y" in text
    assert "…" in text
    assert len(text) < LONGEST


async def test_what_is_returned_is_bounded_also_where_the_window_is_small(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    long = [Message("user", "needle " * 900), Message("assistant", "needle " * 900)]
    await conversation.turns.append([long] * 100)

    for arguments in ({"mode": "search", "query": "needle"}, {"mode": "tail", "last": 100}):
        assert len(await run(harness, **arguments)) < LONGEST * 1.2
    harness.limit(window=8_000)
    assert len(await run(harness, mode="tail")) < 8_000 * 0.75


@given(st.text(max_size=300), st.integers(10, 100), st.text(min_size=1, max_size=9))
def test_a_part_of_a_text_shows_the_match_and_is_no_longer_than_asked(
    text: str, most: int, word: str
) -> None:
    if not word.strip():
        return
    found = finder(word).search(text)
    shown = window(text, [Span(*found.span())] if found else [], most)
    assert len(shown) <= most + 2
    assert shown.strip("…") in text or "…" in text
    if found and len(found[0]) <= most:
        assert found[0] in shown
