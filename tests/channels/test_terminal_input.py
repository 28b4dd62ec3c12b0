"""Input at the terminal: files, earlier lines, and the terminal's own replies."""

from __future__ import annotations

import re
import stat
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress

from channels.base import WithHistory
from channels.terminal import display
from channels.terminal.completion import Lines
from channels.terminal.mentions import (
    describe_unknown,
    discard,
    find_mentions,
    mention_prefix,
    name_dropped,
    offer_files,
    paste_picture,
)
from channels.terminal.terminal import Terminal
from channels.terminal.theme import AnswerReader, TerminalBackground, drawing_on, for_terminal


async def remembered(lines: Lines) -> list[str]:
    """Return the lines that the arrow keys show, newest first."""
    return [line async for line in lines.load()]


async def typed(path: Path, *texts: str) -> Lines:
    lines = Lines(path)
    for text in texts:
        lines.append_string(text)
    return lines


async def test_some_lines_are_forgotten_and_the_others_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "history"
    said = ("one", " a secret\nin two lines ", "two", "//etc", "//usr", "/memory search secret")
    lines = await typed(path, *said)
    assert len(await remembered(lines)) == 6
    lines.forget({"a secret\nin two lines", "/etc"})
    assert await remembered(lines) == ["//usr", "two", "one"]
    assert "secret" not in path.read_text()
    lines.append_string("three")
    assert await remembered(Lines(path)) == ["three", "//usr", "two", "one"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_all_lines_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "history"
    lines = await typed(path, "one", "two")
    lines.forget(None)
    assert await remembered(lines) == []
    assert path.read_bytes() == b""


async def test_the_terminal_is_a_channel_that_remembers(tmp_path: Path) -> None:
    path = tmp_path / "history"
    await typed(path, "a secret", "fine")
    terminal = Terminal(path)
    assert isinstance(terminal, WithHistory)
    terminal.forget(["a secret"])
    assert await remembered(Lines(path)) == ["fine"]


async def test_lines_off_the_record_are_behind_the_arrow_keys_and_in_no_file(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history"
    lines = await typed(path, "one", "/private on", "zebra", "/help", "/private off", "two")
    assert "zebra" in lines.get_strings()
    lines.is_private = lambda: True  # it was begun elsewhere
    assert lines.keeps_nothing  # and no editor is opened, which would
    lines.append_string("zebra again")
    assert await remembered(Lines(path)) == ["two", "/private off", "one"]


ACTING = [*range(0x20), 0x7F, *range(0x80, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A)]
STYLED = re.compile(r"\x1b\[[0-9;]*m")
PLACES = (
    "a {} b",
    "# a {} b",
    "- a {} b",
    "> *a {} b*",
    "| a {} | b |\n|---|---|\n| c {} | d |",
    "[a {} b](http://a.b/{} 'c {}')",
    "![a {} b](c.png)",
    "`a {} b`",
    "```a{}\nb {} c\n```",
)


@pytest.mark.parametrize("place", PLACES)
@settings(max_examples=40)
@given(st.sampled_from(ACTING), st.sampled_from(["{}", "&#{};", "&#x{:x};"]), st.integers(10, 90))
def test_no_sign_acts_on_the_terminal(place: str, number: int, form: str, width: int) -> None:
    sign = chr(number) if form == "{}" else form.format(number)
    source = place.replace("{}", sign)
    for shown in (
        display.markdown(source, width),
        display.command_reply(source, width),
        display.render_tail(source, width, 10),
    ):
        left = STYLED.sub("", shown)
        assert not [s for s in left if ord(s) in ACTING and s not in "\n\t"], repr(shown)


PNG = b"\x89PNG\r\n\x1a\n and more"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("notes.txt", "two words.txt", "a.png", "b c.PNG", ".hidden", 'od"d.png'):
        Path(name).write_bytes(PNG)
    Path("sub").mkdir()
    Path("sub/deep.txt").write_text("x")


def test_a_file_that_is_named_is_found_and_any_other_word_is_a_word() -> None:
    for text, files in [
        ("look at @notes.txt, please", ["notes.txt"]),
        ("@notes.txt @sub/deep.txt @notes.txt", ["notes.txt", "sub/deep.txt"]),
        ('see @"two words.txt".', ["two words.txt"]),
        ("write to ann@notes.txt", []),
        ("thanks @ann, and @sub", []),
        ("@" + "x" * 5_000, []),
        ("@no\0thing", []),
    ]:
        assert find_mentions(text) == [Path(name) for name in files], text


def test_a_name_is_begun_by_an_at_sign_in_front_of_a_word() -> None:
    for typed, begun in [
        ("see @no", "@no"),
        ('see @"two w', '@"two w'),
        ("@", "@"),
        ("a@b", None),
        ("@a b", None),
    ]:
        assert mention_prefix(typed) == begun, typed


def test_files_are_offered_as_they_are_to_be_typed() -> None:
    for begun, offered in [
        ("@no", ["@notes.txt"]),
        ("@tw", ['@"two words.txt"']),
        ("@su", ["@sub/"]),
        ("@sub/", ["@sub/deep.txt"]),
        ("@.h", ["@.hidden"]),
        ("@/nowhere/x", []),
        ("@none", []),
    ]:
        assert [text for text, _ in offer_files(begun)] == offered, begun


def test_hidden_files_are_offered_only_when_they_are_meant() -> None:
    assert "@.hidden" not in [text for text, _ in offer_files("@")]


def test_a_dropped_picture_is_a_file_that_is_named(tmp_path: Path) -> None:
    for form in ["{}", "'{}'", "file://{}", " {} "]:
        assert name_dropped(form.format(tmp_path / "a.png")) == f"@{tmp_path}/a.png ", form


def test_a_path_with_blanks_is_known_however_a_terminal_pastes_it(tmp_path: Path) -> None:
    wanted = f'@"{tmp_path}/b c.PNG" '
    escaped = str(tmp_path / "b c.PNG").replace(" ", "\\ ")
    encoded = f"file://{tmp_path}/b%20c.PNG"
    for pasted in (str(tmp_path / "b c.PNG"), escaped, encoded):
        assert name_dropped(pasted) == wanted
    both = f"{tmp_path}/a.png {escaped}"
    assert name_dropped(both) == f"@{tmp_path}/a.png {wanted}"


def test_any_other_pasted_text_stays_what_it_is(tmp_path: Path) -> None:
    for text in ["", "hello", "a.png", "/etc/passwd", "/nowhere/a.png", "it's", "x" * 10_000]:
        assert name_dropped(text) == "", text
        assert name_dropped(f"{tmp_path}/notes.txt") == "", text
        assert name_dropped(f'{tmp_path}/od"d.png') == "", text


@pytest.mark.usefixtures("processes")
def test_the_picture_of_the_clipboard_is_a_file_for_its_owner_until_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    tool = tools / "wl-paste"
    tool.write_text(f"#!/bin/sh\nexec /bin/cat '{tmp_path}/a.png'\n")
    monkeypatch.setenv("PATH", str(tools))
    assert paste_picture() is None, "what can't be run is none"
    tool.chmod(0o755)
    found = paste_picture()
    assert found is not None
    assert found.read_bytes() == PNG
    assert stat.S_IMODE(found.stat().st_mode) == 0o600
    discard([found, tmp_path / "a.png"])
    assert not found.exists()
    assert (tmp_path / "a.png").exists()


def test_a_home_that_nobody_has_is_no_file() -> None:
    assert find_mentions("see @~nobody-here/x.txt") == []
    assert [*offer_files("@~nobody-here/x")] == []


def test_a_name_is_looked_for_once_and_not_too_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted code is full of them, and the line is not redrawn meanwhile."""
    looked: list[str] = []

    def find(name: str) -> str:
        looked.append(name)
        return ""

    monkeypatch.setattr("channels.terminal.mentions._find_near", find)
    assert describe_unknown("@property\n" * 1_000 + "@nose.txt") != ""
    assert looked == ["property", "nose.txt"]
    looked.clear()
    assert describe_unknown(" ".join(f"@word{number}" for number in range(1_000))) == ""
    assert len(looked) == 50


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
    typed += "!"  # which makes it no beginning of a reply
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
        assert ("\x1b[92m" in shown) == (not is_light), (wanted, answered, said)


def test_tmux_gets_a_question_for_the_terminal_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)
    assert for_terminal("\x1b]11;?\x1b\\") == "\x1b]11;?\x1b\\"
    monkeypatch.setenv("TMUX", "x")
    assert for_terminal("\x1b]11;?\x07") == "\x1b]11;?\x07\x1bPtmux;\x1b\x1b]11;?\x07\x1b\\"
