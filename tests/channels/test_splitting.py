"""Splitting of long replies: nothing is lost, nothing is too long, code stays code."""

from __future__ import annotations

import re

import regex
from hypothesis import given
from hypothesis import strategies as st

from channels.splitting import split

WORDS = st.text("abc äß中文。, .!\n😀\u0301\u200d👩", max_size=600)
LINES = st.lists(st.text("abc {}|`-", max_size=40), max_size=40)


def bare(text: str) -> str:
    """A text without white space."""
    return "".join(text.split())


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(WORDS, st.integers(20, 200))
def test_the_pieces_of_a_plain_text_are_the_text(text: str, longest: int) -> None:
    pieces = list(split(text, longest))
    assert bare("".join(pieces)) == bare(text)
    assert all(0 < len(piece) <= longest for piece in pieces)


@given(WORDS, st.integers(20, 200))
def test_no_piece_is_longer_than_allowed_in_the_units_of_the_platform(
    text: str, longest: int
) -> None:
    assert all(utf16(piece) <= longest for piece in split(text, longest, utf16))


@given(LINES, st.sampled_from(("```", "~~~", "````")), st.integers(60, 200))
def test_code_that_is_split_is_code_in_every_piece(
    lines: list[str], fence: str, longest: int
) -> None:
    code = [line for line in lines if fence not in line and "```" not in line]
    text = f"Look:\n\n{fence}py\n" + "\n".join(code) + f"\n{fence}\n\nThat was it."
    pieces = list(split(text, longest))
    fences = [piece.count(fence) for piece in pieces]
    assert all(count % 2 == 0 for count in fences)
    without = [re.sub(rf"^{fence}(py)?$", "", piece, flags=re.MULTILINE) for piece in pieces]
    assert bare("".join(without)) == bare("Look:" + "".join(code) + "That was it.")
    assert all(len(piece) <= longest for piece in pieces)


@given(st.text("ab`~|-\n> \\", max_size=400), st.integers(20, 60))
def test_any_markup_is_split_into_pieces_that_fit(text: str, longest: int) -> None:
    assert all(len(piece) <= longest for piece in split(text, longest))


def test_it_splits_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    for text, pieces in [
        ("One two.\n\nThree four five.", ["One two.", "Three four five."]),
        ("One two three.\nFour five six.", ["One two three.", "Four five six."]),
        ("It is so. And so it goes on.", ["It is so.", "And so it goes on."]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("x" * 45, ["x" * 20, "x" * 20, "x" * 5]),
    ]:
        assert [piece.strip() for piece in split(text, 20)] == pieces, text


def test_a_table_that_is_split_has_its_header_in_every_piece() -> None:
    rows = "\n".join(f"| {n} | {n * n} |" for n in range(40))
    pieces = list(split(f"| n | square |\n|---|---:|\n{rows}\n", 120))
    assert len(pieces) > 3
    assert all(piece.startswith("| n | square |\n|---|---:|\n| ") for piece in pieces)


def test_a_split_comes_before_code_that_fits_into_the_next_piece() -> None:
    text = "word " * 14 + "\n\n```py\n" + "line\n" * 12 + "```"
    first, second = split(text, 100)
    assert "```" not in first
    assert second.startswith("```py")


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
TANNED = "\U0001f469\U0001f3fd\u200d\U0001f4bb"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
GERMANY = "\U0001f1e9\U0001f1ea"
KEYCAP = "1\ufe0f\u20e3"


@given(
    st.lists(st.sampled_from([FAMILY, TANNED, ENGLAND, GERMANY, KEYCAP, "a"]), max_size=60),
    st.integers(14, 60),
)
def test_what_is_one_sign_to_the_eye_is_never_torn(signs: list[str], longest: int) -> None:
    pieces = list(split("".join(signs), longest))
    seen = [sign for piece in pieces for sign in regex.findall(r"\X", piece)]
    assert seen == signs
    assert all(len(piece) <= longest for piece in pieces)
