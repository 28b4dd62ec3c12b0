"""Typed lines: what is forgotten is neither in the file nor behind the arrow keys."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.base import Remembering
from channels.terminal import display
from channels.terminal.completion import Lines
from channels.terminal.terminal import Terminal


async def remembered(lines: Lines) -> list[str]:
    """Return the lines that the arrow keys lead to, the newest first."""
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
    assert isinstance(terminal, Remembering)
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
