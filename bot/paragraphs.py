"""Paragraphs on the command line, which wrap at words on a terminal, and counts in words; in
English only. Only modules of Python itself are imported, since the first installation uses this as
well."""

from __future__ import annotations

import os
import re
from typing import TextIO

_WORD = re.compile(r"\s*(?:\d+\s(?=\S))?(?:`[^`\n]+`|\S)+")
"""A word with the space before it; a number includes the word that it counts. Text in backticks is
one word, so that it can be copied whole."""
_INDENT = "  "


def columns_of(stream: TextIO | None) -> int:
    """Return the number of columns of a stream's terminal; 0 if it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream and stream.isatty() else 0
    except (OSError, ValueError):  # no file descriptor, or closed
        return 0


def wrap_words(text: str, columns: int) -> str:
    """Return a text with its lines wrapped at words, and continuation lines indented; with 0
    columns, return it unchanged. A word longer than a line stays whole."""
    if columns <= 0:
        return text
    return "\n".join(_wrap(line, columns) for line in text.split("\n"))


def _wrap(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    indent = line[: len(line) - len(line.lstrip())] + _INDENT
    lines = [""]
    for word in _WORD.findall(line):
        if lines[-1].strip() and len(lines[-1]) + len(word) > columns:
            lines.append(indent + word.lstrip())
        else:
            lines[-1] += word
    return "\n".join(lines)


def write_paragraph(text: str, stream: TextIO) -> None:
    """Write text for a person, wrapped if the stream is a terminal."""
    stream.write(f"{wrap_words(text, columns_of(stream))}\n")


def count(number: int, one: str, many: str = "") -> str:
    """Return 1 turn, 2 turns, 1,000 turns; `many` is for a plural that is not formed by an s at the
    end."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
