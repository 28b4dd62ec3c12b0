"""Text that stands in Markdown and is none: titles, names, what somebody said; and text of
programs, without the signs by which they steer a terminal."""

from __future__ import annotations

import re

from memory.messages import Message
from memory.patterns import lazy

_MARKUP = lazy(
    r"(^\d{1,9}(?=[.)](?:\s|$)))|[\\`*\]<>|~&$]|(?<![^\W_])_|_(?![^\W_])|^[#+=-]", re.MULTILINE
)
"""Signs that may be markup. Not "[": behind a backslash it would begin a formula, and alone
nothing."""
_BOLD = lazy(r"(?<![\w*])\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?![\w*])")


_SEQUENCE = lazy(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, the cursor, modes
    r"|\x1b[\]PX^_][^\n\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links, the clipboard
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL = lazy(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Signs that nobody sees, and those that turn the order of what is read."""


def without_controls(text: str) -> str:
    """Return the words of a text that a program wrote: without escape sequences, control characters
    and half characters. A line that was overwritten is a line."""
    whole = text.encode("utf-8", "replace").decode()
    lines = whole.replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", _SEQUENCE.sub("", lines))


def literal(text: str) -> str:
    """Text in which Markdown finds nothing to render."""
    return _MARKUP.sub(lambda found: f"{found[1]}\\" if found[1] else f"\\{found[0]}", text)


_CODE = lazy(r"(?P<sign>`{1,9})(?!`)[^\n]{1,500}?(?<!`)(?P=sign)(?!`)")
_STRONG = lazy(r"(?<![\w*])(?P<sign>\*\*)(?=[^\s*])[^*\n]{1,500}(?<=\S)\*\*(?![\w*])")
_LINES = lazy(r"^ {0,3}(?:(?:`{3,}|~{3,})(?=[\w+-]*[ \t]*$)|#{1,6} +)", re.MULTILINE)
"""The signs of lines around code and of headings, without the name of a language."""


def find_marks(text: str) -> list[tuple[int, int]]:
    """Return where the signs of bold words, code and headings stand, each as its start and end. A
    sign without its partner is none, nor is one in code."""
    found = [one.span() for one in _LINES.finditer(text)]
    code = [*_CODE.finditer(text)]
    hidden = _CODE.sub(lambda one: "·" * len(one[0]), text)
    for one in (*code, *_STRONG.finditer(hidden)):
        start, end, size = one.start(), one.end(), len(one["sign"])
        found += [(start, start + size), (end - size, end)]
    return sorted(found)


def without_marks(text: str) -> str:
    """Text without the signs that make bold words, code and headings of it."""
    ends = [0, *(place for mark in find_marks(text) for place in mark), len(text)]
    return "".join(text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))


def without_bold(text: str) -> str:
    """Text without the signs that make words bold, and with all others: they may be meant."""
    return _BOLD.sub(r"\1", text)


def paragraphs(message: Message) -> list[str]:
    """Return a message as people read it; nothing of what tools returned."""
    if message.role == "user":
        return [f"**{literal(message.speaker) or 'You'}:**", message.text]
    if message.role != "assistant":
        return []
    used = [f"*used `{call.name}`*" for call in message.tool_calls]
    return [*(["**Parley:**", message.told] if message.told else []), *used]
