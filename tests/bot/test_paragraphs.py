"""Paragraphs of the command line wrap at words on a terminal, and not elsewhere."""

from __future__ import annotations

import io
import os
import pty
import re
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.paragraphs import columns_of, wrap_words, write_paragraph

ROOT = Path(__file__).parents[2]
WORDS = st.text("ab/-.`", min_size=1, max_size=30)
SPACES = st.sampled_from([" ", "  "])


@given(st.lists(st.tuples(SPACES, WORDS), max_size=30), st.integers(1, 60))
def test_no_word_is_broken_and_none_is_lost(words: list[tuple[str, str]], columns: int) -> None:
    text = "".join(space + word for space, word in words)
    wrapped = wrap_words(text, columns)
    assert wrapped.split() == text.split()
    for line in wrapped.split("\n"):
        is_one = len(line.split()) <= 1 or "`" in line
        assert len(line) <= columns or is_one


def test_what_is_to_be_copied_stays_whole() -> None:
    text = "There is no model: run `python main.py init`, or see https://example.org/a-long-path."
    assert wrap_words(text, 24).split("\n") == [
        "There is no model: run",
        "  `python main.py init`,",
        "  or see",
        "  https://example.org/a-long-path.",
    ]
    assert wrap_words(text, 0) == text


@pytest.mark.parametrize("space", [" ", "\N{NO-BREAK SPACE}"])
def test_a_number_stays_with_what_it_counts(space: str) -> None:
    text = "Which? 1 one, 2 two, 3 three".replace(" one", f"{space}one").replace(
        " two", f"{space}two"
    )
    assert wrap_words(text, 17).split("\n") == [f"Which? 1{space}one,", f"  2{space}two, 3 three"]


def test_a_list_keeps_its_lines_and_their_indents() -> None:
    text = "Choose:\n  1  the small one\n  2  the large one"
    assert wrap_words(text, 12) == (
        "Choose:\n  1  the\n    small\n    one\n  2  the\n    large\n    one"
    )


def test_a_pipe_gets_lines_as_they_are() -> None:
    stream = io.StringIO()
    write_paragraph("some words " * 20, stream)
    assert columns_of(stream) == 0
    assert stream.getvalue() == "some words " * 20 + "\n"


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    "arguments",
    [
        ("--nonsense",),
        ("nonsense",),
        ("--config", "/nonexistent/config.json", "backup", "b"),
        ("init",),
    ],
)
def test_a_refusal_at_the_start_wraps_at_words(arguments: tuple[str, ...], tmp_path: Path) -> None:
    said = {40: "", 0: ""}
    for columns in said:
        process_end, person = pty.openpty()
        ioctl(person, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        try:
            stderr = person if columns else subprocess.PIPE
            run = subprocess.run(
                [sys.executable, str(ROOT / "main.py"), *arguments],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                check=False,
            )
            os.close(person)
            said[columns] = (run.stderr or b"").decode() if not columns else read_all(process_end)
        finally:
            os.close(process_end)
    usage = re.compile(r"\Ausage:.*?\n(?=\S)", re.DOTALL)
    person_s, program_s = (usage.sub("", said[columns]) for columns in (40, 0))
    assert person_s.split() == program_s.split() != []
    assert "\x1b" not in person_s
    for line in person_s.splitlines():
        assert len(line) <= 40 or len(re.findall(r"`[^`]+`|\S+", line)) == 1, line


def read_all(number: int) -> str:
    """Return the output to a terminal whose other end is closed."""
    said = b""
    while True:
        try:
            piece = os.read(number, 4096)
        except OSError:  # it is closed
            piece = b""
        if not piece:
            return said.decode().replace("\r\n", "\n")
        said += piece
