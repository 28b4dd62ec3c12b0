"""Long replies in several messages, for all channels: split at sensible places, code kept code."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Length = Callable[[str], int]

_PLACES = (r"\n[ \t]*\n", r"\n", r"[.!?;:…][ \t]+|[。！？；]", r"[ \t]+|[,、，]")
"""Where a text may be split, the best first: between paragraphs, lines, sentences, words."""
_TRIES = 4  # places of one kind that are looked at
_FENCE = re.compile(r"([ \t>]*)(`{3,}|~{3,})(.*)")
_RULER = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_JOINER = "\u200d"


def split(text: str, longest: int, length: Length = len) -> Iterator[str]:
    """Pieces of Markdown, in order, none longer than `longest` by `length`.

    Code that is split is closed in one piece and opened again in the next; a table has its header
    again. Apart from that, and from white space where it is split, the pieces are the text.
    """
    rest = text.strip("\n")
    while len(rest) > 2 * longest or length(rest) > longest:
        head, rest = _cut(rest, longest, length)
        if head.strip():
            yield head
    if rest.strip():
        yield rest


@dataclass(frozen=True, slots=True)
class _Frame:
    """What a split runs through: how it is closed before the split, and opened again after it."""

    closing: str = ""
    opening: str = ""


_NOTHING = _Frame()


def _cut(text: str, longest: int, length: Length) -> tuple[str, str]:
    """The first piece, and what is left."""
    most = _most(text, longest, length)
    for end in _ends(text, most):
        frame = _frame(text[:end])
        head = text[:end].rstrip() + frame.closing
        if len(frame.opening) < end and length(head) <= longest:
            rest = text[end:] if frame.opening else text[end:].lstrip("\n")
            return head, frame.opening + rest
    return text[:most], text[most:]  # what is open is as long as a message: it stands as it is


def _most(text: str, longest: int, length: Length) -> int:
    """How many characters fit. What is marked up counts as `length` says, so it may be more than
    `longest`; twice as many are enough."""
    low, high = 1, min(len(text), 2 * longest)
    while low < high:
        middle = (low + high + 1) // 2
        head = text[:middle]
        if length(head + _frame(head).closing) <= longest:
            low = middle
        else:
            high = middle - 1
    return low


def _ends(text: str, most: int) -> Iterator[int]:
    """Where the first piece may end, the best place first; it is to be half full at least."""
    for pattern in _PLACES:
        ends = (found.end() for found in re.finditer(pattern, text[:most]))
        late = [end for end in ends if end >= most // 2]
        yield from sorted(late, key=lambda end: (_frame(text[:end]) != _NOTHING, -end))[:_TRIES]
    end = most
    while end > 1:
        yield _between_signs(text, end)
        end -= max(1, end // 8)


def _between_signs(text: str, end: int) -> int:
    """The nearest place up to `end` that tears no accent from its letter, and no emoji apart."""
    for place in range(end, max(1, end - 16), -1):
        if text[place - 1] != _JOINER and not _clings(text[place : place + 1]):
            return place
    return end


def _clings(sign: str) -> bool:
    """Whether a sign belongs to the one before it: accents, joiners, skin tones."""
    is_tone = "\U0001f3fb" <= sign <= "\U0001f3ff"
    return sign == _JOINER or is_tone or (sign != "" and unicodedata.category(sign)[0] == "M")


def _frame(head: str) -> _Frame:
    """What is open at the end of a text that begins outside of everything."""
    lines = head.split("\n")
    fence = _open_fence(lines)
    return _Frame(f"\n{fence[1]}{fence[2]}", f"{fence[0]}\n") if fence else _open_table(lines)


def _open_fence(lines: list[str]) -> re.Match[str] | None:
    opened = None
    for line in lines:
        found = _FENCE.fullmatch(line)
        if found and opened is None:
            opened = None if "`" in found[3] and found[2][0] == "`" else found
        elif found and opened and found[2].startswith(opened[2]) and not found[3].strip():
            opened = None
    return opened


def _open_table(lines: list[str]) -> _Frame:
    """The header of the table at whose row's end the text ends."""
    first = len(lines) - 1
    while first > 0 and "|" in lines[first - 1]:
        first -= 1
    table = lines[first:]  # the last line is the empty one after the last row
    if table[-1] or len(table) < 4 or not _RULER.fullmatch(table[1]):
        return _NOTHING
    return _Frame(opening=f"{table[0]}\n{table[1]}\n")
