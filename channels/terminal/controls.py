"""Text of models, tools and files may say anything, but not act on the terminal."""

from __future__ import annotations

import re

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor, modes
    r"|\x1b[\]PX^_][^\n\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, …: titles, clipboard
    r"|\x1b[ -/]*[0-~]"  # two-character sequences
)
# C0 without tab and newline, DEL and C1; characters that reorder what is read; lone surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def without_controls(text: str) -> str:
    """The words of `text` alone: escape sequences and control characters are taken out."""
    return _CONTROLS.sub("", _SEQUENCES.sub("", text))


def one_line(text: str) -> str:
    return " ".join(without_controls(text).split())
