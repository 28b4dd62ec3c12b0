"""Numbers and texts as people read them, and the results of a search as people and the model do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from itertools import accumulate, pairwise
from typing import TypeVar

import memory.turns
from channels.language import _, explain, figure, number_of
from memory.plain_text import literal as literal
from memory.record.search import Hit
from memory.record.search.said import Span

T = TypeVar("T")


def amount(number: int) -> str:
    """Tokens and characters: 950, 12.4k, 200k, 1.5M."""
    if number < 1_000:
        return str(number)
    for size, letter in ((1_000, "k"), (1_000_000, "M")):
        if number < size * 999.95:
            return figure(f"{number / size:.1f}".removesuffix(".0")) + letter
    return f"{number / 1_000_000:.0f}M"


def shrink(sizes: Sequence[int], total: int) -> list[int]:
    """Return the sizes of parts of which the sum may be more than the whole, because the provider
    counts fewer or each was rounded by itself: each as much smaller, by its share, and none below
    0."""
    whole = sum(sizes)
    if whole <= total:
        return [*sizes]
    ends = [max(0, total) * end // whole for end in accumulate(sizes, initial=0)]
    return [end - begin for begin, end in pairwise(ends)]


def money(cost: float, unknown: int = 0) -> str:
    """US dollars; says when calls of unknown price are left out."""
    if unknown and not cost:
        return _("unknown ({calls} of unknown price)", calls=count(unknown, "call"))
    text = _dollars(cost)
    return (
        _("{cost} (and {calls} of unknown price)", cost=text, calls=count(unknown, "call"))
        if unknown
        else text
    )


def _dollars(cost: float) -> str:
    """$0, <$0.0001, $0.0123, $1.20."""
    if 0 < cost < 0.0001:
        return figure("<$0.0001")
    return "$0" if cost == 0 else figure(f"${cost:.2f}" if cost >= 0.1 else f"${cost:.4f}")


def count(number: int, noun: str) -> str:
    """1 turn, 2 turns."""
    return number_of(number, f"{{n}} {noun}", f"{{n}} {noun}s")


def format_turns(numbers: Sequence[int]) -> str:
    """ "t3", "t1 to t5", "t1 to t3, t7"."""
    return memory.turns.format_turns(numbers).replace(" to ", _(" to "))


def weekday(day: date) -> str:
    """Monday."""
    return _(WEEKDAYS[day.weekday()])


WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def name_layer(layer: str) -> str:
    """Return the words for the source of a setting's value."""
    return explain(_(layer))


def bar(share: float, width: int = 20) -> str:
    """Return a bar of blocks: full ones for the share that is used."""
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
    return (
        _("{hours} h {minutes} min", hours=hours, minutes=minutes % 60)
        if hours < 48
        else number_of(hours // 24, "{n} day", "{n} days")
    )


def cell(text: str) -> str:
    """Text that can stand in a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def clip(text: str, most: int = 60) -> str:
    """Return the first words of a text on one line, at most so many characters."""
    line = " ".join(text[: most * 4].split())
    is_whole = len(line) <= most and len(text) <= most * 4
    return line if is_whole else f"{line[: most - 1].rstrip()}…"


def fence(text: str, language: str = "") -> str:
    """Return a text as a block of code, which nothing in it can end."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def name_branch(number: int, title: str) -> str:
    """Return a branch of a chat in a sentence."""
    return (
        _("branch {number}, “{title}”", number=number, title=literal(clip(title)))
        if title
        else _("branch {number}", number=number)
    )


def format_list(names: Sequence[str], last: str = "and") -> str:
    """a, b and c."""
    return f" {_(last)} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table, with its header in the language of whoever asked; a column whose
    name ends with a colon is aligned to the right."""
    ruler = ["---:" if name.endswith(":") else "---" for name in header]
    names = [_(name).removesuffix(":") for name in header]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (names, ruler, *rows))


def shorten(items: Sequence[T], first: int, last: int, between: Callable[[int], T]) -> list[T]:
    """Return the first and the last of many, with `between(how many are left out)` in their
    middle."""
    gone = len(items) - first - last
    if gone <= 1:
        return list(items)
    return [*items[:first], between(gone), *items[-last:]]


_AROUND = 50  # characters that are shown on each side of a word
Follows = Callable[[Hit, Hit], bool]


def excerpt(text: str, spans: Sequence[Span]) -> str:
    """Return the parts of a text around the words found, on one line, with these in bold."""
    shown = [
        f"**{literal(piece)}**" if is_word else literal(piece)
        for piece, is_word in pieces(text, spans)
    ]
    return " ".join("".join(shown).split())


def pieces(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """Return an excerpt as (text, whether it is a word that was found), "…" where something is left
    out; words that overlap are one."""
    words = _merge(spans)
    found: list[tuple[str, bool]] = []
    shown = 0
    wide = (Span(max(0, w.start - _AROUND), min(len(text), w.end + _AROUND)) for w in words)
    for window in _merge(wide):
        if window.start > shown:
            found.append((" … " if found else "…", False))
        found += _inside(window, words, text)
        shown = window.end
    return [*found, ("…", False)] if shown < len(text) else found


def _merge(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans, key=lambda span: span.start):
        if merged and span.start <= merged[-1].end:
            span = Span(merged[-1].start, max(merged.pop().end, span.end))
        merged.append(span)
    return merged


def _inside(window: Span, words: Sequence[Span], text: str) -> Iterator[tuple[str, bool]]:
    at = window.start
    for word in words:
        if window.start <= word.start < window.end:
            yield text[at : word.start], False
            yield text[word.start : word.end], True
            at = word.end
    yield text[at : window.end], False


def window(text: str, spans: Sequence[Span], most: int) -> str:
    """At most so many characters of a text: those around one of the words, with the most of the
    others; its beginning where there are none. "…" marks what is left out."""
    if len(text) <= most:
        return text
    middles = ((span, (span.start + span.end - most) // 2) for span in spans)
    starts = [max(0, min(at, span.start, len(text) - most)) for span, at in middles] or [0]
    start = max(starts, key=lambda at: sum(at <= w.start and w.end <= at + most for w in spans))
    end = start + most
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def blocks(hits: Iterable[Hit], follows: Follows) -> list[list[Hit]]:
    """Hits, in order; those that follow one another stand together."""
    found: list[list[Hit]] = []
    for hit in hits:
        if found and follows(hit, found[-1][-1]):
            found[-1].append(hit)
        else:
            found.append([hit])
    return found
