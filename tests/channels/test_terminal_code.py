"""Code and formulas in the terminal: what is copied from the screen is what was written."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.terminal import display
from channels.terminal.markdown import measure_finished
from tests.channels.glass import Glass

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
    """The lines of an answer, as they are copied from a screen of this width."""
    glass = Glass(width)
    glass.write(display.markdown(markdown, width).replace("\n", "\r\n"))
    return glass.copied.split("\n")


@settings(max_examples=100)
@given(LINES, LANGUAGES, WIDTHS)
def test_code_is_copied_as_it_was_written(lines: list[str], language: str, width: int) -> None:
    code = [f"x{line}" for line in lines]
    text = "\n".join(("Look:", "", f"~~~{language}", *code, "~~~", "", "That is all."))
    got = copied(text, width)
    begin = got.index("") + 1
    fits = [line if width_of(line) < width else line.expandtabs(8) for line in code]
    if any("\t" in line for line in code):  # a tab is as wide as what stands before it
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
