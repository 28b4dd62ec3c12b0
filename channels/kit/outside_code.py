"""The division of Markdown into code and other parts: a platform's markup has no meaning in
code."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

_FENCE = re.compile(r"[ \t>]*+(?:[-+*][ \t]|\d{1,9}[.)][ \t])*+[ \t]*+(`{3,}+|~{3,}+)(.*)")
_TICKS = re.compile(r"`+")


def change_parts(
    markdown: str, outside: Callable[[str], str], within: Callable[[str], str] = str
) -> str:
    """Return a text with one change outside of code, and another within its blocks and spans. Ends
    of blocks by quotes and lists are not detected: text that must never be misread needs `within`,
    too."""
    return "".join((within if is_code else outside)(part) for is_code, part in _parts(markdown))


def _parts(markdown: str) -> Iterator[tuple[bool, str]]:
    """Yield the text in pieces, each with whether it is code."""
    fence = text = ""
    for line in markdown.splitlines(keepends=True):
        found = _FENCE.fullmatch(line.rstrip("\n"))
        opens = not fence and found and not (found[1][0] == "`" and "`" in found[2])
        if opens or not line.strip():
            yield from _spans(text)
            text = ""
        if opens and found:
            fence = found[1]
        elif not fence:
            text += line
            continue
        elif found and found[1].startswith(fence) and not found[2].strip():
            fence = ""
        yield True, line
    yield from _spans(text)


def _spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the same for a paragraph: a backslash escapes a backtick that would open a span, but
    not one that closes it."""
    runs = [found.span() for found in _TICKS.finditer(text)]
    last = {end - start: place for place, (start, end) in enumerate(runs)}
    at = place = 0
    while place < len(runs):
        start, end = runs[place]
        before = text[runs[place - 1][1] if place else 0 : start]
        start += (len(before) - len(before.rstrip("\\"))) % 2
        if last.get(end - start, 0) > place:
            place = _find_closing(runs, place + 1, end - start)
            yield False, text[at:start]
            yield True, text[start : (at := runs[place][1])]
        place += 1
    yield False, text[at:]


def _find_closing(runs: Sequence[tuple[int, int]], place: int, size: int) -> int:
    return next(n for n in range(place, len(runs)) if runs[n][1] - runs[n][0] == size)
