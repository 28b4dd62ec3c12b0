"""Text that stands in Markdown and is none: titles, names, what somebody said."""

from __future__ import annotations

import re

_MARKUP = re.compile(
    r"(^\d{1,9}(?=[.)](?:\s|$)))|[\\`*\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])|^[#+=-]", re.MULTILINE
)
"""Signs that may be markup. Not "[": behind a backslash it would begin a formula, and alone
nothing."""
_BOLD = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w*])")


def literal(text: str) -> str:
    """Text in which Markdown finds nothing to render."""
    return _MARKUP.sub(lambda found: f"{found[1]}\\" if found[1] else f"\\{found[0]}", text)


def without_bold(text: str) -> str:
    """Text without the signs that make words bold, and with all others: they may be meant."""
    return _BOLD.sub(r"\1", text)
