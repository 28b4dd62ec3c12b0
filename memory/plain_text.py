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
UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U000323af"
)
"""Letters of languages without blanks between words, as ranges of a pattern."""
_LETTER = rf"[^\W{UNSPACED}]"
_TABLE_ROW = lazy(r"^[ \t]*+\|(.*)\|[ \t]*$", re.MULTILINE)
_LINE_MARKS = lazy(
    r"^[ \t]*+(?:(?:`{3}|~{3})[^`\n]*$|#{1,6}[ \t]|[-*+>][ \t]"
    r"|\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)+\|?[ \t]*+$)",
    re.MULTILINE,
)
"""Signs at the start of a line, and lines of code's and tables' frames."""
_INLINE = lazy(rf"(?<!{_LETTER})(?<![*`])(\*|`+)(?=\S)([^*`\n]+)(?<=\S)\1(?!{_LETTER})(?![*`])")
_BOLD = lazy(rf"(?<!{_LETTER})(?<!\*)\*\*(?=\S)([^*\n]+)(?<=\S)\*\*(?!{_LETTER})(?!\*)")


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


def without_bold(text: str) -> str:
    """Text without the signs that make words bold, and with all others: they may be meant."""
    return _BOLD.sub(r"\1", text)


def words_of(text: str) -> str:
    """Return the words of Markdown on one line, to be read: without the signs that make headings,
    items, quotations, code and tables, and those around bold and slanted words."""
    lines = _TABLE_ROW.sub(
        lambda row: " · ".join(filter(None, map(str.strip, row[1].split("|")))),
        _LINE_MARKS.sub("", text),
    )
    return " ".join(_INLINE.sub(r"\2", without_bold(lines)).split())


def beginning(text: str, chars: int) -> str:
    """Return the beginning of a text on one line, of at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= chars else f"{line[: chars - 1]}…"


def paragraphs(message: Message) -> list[str]:
    """Return a message as people read it; nothing of what tools returned."""
    if message.role == "user":
        return [f"**{literal(message.speaker) or 'You'}:**", message.text]
    if message.role != "assistant":
        return []
    used = [f"*used `{call.name}`*" for call in message.tool_calls]
    return [*(["**Parley:**", message.told] if message.told else []), *used]
