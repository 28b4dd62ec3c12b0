"""Tests of the figures of the map on the page, and of the picture that is sent."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from memory.context.forms import FormSpan, TurnForm
from memory.context.layout import Layout
from memory.context.meter import PrefixTokens
from memory.context.settings import Limits
from memory.context.view import Preface, Scale, View, apply_layout
from memory.messages import Message
from memory.turns import Entry, Turn
from plugins.builtin.context.turns import Row
from plugins.builtin.context.values import STATES
from plugins.context_map import feature as context_map
from plugins.context_map.feature import Picture, flow, render, svg
from plugins.context_map.figures import downsample, find_limit, list_blocks
from plugins.turn_names import spell, turns_of
from plugins.wording import spread
from tests.fakes.openai_server import Answer, Received, Say
from tests.tables import each_row
from tests.whole.requests import data
from tests.whole.testbot import TestBot, run_bot

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def turn(number: int, tokens: int, is_over: bool = True) -> Turn:
    said = [Message("user", f"question {number}"), Message("assistant", "Yes.")]
    sizes = (tokens // 3, tokens - tokens // 3)
    entries = [
        Entry(10 * number + place, number, message, size, NOON)
        for place, (message, size) in enumerate(zip(said, sizes, strict=True))
    ]
    return Turn(number, tuple(entries if is_over else entries[:1]))


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw conversations of up to 60 turns. Some turns are pinned, dropped, in their own summary or
    in the one at the front, and the last turn may be running."""
    sizes = draw(st.lists(st.integers(0, 5_000), max_size=60))
    forms = draw(st.lists(st.integers(0, 5), min_size=len(sizes), max_size=len(sizes)))
    is_running = draw(st.booleans()) and bool(sizes)
    kinds = {1: TurnForm("gone", 1), 2: TurnForm("range", 7), 3: TurnForm("range", 8)}
    kinds |= {4: TurnForm("summary", 9)}
    numbers = [*range(1, len(sizes) + 1)]
    shown = numbers[: -1 if is_running else None]
    spans = [FormSpan(n, n, kinds[forms[n - 1]]) for n in shown if forms[n - 1] in kinds]
    gone = {span.first for span in spans}
    layout = Layout(
        tuple(spans),
        pinned=frozenset(draw(st.lists(st.sampled_from(numbers)))) if numbers else frozenset(),
        texts={7: 1, 9: 3},  # the summary of the other range is not written yet
    )
    whole = tuple(
        turn(n, sizes[n - 1], is_over=not is_running or n < len(sizes))
        for n in numbers
        if n not in gone
    )
    has_front = any(span.form.kind == "summary" for span in spans)
    return View(
        whole,
        apply_layout(whole, layout),
        PrefixTokens(draw(st.integers(0, 900)) + 50, draw(st.integers(0, 900)), (("memory", 30),)),
        layout,
        Scale(draw(st.floats(0.2, 3)), draw(st.floats(-500, 3_000))),
        Preface("What was said before.", 40) if has_front else None,
        current=len(sizes) if is_running else 0,
        newest=len(sizes),
        summaries={1: Preface("What t1 said.", draw(st.integers(0, 300)))},
    )


@given(views(), st.integers(1, 80))
def test_the_blocks_are_the_request_in_its_order_and_add_up_to_its_size(
    view: View, most: int
) -> None:
    blocks = list_blocks(view, "Be brief.", most)
    assert sum(block.tokens for block in blocks) == view.tokens
    assert all(block.tokens >= 0 for block in blocks)
    told = [number for one in blocks for number in turns_of(one.turns, view.newest)]
    written = [s for s in view.layout.ranges if s.summary]
    steered = {*(t.number for t in view.complete), *(n for s in written for n in s.turns)}
    assert sorted(told) == sorted(steered)
    assert all(one.count == len(turns_of(one.turns, view.newest)) for one in blocks if one.turns)
    places = [one.last for one in blocks if one.part in {"turns", "summaries of turns"}]
    assert places == sorted(places)
    assert [one.part for one in blocks if one.part == "running turn"] == ["running turn"] * bool(
        view.current
    )
    runs = 1 + sum(a.state != b.state or a.part != b.part for a, b in pairwise(blocks))
    assert len(blocks) <= most + runs
    assert all(one.words for one in blocks if one.first and one.part != "activity log")


@given(st.sets(st.integers(1, 3_000), min_size=1, max_size=50))
def test_turns_are_spelled_as_commands_take_them(numbers: set[int]) -> None:
    assert turns_of(spell(sorted(numbers)), 3_000) == tuple(sorted(numbers))


@given(st.integers(0, 10**6), st.lists(st.integers(0, 10**5), max_size=40))
def test_shares_add_up_to_the_whole(total: int, weights: list[int]) -> None:
    shares = spread(total, weights)
    assert len(shares) == len(weights)
    assert all(share >= 0 for share in shares)
    assert sum(shares) == (total if weights else 0)


