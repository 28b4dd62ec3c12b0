"""Splitting of long replies into several messages, for all channels: at sensible places, with code
blocks kept.

The time is linear in the text's length, for any text: the work for one piece is bounded, and each
piece consumes its share of the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, islice

from msgspec import Struct

Length = Callable[[str], int]

_PLACES = (r"\n[ \t]*+\n", r"\n", r"[.!?;:…][ \t]++|[。！？；]", r"[ \t]++|[,、，]")
"""The places where a text may be split, the best first: between paragraphs, lines, sentences,
words."""
_NEAREST = 200  # places of one kind that are compared
_TRIES = 4  # of these, how many are measured
_ALL_TRIES = 12  # places of all kinds that are measured
_GUESSES = 6  # lengths of a piece that are measured before it is halved
_FENCE = re.compile(r"([ \t>]*+)(`{3,}+|~{3,}+)(.*)")
_RULER = re.compile(r"[ \t]*+\|?[ \t]*+:?-++:?[ \t]*+(?:\|[ \t]*+:?-++:?[ \t]*+)*+\|?[ \t]*+")
_EMPTY_LINES = re.compile(r"\n*+")
_JOINER = "\u200d"
_FLAG_LETTERS = re.compile("[\U0001f1e6-\U0001f1ff]++")


MOST_CELLS = 20_000
"""The maximum number of cells of a table that is drawn as one."""


DEEPEST = 30
"""The maximum depth of quotes and lists that is rendered."""
_LEVEL = r"(?:[ \t]*+(?:>|[-+*](?=[ \t])|\d{1,9}[.)](?=[ \t])))"
_NESTED = re.compile(rf"{_LEVEL}{{{DEEPEST}}}")


def has_vast_table(markdown: str) -> bool:
    """Return whether a text could be parsed as a table of more cells than `MOST_CELLS`. Each row
    has as many as the head, even a row of one letter, so their number may be the square of the
    text's length."""
    lines = markdown.split("\n")
    return len(lines) * max(line.count("|") for line in lines) > MOST_CELLS


def is_costly(markdown: str) -> bool:
    """Return whether a parser could take long over a text, or omit a part of it: it has a vast
    table, or a line within very many quotes and lists."""
    return has_vast_table(markdown) or any(map(_NESTED.match, markdown.split("\n")))


def split(text: str, longest: int, length: Length = len) -> Iterator[str]:
    """Yield pieces of Markdown, in order, none longer than `longest` by `length`, which is called
    with texts of at most twice `longest` characters.

    Split code is closed in one piece and reopened in the next; a table repeats its header. Apart
    from that, and from white space at the splits, the pieces are the text.
    """
    text = text.strip("\n")
    at, opening = 0, ""
    while len(text) - at > 2 * longest or length(opening + text[at:]) > longest:
        window = opening + text[at : at + 2 * longest]
        frames = _Frames(window)
        most = _most(window, frames, longest, length)
        if opening and most < 4 * len(opening):  # the reopened part would fill the piece
            opening = ""
            continue
        piece, end, opened = _cut(window, frames, most, longest, length)
        at, opening = at + end - len(opening), opened
        if not opening:
            at += len(_EMPTY_LINES.match(text, at)[0])  # type: ignore[index]  # it always matches
        if piece.strip():
            yield piece
    if (rest := opening + text[at:]).strip():
        yield rest


class _Frame(Struct, frozen=True):
    """The block that a split cuts through: the text that closes it before the split, and reopens it
    after."""

    closing: str = ""
    opening: str = ""


_NOTHING = _Frame()


