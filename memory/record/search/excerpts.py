"""Excerpts of search results: the text around the matching words, and adjacent hits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memory.plain_text import literal, words_of
from memory.record.closeness import Span
from memory.record.search import Hit

_AROUND = 50  # characters that are shown on each side of a word
_START, _END = "\ue000", "\ue001"
Follows = Callable[[Hit, Hit], bool]


def excerpt(text: str, spans: Sequence[Span]) -> str:
    """Return the parts of a text around the matching words, on one line, with the words in bold."""
    shown = [
        f"**{literal(piece)}**" if is_word else literal(piece)
        for piece, is_word in pieces(*without_markup(text, spans))
    ]
    return " ".join("".join(shown).split())


def without_markup(text: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Return the text of Markdown, with the places of the matching words in it. If one of the words
    is in the markup, return the original."""
    marked, words = "", _merge(spans)
    for start, word in zip([0, *(one.end for one in words)], words, strict=False):
        marked += f"{text[start : word.start]}{_START}{text[word.start : word.end]}{_END}"
    read = words_of(marked + text[words[-1].end if words else 0 :])
    first, *rest = read.split(_START)
    if len(rest) != len(words) or any(piece.count(_END) != 1 for piece in rest):
        return text, spans
    found = []
    for piece in rest:
        said, after = piece.split(_END)
        found.append(Span(len(first), len(first) + len(said)))
        first += said + after
    return first, found


def pieces(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """Return an excerpt as (text, whether it is a matching word), with "…" for omitted parts;
    overlapping words are merged."""
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
    """Return at most `most` characters of a text: those around the word with the most other words
    nearby; its beginning without words. "…" marks omitted parts."""
    if len(text) <= most:
        return text
    middles = ((span, (span.start + span.end - most) // 2) for span in spans)
    starts = [max(0, min(at, span.start, len(text) - most)) for span, at in middles] or [0]
    start = max(starts, key=lambda at: sum(at <= w.start and w.end <= at + most for w in spans))
    end = start + most
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def blocks(hits: Iterable[Hit], follows: Follows) -> list[list[Hit]]:
    """Group hits, in order, by adjacency."""
    found: list[list[Hit]] = []
    for hit in hits:
        if found and follows(hit, found[-1][-1]):
            found[-1].append(hit)
        else:
            found.append([hit])
    return found
