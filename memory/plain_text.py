"""Text for people, and text of people and servers: escapes of JSON, numbers, mistyped names, and
text that stands in Markdown and is none."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from decimal import Decimal
from difflib import get_close_matches
from math import isfinite
from typing import Any

from memory.messages import Message
from memory.patterns import lazy

_LETTERS = lazy(r"(?:\\u(?!00[0-7])[0-9a-fA-F]{4})+")
_ESCAPE = lazy(r"((?:\\u[0-9a-fA-F]{4})+)|\\([\"\\/bfnrt])")
_SIGNS = {"b": " ", "f": " ", "n": "\n", "r": " ", "t": "\t"}
_NESTED = 2  # times that JSON may stand as a text in JSON


def decode_letters(text: str) -> str:
    """Return a text with the letters that stand in it as `\\u4f60`; what was JSON is the same."""
    return _LETTERS.sub(_joined, text) if "\\u" in text else text


def unescape(text: str) -> str:
    """Return a text with what its escapes stand for, also where they are escaped themselves."""
    for _ in range(_NESTED):
        if "\\" not in text:
            break
        text = _ESCAPE.sub(_unescaped, text)
    return text


def _unescaped(found: re.Match[str]) -> str:
    return _joined(found) if found[1] else _SIGNS.get(found[2], found[2])


def _joined(found: re.Match[str]) -> str:
    """Return the letters of escapes in a row; half a letter is a question mark."""
    units = bytes.fromhex(found[0].replace("\\u", ""))
    text = units.decode("utf-16-be", "replace")
    return text.replace("\0", " ")


def plain_number(value: float, digits: int = 17) -> str:
    """Return a number in plain digits, as it would be typed: 0.0000001, not 1e-07. It has at most
    so many significant digits."""
    if not isfinite(value):
        return json.dumps(value)
    text = f"{Decimal(repr(value) if digits >= 17 else f'{value:.{digits}g}'):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_json(value: Any) -> str:
    """Return a value as JSON with such numbers; what JSON does not know as text."""
    if isinstance(value, float):
        return plain_number(value)
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(k, ensure_ascii=False)}: {plain_json(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(plain_json, value))}]"
    return json.dumps(value, ensure_ascii=False, default=str)


def nearest(word: str, words: Collection[str]) -> str:
    """Return the one of these words that was probably meant; "" for none.

    First the shortest that holds all the parts typed ("max_turns": agent_max_context_turns), then
    the most similar, as a whole or in its last part.
    """
    typed = [part for part in _parts(word[:100]) if len(part) > 2]
    holding = [known for known in words if typed and all(_holds(known, part) for part in typed)]
    if holding:
        return min(holding, key=lambda known: (len(known), known))
    spelled = {re.split(r"[./]", known.lower())[-1]: known for known in words}
    spelled |= {known.lower(): known for known in words}
    found = get_close_matches(word[:100].lower(), spelled, n=1, cutoff=0.7)
    return spelled[found[0]] if found else ""


def _parts(word: str) -> list[str]:
    return re.split(r"[./_\- ]", word.lower())


def _holds(known: str, part: str) -> bool:
    return any(own.startswith(part) for own in _parts(known))


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
    return _CONTROL.sub("", without_sequences(lines))


def without_sequences(text: str) -> str:
    """Return a text without escape sequences of terminals."""
    return _SEQUENCE.sub("", text)


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
    return [*(["**Parley:**", message.full_text] if message.full_text else []), *used]
