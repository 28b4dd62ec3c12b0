"""The context as the terminal draws it: in colours, without them, and as a picture."""

from __future__ import annotations

import base64
import re
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from channels.terminal import display, figures
from channels.terminal.figures import Block, Figure, figure_of, kitty_picture, share_out
from plugins.builtin.context import state
from plugins.context_map import picture
from tests.channels.test_terminal import plain

PARTS = {"system prompt": 200, "tools": 1_000, "turns": 1_800, "memory": 0}
OVERVIEW = (
    "**3k of 4k tokens (75%)** `▇▇▇▁` measured\n\n| part | tokens |\n|---|---:|\n"
    "| system prompt | 200 |\n| tools (11) | 1k |\n| turns (t1) | 1.8k |\n| free | 1k |\n\nMore."
)


def shown(figure: Figure, width: int = 80) -> str:
    return plain(display.context_reply(OVERVIEW, figure, width))


def test_every_part_and_every_state_that_the_bot_knows_has_a_colour() -> None:
    known = {name for name in picture._PARTS if name != "free"}
    assert known == figures.PARTS.keys()
    assert set(state.STATES) == figures._STATES.keys()


@given(st.lists(st.integers(0, 10**7), max_size=12), st.integers(1, 80))
def test_the_cells_of_a_bar_are_all_given_and_what_is_there_is_seen(
    sizes: list[int], cells: int
) -> None:
    found = share_out(sizes, cells)
    assert sum(found) == (cells if any(sizes) else 0)
    present = [index for index, size in enumerate(sizes) if size]
    if len(present) <= cells:
        assert [index for index, count in enumerate(found) if count] == present


def test_the_bar_stands_below_the_headline_and_its_colours_stand_in_the_table() -> None:
    text = shown(Figure(4_000, PARTS))
    assert text.startswith("  3k of 4k tokens (75%) · measured\n\n  █")
    assert "▇" not in text
    for line in ("█ system prompt", "▒ tools (11)", "█ turns (t1)", "░ free"):
        assert f"  {line}" in text
    raw = display.context_reply(OVERVIEW, Figure(4_000, PARTS), 80)
    assert len(set(re.findall(r"\x1b\[(\d+)m[█▓▒░]", raw))) >= 4
    assert text.endswith("More.\n")


def test_without_colours_the_parts_still_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    bar = display.context_reply(OVERVIEW, Figure(4_000, PARTS), 80).split("\n")[2]
    assert re.fullmatch(r"  █+▒+█+░+", plain(bar))


def test_a_model_s_own_table_gets_no_colours() -> None:
    assert "▒" not in display.markdown("| part | tokens |\n|---|---|\n| tools | 1 |", 80)


@given(
    st.lists(
        st.builds(
            Block,
            st.integers(1, 9_999).map("t{}".format),
            st.integers(0, 10**6),
            st.lists(st.sampled_from(state.STATES), min_size=1, max_size=2).map(tuple),
        ),
        max_size=60,
    ),
    st.integers(20, 120),
)
def test_a_map_is_never_wider_than_the_terminal_and_has_every_turn(
    blocks: list[Block], width: int
) -> None:
    text = shown(Figure(4_000, PARTS, tuple(blocks)), width)
    assert all(cell_len(line) <= width for line in text.split("\n"))
    for block in blocks:
        assert block.name in text


def test_what_left_is_drawn_in_another_way_than_what_is_in_play() -> None:
    turns = (
        Block("t1", 900, ("summarised",)),
        Block("t2", 900, ("pinned", "clipped")),
        Block("t3", 40, ("in context",)),
    )
    text = shown(Figure(4_000, PARTS, turns))
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
    text = shown(Figure(4_000, PARTS, (Block("t1", 900, ("in context",)),)))
    assert re.search(r"^   t1 {10,}$", text, re.MULTILINE)
