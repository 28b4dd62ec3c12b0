"""Excerpts of what was found: a text around the words that were searched, and hits side by side."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from memory.plain_text import find_marks, literal, without_marks
from memory.record.search import Hit
from memory.record.search.said import Span

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
    text, words = _without_marks(text, _merge(spans))
    found: list[tuple[str, bool]] = []
    shown = 0
    wide = (Span(max(0, w.start - _AROUND), min(len(text), w.end + _AROUND)) for w in words)
    for window in _merge(wide):
        if window.start > shown:
            found.append((" … " if found else "…", False))
        found += _inside(window, words, text)
        shown = window.end
    return [*found, ("…", False)] if shown < len(text) else found


def _without_marks(text: str, words: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Return a text without the signs of Markdown, and where the words stand in it."""
    marks = find_marks(text)
    if not marks:
        return text, words
    starts = [start for start, _end in marks]
    sizes = [0, *accumulate(end - start for start, end in marks)]

    def move(at: int) -> int:
        before = bisect_left(starts, at)
        inside = max(0, marks[before - 1][1] - at) if before else 0
        return at - sizes[before] + inside

    return without_marks(text), [Span(move(one.start), move(one.end)) for one in words]


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
