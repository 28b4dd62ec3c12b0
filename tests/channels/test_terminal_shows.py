"""Tests of the terminal's drawings: code, formulas, figures and pictures."""

from __future__ import annotations

import base64
import re
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from channels.terminal import display, figures
from channels.terminal.figures import Block, ContextFigure, distribute, figure_of, kitty_picture
from channels.terminal.markdown import measure_finished
from plugins.builtin.context import values
from plugins.context_map import feature as context_map
from tests.channels.glass import Glass
from tests.channels.test_terminal import plain

LINES = st.lists(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\n\r")
        | st.sampled_from(" \t\\`*_|$<&中😀e\u0301x"),
        max_size=150,
    ).map(display.without_controls),
    min_size=1,
    max_size=5,
)
LANGUAGES = st.sampled_from(["", "python", "sh", "json", "make", "diff", "html", "no-such"])
WIDTHS = st.integers(10, 100)


def copied(markdown: str, width: int) -> list[str]:
    """Return the lines of an answer, as copied from a screen of this width."""
    glass = Glass(width)
    glass.write(display.markdown(markdown, width).replace("\n", "\r\n"))
    return glass.copied.split("\n")


@settings(max_examples=100)
@example([display.without_controls("a\ufdd0b c")], "", 40)
@given(LINES, LANGUAGES, WIDTHS)
def test_code_is_copied_as_it_was_written(lines: list[str], language: str, width: int) -> None:
    code = [f"x{line}" for line in lines]
    text = "\n".join(("Look:", "", f"~~~{language}", *code, "~~~", "", "That is all."))
    got = copied(text, width)
    begin = got.index("") + 1
    fits = [line if width_of(line) < width else line.expandtabs(8) for line in code]
    if any("\t" in line for line in code):  # the width of a tab depends on the text before it
        assert [one.expandtabs(8) for one in got[begin : begin + len(code)]] == [
            one.expandtabs(8) for one in fits
        ] or any(not line.isascii() for line in code)
    else:
        assert got[begin : begin + len(code)] == code


def width_of(line: str) -> int:
    return len(line.expandtabs(8))


@given(
    LINES,
    st.sampled_from([("> ", "> "), ("- ", "  "), ("1. ", "   "), ("> - ", ">   ")]),
    st.integers(24, 100),
)
def test_code_in_lists_and_quotations_is_copied_alone(
    lines: list[str], around: tuple[str, str], width: int
) -> None:
    first, rest = around
    code = [f"x{line}".replace("\t", " ") for line in lines]
    text = "\n".join((f"{first}words", rest, f"{rest}~~~", *(rest + c for c in code), f"{rest}~~~"))
    got = copied(text, width)
    begin = len(got) - 1 - len(code)
    assert got[begin:-1] == code


def test_tabs_are_left_to_the_terminal_where_they_are_safe() -> None:
    short, long = "all:\tclean", "all:\t" + "x" * 40
    assert copied(f"```make\n{short}\n{long}\n```", 30)[:2] == [short, long.expandtabs(8)]


def test_long_code_is_not_cut_into_pages() -> None:
    lines = [f"line {number} {'x' * 60}" for number in range(400)]
    long = "y" * 20_000
    text = "\n".join(("# Head", "```", *lines, long, "```", "the end"))
    got = copied(text, 80)
    begin = got.index(lines[0])
    assert got[begin : begin + 401] == [*lines, long]
    assert "the end" in got


def test_code_that_still_grows_is_wrapped_by_us() -> None:
    shown = re.sub(r"\x1b\[[0-9;]*m", "", display.render_tail(f"```\n{'a' * 90}", 40, 10))
    assert shown.split() == ["a" * 40, "a" * 40, "a" * 10]


SIGNS = st.text(st.sampled_from([*"abxy01\\{}_*&^~=+-<>[]().,;! "]), min_size=1, max_size=60)
INLINE = st.sampled_from([("$", "$"), ("\\(", "\\)")])
ALONE = st.sampled_from([("$$", "$$"), ("\\[", "\\]"), ("\\begin{align*}", "\\end{align*}")])


@settings(max_examples=100)
@given(SIGNS, INLINE)
def test_a_formula_in_a_line_stands_as_it_was_written(content: str, signs: tuple[str, str]) -> None:
    content = f"a{content}b"
    opening, closing = signs
    if closing in content:
        return
    formula = f"{opening}{content}{closing}"
    assert f"Let {' '.join(formula.split(' '))} be" in "\n".join(
        copied(f"Let {formula} be *so*.", 400)
    )


@settings(max_examples=100)
@given(st.lists(SIGNS.filter(str.strip), min_size=1, max_size=5), ALONE)
def test_a_formula_by_itself_stands_as_it_was_written(
    lines: list[str], signs: tuple[str, str]
) -> None:
    lines = [f"a{line}".strip() for line in lines]
    opening, closing = signs
    if any(closing in line for line in lines):
        return
    text = "\n".join((opening, *lines, closing))
    assert copied(f"Look:\n\n{text}\n\nThat is *all*.", 100)[2:-3] == text.split("\n")


def test_a_formula_that_is_not_finished_waits_for_its_end() -> None:
    for source in ("$$\na\n- b\n", "\\[\na\n\nb\n", "\\begin{cases}\n1. a\n"):
        assert measure_finished(source) == 0, source
    assert measure_finished("$$\na\n$$\nafter\n") == len("$$\na\n$$\n")


