"""The terminal's background: the answer is taken out of what is typed, and nothing else is."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

from channels.terminal import display
from channels.terminal.passthrough import for_terminal
from channels.terminal.theme import AnswerReader, TerminalBackground, drawing_on

KEYS = st.lists(
    st.sampled_from(
        [
            *("ab]1;/:\\é中", "\x1b[A", "\x1b", "\x1bOP", "\r", "\x03", "\x1b]", "\x1b]11;"),
            "\x1b[200~pasted \x1b]11;rgb:0/0/0\x07 text\x1b[201~",
        ]
    ),
    max_size=12,
).map("".join)
ANSWERS = [
    ("\x1b]11;rgb:0000/0000/0000\x1b\\", False),
    ("\x1b]11;rgb:ffff/ffff/ffff\x07", True),
    ("\x1b]11;rgb:fd/f6/e3\x07", True),
    ("\x1b]11;rgba:1e1e/1e1e/2e2e/ffff\x1b\\", False),
]


def pressed(reader: Vt100Parser, keys: list[KeyPress], pieces: list[str]) -> list[tuple[str, str]]:
    for piece in pieces:
        reader.feed(piece)
    reader.flush()
    return [(str(one.key), one.data) for one in keys]


def cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({min(place, len(text)) for place in places} | {0, len(text)})
    return [text[begin:end] for begin, end in pairwise(ends)]


@settings(max_examples=300)
@given(KEYS, st.lists(st.integers(0, 80), max_size=6))
def test_no_key_is_lost_however_it_comes(typed: str, places: list[int]) -> None:
    typed += "!"  # with which the beginning of an answer is none
    heard: list[bool] = []
    ours, theirs = list[KeyPress](), list[KeyPress]()
    with_reader = pressed(AnswerReader(ours.append, heard.append), ours, cut(typed, places))
    assert with_reader == pressed(Vt100Parser(theirs.append), theirs, [typed])
    assert heard == []


@settings(max_examples=300)
@given(
    st.text("abc中", max_size=5),
    st.text("abc中", max_size=5),
    st.sampled_from(ANSWERS),
    st.lists(st.integers(0, 80), max_size=6),
)
def test_the_answer_is_taken_out_of_what_is_typed(
    before: str, after: str, answer: tuple[str, bool], places: list[int]
) -> None:
    heard: list[bool] = []
    keys = list[KeyPress]()
    text, is_light = answer
    pieces = cut(before + text + after, places)
    found = pressed(AnswerReader(keys.append, heard.append), keys, pieces)
    assert "".join(data for _, data in found) == before + after
    assert heard == [is_light]


@given(st.sampled_from(ANSWERS), st.integers(5, 30), st.sampled_from(["", "a", "中"]))
def test_an_answer_may_come_in_pieces_over_a_slow_line(
    answer: tuple[str, bool], place: int, after: str
) -> None:
    heard: list[bool] = []
    keys = list[KeyPress]()
    text, is_light = answer
    reader = AnswerReader(keys.append, heard.append)
    for piece in (text[:place], text[place:] + after):
        reader.feed(piece)
        reader.flush()
    assert "".join(key.data for key in keys) == after
    assert heard == [is_light]


def test_what_looked_like_an_answer_is_keys_when_the_next_one_comes() -> None:
    keys = list[KeyPress]()
    reader = AnswerReader(keys.append, lambda is_light: None)
    assert pressed(reader, keys, ["\x1b]11;r", "!"])[-2:] == [("r", "r"), ("!", "!")]


def _same(answered: bool | None) -> bool | None:
    return answered


def test_what_is_set_goes_before_what_is_answered_and_that_before_what_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for wanted, answered, said, is_light in (
        ("auto", None, "", False),
        ("auto", None, "0;15", True),
        ("auto", False, "0;15", False),
        ("auto", True, "15;0", True),
        ("dark", True, "0;15", False),
        ("light", False, "15;0", True),
    ):
        monkeypatch.setenv("COLORFGBG", said)
        background = TerminalBackground(partial(str, wanted), partial(_same, answered))
        with drawing_on(background):
            shown = display.markdown("```python\ndef total(): return 1\n```", 80)
        assert ("\x1b[94m" in shown) == (not is_light), (wanted, answered, said)


def test_tmux_gets_a_question_for_the_terminal_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    assert for_terminal("\x1b]11;?\x1b\\") == "\x1b]11;?\x1b\\"
    monkeypatch.setenv("TMUX", "x")
    assert for_terminal("\x1b]11;?\x07") == "\x1b]11;?\x07\x1bPtmux;\x1b\x1b]11;?\x07\x1b\\"
