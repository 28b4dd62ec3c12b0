"""How numbers and texts are shown to people."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")

_MARKUP = re.compile(r"[\\`*\[\]<>|~]|(?<!\w)_|_(?!\w)")


def amount(number: int) -> str:
    """Tokens and characters: 950, 12.4k, 200k, 1.5M."""
    if number < 1_000:
        return str(number)
    for size, letter in ((1_000, "k"), (1_000_000, "M")):
        if number < size * 999.95:
            return f"{number / size:.1f}".removesuffix(".0") + letter
    return f"{number / 1_000_000:.0f}M"


def money(cost: float, unknown: int = 0) -> str:
    """US dollars; says when calls of unknown price are left out."""
    if unknown and not cost:
        return f"unknown ({count(unknown, 'call')} of unknown price)"
    text = "$0" if cost == 0 else f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}"
    return f"{text} (and {count(unknown, 'call')} of unknown price)" if unknown else text


def count(number: int, noun: str) -> str:
    """1 turn, 2 turns."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bar(share: float, width: int = 20) -> str:
    """A bar of blocks: full ones for the share that is used."""
    full = round(min(max(share, 0.0), 1.0) * width)
    return "▇" * full + "▁" * (width - full)


def duration(seconds: float) -> str:
    """45 s, 3 min, 2 h 5 min, 4 days."""
    minutes = int(seconds) // 60
    if minutes < 1:
        return f"{int(seconds)} s"
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} days"


def cell(text: str) -> str:
    """Text that can stand in a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def beginning(text: str, most: int = 60) -> str:
    """The first words of a text on one line, at most so many characters."""
    line = " ".join(text[: most * 4].split())
    is_whole = len(line) <= most and len(text) <= most * 4
    return line if is_whole else f"{line[: most - 1].rstrip()}…"


def literal(text: str) -> str:
    """Text in which Markdown finds nothing to render."""
    return _MARKUP.sub(r"\\\g<0>", text)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table; a column whose name ends with a colon is aligned to the right."""
    ruler = ["---:" if name.endswith(":") else "---" for name in header]
    names = [name.removesuffix(":") for name in header]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (names, ruler, *rows))


def shortened(items: Sequence[T], first: int, last: int, between: Callable[[int], T]) -> list[T]:
    """The first and the last of many, with `between(how many are left out)` in their middle."""
    gone = len(items) - first - last
    if gone <= 1:
        return list(items)
    return [*items[:first], between(gone), *items[-last:]]