def test_money_is_no_formula() -> None:
    shown = copied("It costs $5 or *maybe* $6, and **not** $7.", 80)
    assert shown[0] == "It costs $5 or maybe $6, and not $7."


PARTS = {"system prompt": 200, "tools": 1_000, "turns": 1_800, "memory": 0}
OVERVIEW = (
    "**3k of 4k tokens (75%)** `▇▇▇▁` measured\n\n| part | tokens |\n|---|---:|\n"
    "| system prompt | 200 |\n| tools (11) | 1k |\n| turns (t1) | 1.8k |\n| free | 1k |\n\nMore."
)


def shown(figure: ContextFigure, width: int = 80) -> str:
    return plain(display.context_reply(OVERVIEW, figure, width))


def test_every_part_and_every_state_that_the_bot_knows_has_a_colour() -> None:
    known = {name for name in context_map._PARTS if name != "free"}
    assert known == figures.PARTS.keys()
    assert set(values.STATES) == figures._STATES.keys()


@given(st.lists(st.integers(0, 10**7), max_size=12), st.integers(1, 80))
def test_the_cells_of_a_bar_are_all_given_and_what_is_there_is_seen(
    sizes: list[int], cells: int
) -> None:
    found = distribute(sizes, cells)
    assert sum(found) == (cells if any(sizes) else 0)
    present = [index for index, size in enumerate(sizes) if size]
    if len(present) <= cells:
        assert [index for index, count in enumerate(found) if count] == present


def test_the_bar_stands_below_the_headline_and_its_colours_stand_in_the_table() -> None:
    text = shown(ContextFigure(4_000, PARTS))
    assert text.startswith("  3k of 4k tokens (75%) · measured\n\n  █")
    assert "▇" not in text
    for line in ("█ system prompt", "▒ tools (11)", "█ turns (t1)", "░ free"):
        assert f"  {line}" in text
    raw = display.context_reply(OVERVIEW, ContextFigure(4_000, PARTS), 80)
    assert len(set(re.findall(r"\x1b\[(\d+)m[█▓▒░]", raw))) >= 4
    assert text.endswith("More.\n")


def test_without_colours_the_parts_still_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bar = display.context_reply(OVERVIEW, ContextFigure(4_000, PARTS), 80).split("\n")[2]
    assert re.fullmatch(r"  █+▒+█+░+", plain(bar))


def test_a_model_s_own_table_gets_no_colours() -> None:
    assert "▒" not in display.markdown("| part | tokens |\n|---|---|\n| tools | 1 |", 80)


@given(
    st.lists(
        st.builds(
            Block,
            st.integers(1, 9_999).map("t{}".format),
            st.integers(0, 10**6),
            st.lists(st.sampled_from(values.STATES), min_size=1, max_size=2).map(tuple),
        ),
        max_size=60,
    ),
    st.integers(20, 120),
)
def test_a_map_is_never_wider_than_the_terminal_and_has_every_turn(
    blocks: list[Block], width: int
) -> None:
    text = shown(ContextFigure(4_000, PARTS, tuple(blocks)), width)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    for block in blocks:
        assert block.name in text


def test_what_left_is_drawn_in_another_way_than_what_is_in_play() -> None:
    turns = (
        Block("t1", 900, ("summarised",)),
        Block("t2", 900, ("pinned", "clipped")),
        Block("t3", 40, ("in context",)),
    )
    text = shown(ContextFigure(4_000, PARTS, turns))
    assert re.search(r"╌t1╌{5,} +t2\* {5,}", text)
    assert "pinned" in text.split("t3")[1]


def test_other_data_is_no_figure() -> None:
    cases: list[Any] = [
        None,
        {},
        {"parts": {}},
        {"budget": 0, "parts": {}},
        {"budget": "x", "parts": [1]},
    ]
    for data in cases:
        assert figure_of(data) is None, data


def png(width: int, height: int, size: int = 100) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + bytes(size)


def test_a_picture_goes_to_the_terminal_whole_and_in_pieces() -> None:
    picture = png(1520, 760, 20_000)
    sent = kitty_picture(picture, 80)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", sent)
    assert base64.b64decode("".join(text for _, text in pieces)) == picture
    assert all(len(text) <= 4_096 for _, text in pieces)
    assert pieces[0][0] == "a=T,f=100,c=72,r=18,q=2,m=1"
    assert [keys for keys, _ in pieces[1:]] == ["m=1"] * (len(pieces) - 2) + ["m=0"]


def test_what_is_no_picture_is_not_sent() -> None:
    for data in [b"", b"GIF89a", b"\x89PNG\r\n\x1a\n", png(0, 0)[:20]]:
        assert kitty_picture(data, 80) == "", data


@pytest.mark.parametrize(
    ("environ", "speaks"),
    [
        ({"TERM": "xterm-kitty"}, True),
        ({"TERM": "xterm-256color", "WEZTERM_PANE": "0"}, True),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, False),
        ({"TERM": "xterm-256color"}, False),
    ],
)
def test_only_a_terminal_that_can_is_sent_pictures(
    environ: dict[str, str], speaks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMUX", "STY", "TERM", *figures._KITTY):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert figures.speaks_kitty() is speaks


def test_the_last_block_of_a_line_is_as_wide_as_its_turn() -> None:
    text = shown(ContextFigure(4_000, PARTS, (Block("t1", 900, ("in context",)),)))
    assert re.search(r"^   t1 {10,}$", text, re.MULTILINE)
