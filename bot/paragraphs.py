"""Paragraphs on the command line: where a person reads them, they wrap at words.

Only modules of Python itself are imported: the first installation shows its progress, too.
"""

from __future__ import annotations

import os
import re
from typing import TextIO

_WORD = re.compile(r"\s*(?:\d+ (?=\S))?(?:`[^`\n]+`|\S)+")
"""A word with the space before it, and a number with what it counts. What stands in backticks is
one word: it can be copied whole."""
_INDENT = "  "


def columns_of(stream: TextIO | None) -> int:
    """Return how many columns the terminal has that a stream writes to; 0 where it is none."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream and stream.isatty() else 0
    except (OSError, ValueError):  # it has no number, or is closed
        return 0


def wrap_words(text: str, columns: int) -> str:
    """Return a text whose lines wrap at words, the further lines of one indented a little more than
    the first; 0 columns: as it is. A word longer than a line stays whole."""
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
    """Write lines for the person."""
    stream.write(f"{wrap_words(text, columns_of(stream))}\n")
