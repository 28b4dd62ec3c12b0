"""Tests of the parts of `/context` that are pure."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.change import Clip
from memory.context.forms import ASIDE, CLEARED, DROPPED, TurnForm, assign_form, overlay
from memory.context.layout import Layout
from memory.context.meter import PrefixTokens, PromptPrefix
from memory.context.view import Scale, View, apply_layout
from memory.messages import Message, ToolCall
from memory.record.closeness import Span, spans
from memory.record.search.excerpts import pieces
from memory.turns import Entry, Turn
from plugins.api import CommandError
from plugins.builtin.context.overview import message_sizes, parts
from plugins.builtin.context.preview import list_messages
from plugins.builtin.context.values import states
from plugins.health import seconds
from plugins.turn_names import turns_of
from plugins.wording import amount, amounts, clip, clip_words, literal, shorten, spread, table

NOON = datetime(2025, 11, 21, 12, tzinfo=UTC)


# --- names of turns ---


def test_turns_are_named_one_by_one_or_as_ranges() -> None:
    named = {
        "t7": (7,), "T7": (7,), "7": (7,), "t3-t5 t9": (3, 4, 5, 9), "t3 - t5, t9": (3, 4, 5, 9),
        "t3–5": (3, 4, 5), "t9 t3-t4 t4": (3, 4, 9), "t8-": (8, 9, 10), "t2 t9-": (2, 9, 10),
        "": (),
    }  # fmt: skip
    assert {text: turns_of(text, newest=10) for text in named} == named


def test_what_is_no_turn_is_answered_with_one_short_sentence() -> None:
    for text, sentence in (
        ("t0", "'t0' is not a turn"),
        ("x", "'x' is not a turn"),
        ("t11-", "There is no turn t11"),
        ("t-3", "is not a turn"),
        ("t٣", "is not a turn"),
        ("t99", "There is no turn t99; the newest is t10."),
        ("t1-t999999999999", "the newest is t10"),
        ("t5-t3", "t5-t3 is backwards; write t3-t5."),
        ("9" * 5_000, "is not a turn"),
    ):
        with pytest.raises(CommandError) as error:
            turns_of(text, newest=10)
        assert sentence in str(error.value)
        assert len(str(error.value)) < 120


# --- parts of a size ---


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=12), st.integers(0, 10**7))
def test_parts_add_up_to_the_whole_and_each_is_rounded_by_less_than_one(
    sizes: list[int], total: int
) -> None:
    found = spread(total, sizes)
    assert sum(found) == total
    whole, weights = sum(sizes) or len(sizes), sizes if any(sizes) else [1] * len(sizes)
    assert all(
        abs(part * whole - total * weight) < whole
        for part, weight in zip(found, weights, strict=True)
    )


@given(st.integers(0, 10**7), st.integers(0, 300))
def test_two_sizes_of_the_same_can_be_told_apart(before: int, less: int) -> None:
    after = max(0, before - less)
    was, now = amounts(before, after)
    assert (was != now) == (before != after)
    assert {was, now} == {amount(before), amount(after)} or amount(before) == amount(after)


def test_the_first_words_of_a_summary_have_no_signs_of_markdown() -> None:
    text = f"- **Lisbon** in November\n- {'Alfama ' * 40}"
    assert clip_words(text, 40) == "Lisbon in November Alfama Alfama…"


@given(st.floats(0, 5))
def test_no_time_is_said_to_be_nothing(time: float) -> None:
    assert seconds(time) != "0.0 s"


# --- states ---


def turn(number: int, *replies: Message) -> Turn:
    """Return a turn in which every message counts 10 tokens."""
    messages = (
        Message("user", f"question {number}"),
        *(replies or (Message("assistant", "Yes."),)),
    )
    entries = [Entry(10 * number + i, number, m, 10, NOON) for i, m in enumerate(messages)]
    return Turn(number, tuple(entries))


def with_a_tool(number: int) -> Turn:
    call = ToolCall("c", "look", "{}")
    return turn(
        number,
        Message("assistant", "", (call,)),
        Message("tool", "x" * 50, call_id="c", tool="look"),
        Message("assistant", "Yes."),
    )


def view(turns: tuple[Turn, ...], current: int = 0, **shown: object) -> View:
    layout = replace(Layout(), **shown)
    return View(
        turns,
        apply_layout(turns, layout),
        PrefixTokens(0, 0),
        layout,
        current=current,
        newest=9,
    )


@given(st.floats(0.2, 3), st.floats(-3_000, 3_000), st.integers(0, 500), st.integers(1, 5))
def test_parts_and_messages_add_up_to_the_whole_however_few_tokens_a_provider_counts(
    ratio: float, offset: float, prompt: int, turns: int
) -> None:
    shown = replace(
        view(tuple(turn(number) for number in range(1, turns + 1))),
        prefix=PrefixTokens(prompt, prompt // 3, (("memory", prompt // 7),)),
        scale=Scale(ratio, offset),
    )
    sizes = parts(shown).values()
    rows = list_messages(shown, PromptPrefix("Be brief.", (), (("memory", "Ann likes tea."),)))
    told = [size for _turn, _who, size, _words in rows if size is not None]
    messages = message_sizes(shown)
    assert sum(messages.values()) == parts(shown)["turns"]
    assert [size for turn, __, size, ___ in rows if turn] == [*messages.values()]
    for found in (sizes, told):
        assert min(found) >= 0
        assert sum(found) == shown.tokens


def test_a_turn_in_play_says_how_it_is_shown() -> None:
    where = states(
        view(
            (with_a_tool(1), with_a_tool(2), turn(3), turn(4)),
            current=4,
            forms=assign_form({1, 3}, TurnForm("squeezed")),
            pinned=frozenset({1, 3}),
            clipped={22: Clip(20, 5)},
        )
    )
    assert where.of(1) == ("pinned", "shortened")
    assert where.of(2) == ("clipped",)
    assert where.of(3) == ("pinned",)  # there was nothing to truncate
    assert where.of(4) == ("running",)


def test_a_turn_that_left_says_by_what() -> None:
    forms = overlay(
        assign_form({1, 2}, TurnForm("summary", 7)), assign_form({3}, TurnForm("gone", DROPPED))
    )
    forms = overlay(forms, assign_form({4}, TurnForm("gone", CLEARED)))
    forms = overlay(forms, assign_form({5}, TurnForm("gone", ASIDE)))
    where = states(view((turn(9),), forms=forms))
    assert [where.of(n) for n in (1, 2, 3, 4, 5, 9)] == [
        ("summarised",),
        ("summarised",),
        ("dropped",),
        ("cleared",),
        ("gone",),
        ("in context",),
    ]


# --- the output of a search ---


@given(st.text(max_size=200), st.lists(st.text(min_size=1, max_size=8), max_size=4))
def test_a_word_is_found_where_it_stands_whatever_its_case(text: str, words: list[str]) -> None:
    wanted = [word.casefold() for word in words]
    found = spans(text, wanted)
    assert len(found) == sum(word in text.casefold() for word in wanted)
    for span in found:
        covered = text[span.start : span.end].casefold()
        assert any(word in covered for word in wanted)


def test_folding_that_makes_a_text_longer_does_not_move_what_is_found() -> None:
    (span,) = spans("Weiße Straße 12", ["strasse"])
    assert "Weiße Straße 12"[span.start : span.end] == "Straße"


@given(
    st.text(max_size=600),
    st.lists(st.tuples(st.integers(0, 590), st.integers(1, 9)), min_size=1, max_size=5),
)
def test_an_excerpt_always_shows_the_words_found(text: str, places: list[tuple[int, int]]) -> None:
    there = [Span(start, start + size) for start, size in places if start + size <= len(text)]
    shown_pieces = pieces(text, there)
    words = [piece for piece, is_word in shown_pieces if is_word]
    for span in there:
        assert any(text[span.start : span.end] in word for word in words)
    assert all(piece.strip(" …") in text for piece, _ in shown_pieces)


def test_an_excerpt_says_where_something_is_left_out() -> None:
    text = "a" * 200 + "needle" + "b" * 200 + "needle" + "c" * 10
    excerpt = "".join(piece for piece, _ in pieces(text, [Span(200, 206), Span(406, 412)]))
    left, middle, right = excerpt.split("needle")
    assert left == "…" + "a" * 50
    assert middle == "b" * 50 + " … " + "b" * 50
    assert right == "c" * 10


# --- wording ---


@given(st.text(max_size=300), st.integers(1, 80))
def test_a_beginning_is_one_line_and_no_longer_than_asked(text: str, most: int) -> None:
    line = clip(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1


def test_markup_in_what_was_said_stays_as_it_was_said() -> None:
    assert literal("**b** [x](y) a|b `c` snake_case _i_ <t>") == (
        r"\*\*b\*\* [x\](y) a\|b \`c\` snake_case \_i\_ \<t\>"
    )


def test_of_many_rows_the_first_and_the_last_are_shown() -> None:
    assert shorten(range(10), 2, 3, lambda gone: -gone) == [0, 1, -5, 7, 8, 9]
    assert shorten(range(6), 2, 3, lambda gone: -gone) == [0, 1, 2, 3, 4, 5]


def test_a_table_aligns_numbers_to_the_right() -> None:
    assert table(("a", "n:"), [("x", 1)]) == "| a | n |\n| --- | ---: |\n| x | 1 |"