@given(st.dictionaries(st.integers(1, 5_000), st.integers(0, 10**6)), st.integers(1, 200))
def test_a_line_of_few_points_keeps_the_largest(sizes: dict[int, int], most: int) -> None:
    points = downsample(dict(sorted(sizes.items())), most)
    assert len(points) <= most
    assert points == sorted(points)
    assert dict(points).items() <= sizes.items()
    assert max((size for __, size in points), default=0) == max(sizes.values(), default=0)


@each_row(
    ("limits", "of", "used", "most", "at"),
    [
        (Limits(max_turns=8), "turns", 5, 8, 1_300),
        (Limits(max_turns=3), "turns", 5, 3, 800),
        (Limits(max_tokens=2_000), "tokens", 1_000, 2_000, 2_000),
        (
            Limits("structured", window=10_000).but(trigger_ratio=0.5),
            *("tokens", 1_000, 5_000, 5_000),
        ),
    ],
)
def test_the_nearest_limit_has_words_and_a_place(
    limits: Limits, of: str, used: int, most: int, at: int
) -> None:
    turns = tuple(turn(number, 100) for number in range(1, 6))
    found = find_limit(View(turns, turns, PrefixTokens(200, 300), newest=5), limits)
    assert found == {"of": of, "used": used, "most": most, "at": at, "per_turn": 100}


def echo(request: Received) -> Answer:
    return Say("Yes. " * 30)


async def blocks_of(bot: TestBot) -> list[dict[str, Any]]:
    """Return the blocks of the map, which add up to the size that `/context` shows."""
    found: list[dict[str, Any]] = (await data(bot, "/context map json"))["blocks"]
    assert sum(one["tokens"] for one in found) == (await data(bot, "/context json"))["tokens"]
    return found


async def test_the_map_of_a_conversation_follows_what_is_done_to_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        assert [one["part"] for one in await blocks_of(bot)] == ["system prompt", "tools"]
        for number in range(1, 7):
            await bot.says(f"question {number}: {'many words ' * 60}")
        whole = (await blocks_of(bot))[2:]
        assert [one["turns"] for one in whole] == [f"t{number}" for number in range(1, 7)]
        assert whole[2]["words"].startswith("question 3: many words")
        await bot.says("/context compact t2-t4")
        await bot.says("/context pin t5")
        one, two, three, four = (await blocks_of(bot))[2:]
        assert (one["turns"], four["turns"]) == ("t1", "t6")
        assert (two["part"], two["turns"], two["count"]) == ("summaries of turns", "t2-t4", 3)
        assert two["words"].startswith("Yes.")
        assert (three["turns"], three["state"]) == ("t5", ["pinned"])
        await bot.says("/context compact")
        parts = {one["part"]: one for one in await blocks_of(bot)}
        assert (parts["summary"]["first"], parts["summary"]["last"]) == (1, 1)
        assert "turns" not in parts["summary"]


async def test_the_map_has_the_size_of_each_turn_also_in_a_branch(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for number in range(1, 4):
            await bot.says(f"question {number}")
        sizes = (await data(bot, "/context map json"))["sizes"]
        assert [turn for turn, __ in sizes] == [1, 2, 3]
        assert sizes[0][1] < sizes[1][1] < sizes[2][1]
        await bot.says("/fork t1")
        await bot.says("another question")
        branch = (await data(bot, "/context map json"))["sizes"]
        assert [turn for turn, __ in branch] == [1, 2]
        assert branch[0] == sizes[0]


async def test_a_change_says_at_which_turn_it_was_made(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for number in range(1, 4):
            await bot.says(f"question {number}")
        await bot.says("/context drop t1")
        (event,) = (await data(bot, "/context history"))["events"]
        assert (event["at_turn"], event["turns"]) == ("t3", ["t1"])


blocks = st.lists(
    st.tuples(st.integers(0, 100_000), st.sampled_from(STATES)),
    max_size=60,
).map(lambda pairs: [Row(n, tokens, (name,)) for n, (tokens, name) in enumerate(pairs, 1)])


@given(blocks, st.integers(1_000, 200_000))
def test_the_map_is_valid_and_shows_every_turn_with_its_state(
    turns: list[Row], budget: int
) -> None:
    sizes = {"system prompt": 100, "tools": 0, "summary": 0, "turns": 5_000, "running turn": 0}
    drawing = svg(Picture(5_100, budget, True, sizes, turns))
    root = ElementTree.fromstring(drawing)
    titles = [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == 1 + len(turns)
    for block, title in zip(turns, titles[1:], strict=True):
        assert title is not None
        assert title.startswith(f"t{block.number}: ")
        assert title.endswith(block.state[0])


@given(st.lists(st.floats(1, 230), max_size=80))
def test_blocks_flow_like_words_and_never_overlap(widths: list[float]) -> None:
    boxes = flow(widths, top=100, line=38)
    for one, other in pairwise(boxes):
        assert other.y > one.y or other.x >= one.x + one.width
    assert all(box.x + box.width <= context_map.WIDTH for box in boxes)


def test_the_map_is_rendered_as_a_png_with_letters_of_its_own() -> None:
    named = svg(Picture(100, 1_000, False, {"turns": 100}, [Row(1, 100, ("in context",))]))
    bare = named.replace(">t1<", "><")
    assert render(named).startswith(b"\x89PNG")
    assert render(named) != render(bare)
