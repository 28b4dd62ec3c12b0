"""Passages of a transcript: windows that merge, and the messages that may be found."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.strategies import STRATEGIES
from memory.messages import Message, ToolCall
from memory.record.closeness import finder, to_model_text
from memory.record.search import (
    MOST,
    FirstMessages,
    Hit,
    MessagesAround,
    SearchHits,
    Tail,
    Wanted,
    Words,
    spread,
)
from memory.record.search.excerpts import blocks
from tests.memory.harness import MemoryHarness

pytestmark = pytest.mark.databases


async def found(harness: MemoryHarness, wanted: Wanted) -> SearchHits:
    return await (await harness.conversation()).passages(wanted)


def parts(found: SearchHits) -> list[list[Hit]]:
    return blocks(found.hits, lambda hit, before: hit.number == before.number + 1)


def windows(found: SearchHits) -> list[tuple[int, int]]:
    return [(part[0].number, part[-1].number) for part in parts(found)]


def texts(found: SearchHits) -> list[list[str]]:
    return [[hit.entry.message.text for hit in part] for part in parts(found)]


@given(st.lists(st.integers(1, 60)), st.integers(0, 5), st.integers(0, 5), st.integers(0, 9))
def test_a_window_holds_its_match_and_its_neighbours_and_nothing_twice(
    numbers: list[int], before: int, after: int, more: int
) -> None:
    total = max(numbers, default=0) + more
    shown = spread(numbers, before, after, total)
    near = {m for n in numbers for m in range(n - before, n + after + 1) if 1 <= m <= total}
    assert shown == sorted(near)


async def test_windows_that_overlap_or_touch_are_one(harness: MemoryHarness) -> None:
    cases: list[tuple[set[int], list[tuple[int, int]]]] = [
        ({3, 10}, [(1, 5), (8, 12)]),
        ({3, 8}, [(1, 10)]),  # 1-5 touches 6-10
        ({3, 9}, [(1, 5), (7, 11)]),  # 6 is between
        ({3, 5}, [(1, 7)]),  # they overlap
        ({1, 20}, [(1, 3), (18, 20)]),  # at both ends
        (set(), []),
    ]

    def text(number: int) -> str:
        held = [f"needle{case}" for case, (wanted, _) in enumerate(cases) if number in wanted]
        return " ".join(held) or "hay"

    for number in range(1, 21, 2):
        await harness.says(text(number), reply=text(number + 1))
    for case, (_, expected) in enumerate(cases):
        passages = await found(harness, Words(f"needle{case}"))
        assert windows(passages) == expected
        assert passages.total == 20


async def test_a_search_finds_texts_tool_names_inputs_and_results_in_any_case(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    turn = await conversation.turns.open("Die STRASSE, bitte")
    await turn.record(Message("assistant", "", (ToolCall("c", "Paint", '{"colour": "Teal"}'),)))
    await turn.record(Message("tool", "all Done", call_id="c", tool="Paint"))
    await turn.record(Message("assistant", "It is\n  painted."))

    for text, at in [
        ("straße", [1]),
        ("paINT(", [2]),
        ("teal", [2]),
        ("all done", [3]),
        ("result of paint", [3]),
        ("is painted", [4]),
        ("(.*)", []),
    ]:
        passages = await found(harness, Words(text, 0, 0))
        assert [n for first, last in windows(passages) for n in range(first, last + 1)] == at, text


async def test_tail_and_head_show_the_ends(harness: MemoryHarness) -> None:
    for number in range(1, 9):
        await harness.says(f"q{number}", reply=f"a{number}")

    assert windows(await found(harness, Tail())) == [(7, 16)]
    assert windows(await found(harness, FirstMessages())) == [(1, 10)]
    assert texts(await found(harness, Tail(3))) == [["a7", "q8", "a8"]]
    assert texts(await found(harness, FirstMessages(1))) == [["q1"]]
    assert windows(await found(harness, FirstMessages(99))) == [(1, 16)]


async def test_a_turn_is_shown_whole_with_the_turns_around_it(harness: MemoryHarness) -> None:
    for number in range(1, 6):
        await harness.says(f"q{number}", results=["r"] * (number == 3), reply=f"a{number}")

    assert texts(await found(harness, MessagesAround(3))) == [["q3", "", "r", "a3"]]
    assert texts(await found(harness, MessagesAround(3, before=2, after=1))) == [
        ["q1", "a1", "q2", "a2", "q3", "", "r", "a3", "q4", "a4"]
    ]
    assert (await found(harness, MessagesAround(9))).hits == ()


async def test_the_running_turn_is_left_out(harness: MemoryHarness) -> None:
    await harness.says("where is the needle")
    turn = await (await harness.conversation()).turns.open("the needle, please")

    for wanted in (Words("needle"), Tail(), FirstMessages(), MessagesAround(1, after=5)):
        passages = await found(harness, wanted)
        assert windows(passages) == [(1, 2)]
        assert passages.total == 2
    await turn.record(Message("assistant", "There."))
    assert windows(await found(harness, Words("needle"))) == [(1, 4)]


async def test_what_left_the_context_is_found_until_it_is_cleared(harness: MemoryHarness) -> None:
    harness.limit(max_turns=2)
    for number in range(1, 8):
        await harness.says(f"q{number} {'needle' if number == 1 else ''}")
    conversation = await harness.conversation()
    assert 1 not in {turn.number for turn in conversation.context.view().turns}

    for strategy in STRATEGIES:
        harness.limit(strategy=strategy)
        assert windows(await found(harness, Words("needle", 0, 0))) == [(1, 1)]
    await conversation.editor.clear("new")
    assert windows(await found(harness, Words("needle", 0, 0))) == [(1, 1)], (
        "a new start hides nothing"
    )
    await conversation.editor.undo()
    await conversation.editor.clear()
    assert (await found(harness, Words("needle"))).total == 0


async def test_cleared_turns_are_left_out_as_long_as_the_clear_stands(
    harness: MemoryHarness,
) -> None:
    await harness.says("a needle")
    conversation = await harness.conversation()
    await conversation.editor.clear()
    await harness.says("hay")

    assert (await found(harness, Words("needle"))).hits == ()
    assert (await found(harness, MessagesAround(1))).hits == ()
    assert windows(await found(harness, FirstMessages())) == [(1, 2)]
    await harness.restart()
    assert (await found(harness, Words("needle"))).hits == ()
    await (await harness.conversation()).editor.undo()
    assert windows(await found(harness, Words("needle", 0, 0))) == [(1, 1)]


async def test_a_turn_that_ran_while_the_context_was_cleared_is_found_later(
    harness: MemoryHarness,
) -> None:
    await harness.says("an old needle")
    conversation = await harness.conversation()
    turn = await conversation.turns.open("a running needle")
    await conversation.editor.clear()
    await turn.record(Message("assistant", "done"))

    assert texts(await found(harness, Words("needle"))) == [["a running needle", "done"]]


async def test_of_many_matches_the_newest_are_shown_the_rest_counted(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    await conversation.turns.append([[Message("user", "yes"), Message("assistant", "yes")]] * 400)

    passages = await found(harness, Words("yes"))

    assert windows(passages) == [(800 - MOST + 1, 800)]
    assert passages.left_out == 800 - MOST
    around = await found(harness, MessagesAround(200, before=150))
    assert windows(around) == [(99, 98 + MOST)]
    assert around.left_out == 302 - MOST


async def test_thousands_of_messages_are_searched_while_the_loop_goes_on(
    harness: MemoryHarness,
) -> None:
    conversation = await harness.conversation()
    said = [Message("user", "hay " * 30), Message("assistant", "straw " * 30)]
    await conversation.turns.append([*[said] * 1_999, [replace(said[0], text="a needle"), said[1]]])

    searching = asyncio.create_task(conversation.passages(Words("needle")))
    rounds = 0
    while not searching.done():
        await asyncio.sleep(0)
        rounds += 1

    assert windows(await searching) == [(3_997, 4_000)]
    assert rounds > 10, "others had their turn meanwhile"


@example("", "0\x1f", "")  # a space for Python, but not for a pattern
@example("", "a\x1fb", "")
@given(st.text(), st.text(min_size=1).filter(str.strip), st.text())
def test_a_text_is_found_in_any_message_that_holds_it(left: str, text: str, right: str) -> None:
    assert finder(text).search(to_model_text(Message("user", f"{left}{text.strip()}{right}")))


@given(
    st.text(
        st.characters(codec="utf-8", exclude_categories=["C"], include_characters="\n\t\b")
    ).filter(str.strip),
    st.booleans(),
    st.sampled_from(["text", "größe"]),
)
def test_the_input_of_a_tool_is_found_however_its_json_is_written(
    text: str, is_ascii: bool, name: str
) -> None:
    arguments = json.dumps({name: [{"deep": f"before {text} after"}]}, ensure_ascii=is_ascii)
    said = to_model_text(Message("assistant", tool_calls=(ToolCall("c1", "draw", arguments),)))
    assert finder(text).search(said)
    assert finder(name.upper()).search(said)