class _Frames:
    """The blocks that are open at each place of a text that begins outside of any. One pass over
    the lines finds them for all places."""

    def __init__(self, text: str) -> None:
        self._text, self._lines = text, text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines[:-1]), initial=0))
        self._fences: list[re.Match[str] | None] = []  # open before each line
        self._tables: list[int] = []  # first row of the table directly above each line
        self._rulers: dict[int, bool] = {}
        fence, table = None, 0
        for number, line in enumerate(self._lines):
            self._fences.append(fence)
            self._tables.append(table)
            fence = _find_open_fence(fence, line)
            table = table if "|" in line else number + 1

    def at(self, end: int) -> _Frame:
        number = bisect_right(self._starts, end) - 1
        line = self._text[self._starts[number] : end]
        if fence := _find_open_fence(self._fences[number], line):
            return _Frame(f"\n{fence[1]}{fence[2]}", f"{fence[0]}\n")
        first = self._tables[number]
        if line or number - first < 3 or not self._is_ruler(first + 1):
            return _NOTHING
        return _Frame(opening=f"{self._lines[first]}\n{self._lines[first + 1]}\n")

    def _is_ruler(self, number: int) -> bool:
        if number not in self._rulers:
            self._rulers[number] = _RULER.fullmatch(self._lines[number]) is not None
        return self._rulers[number]


def _find_open_fence(fence: re.Match[str] | None, line: str) -> re.Match[str] | None:
    """Return the fence of the code that is open after a line; `fence` is the one before it."""
    found = _FENCE.fullmatch(line)
    if found is None:
        return fence
    if fence is None:
        return None if "`" in found[3] and found[2][0] == "`" else found
    return None if found[2].startswith(fence[2]) and not found[3].strip() else fence


def _most(text: str, frames: _Frames, longest: int, length: Length) -> int:
    """Return about how many characters fit. `length` counts markup, so the number may be more or
    less than `longest`; each guess is based on the last measurement."""
    low, high, guess = 0, len(text) + 1, min(len(text), longest)
    for _ in range(_GUESSES):
        size = length(text[:guess] + frames.at(guess).closing)
        low, high = (guess, high) if size <= longest else (low, guess)
        if size == longest or high - low == 1 or 8 * low > 7 * high:
            break
        guess = min(max(guess * longest // max(size, 1), low + 1), high - 1)
    while not low and high > 1:
        high //= 2
        low = high if length(text[:high] + frames.at(high).closing) <= longest else 0
    return max(low, 1)


def _cut(
    text: str, frames: _Frames, most: int, longest: int, length: Length
) -> tuple[str, int, str]:
    """Return the first piece, how much of the text it takes, and the text that opens the next."""
    for end in islice(_ends(text, frames, most), _ALL_TRIES):
        frame = frames.at(end)
        head = text[:end].rstrip() + frame.closing
        if 4 * len(frame.opening) < end and length(head) <= longest:
            return head, end, frame.opening
    end = _find_boundary(text, most)
    return text[:end], end, ""  # the open block is as long as a message: it is cut as it is


def _ends(text: str, frames: _Frames, most: int) -> Iterator[int]:
    """Yield possible ends of the first piece, the best first; the piece is at least half full."""
    for pattern in _PLACES:
        found = re.finditer(pattern, text[:most])
        late = [place.end() for place in found if place.end() >= most // 2][-_NEAREST:]
        yield from sorted(late, key=lambda end: (frames.at(end) != _NOTHING, -end))[:_TRIES]
    end = most
    while end > most // 2 and end > 1:
        yield _find_boundary(text, end)
        end -= max(1, end // 8)


def _find_boundary(text: str, end: int) -> int:
    """Return the nearest place up to `end` that separates no accent from its letter, and no parts
    of an emoji."""
    for place in range(end, max(1, end - 16) - 1, -1):
        is_whole = text[place - 1] != _JOINER and not _is_combining(text[place : place + 1])
        if is_whole and not _halves_flag(text, place):
            return place
    return end


def _is_combining(sign: str) -> bool:
    """Return whether a character belongs to the one before it: accents, joiners, skin tones, tags
    of a flag."""
    is_tone = "\U0001f3fb" <= sign <= "\U0001f3ff"
    is_tag = "\U000e0020" <= sign <= "\U000e007f"
    is_mark = sign != "" and unicodedata.category(sign)[0] == "M"
    return sign == _JOINER or is_tone or is_tag or is_mark


def _halves_flag(text: str, place: int) -> bool:
    """Return whether a split there would separate the two letters of a flag. In a row of flags the
    pairs are counted from its beginning."""
    if not _FLAG_LETTERS.match(text, place):
        return False
    row = _FLAG_LETTERS.match(text[:place][::-1])
    return row is not None and len(row[0]) % 2 == 1
