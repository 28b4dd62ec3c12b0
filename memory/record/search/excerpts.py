"""Excerpts of what was found: a text around the words that were searched, and hits side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from memory.plain_text import literal, words_of
from memory.record.search import Hit
from memory.record.search.said import Span

_AROUND = 50  # characters that are shown on each side of a word
_START, _END = "\ue000", "\ue001"  # signs of no script, around a word while its text is changed
Follows = Callable[[Hit, Hit], bool]


def excerpt(text: str, spans: Sequence[Span]) -> str:
    """Return the parts of a text around the words found, on one line, with these in bold."""
    shown = [
        f"**{literal(piece)}**" if is_word else literal(piece)
        for piece, is_word in pieces(*without_markup(text, spans))
    ]
    return " ".join("".join(shown).split())


def without_markup(text: str, spans: Sequence[Span]) -> tuple[str, Sequence[Span]]:
    """Return the words of Markdown, and where those that were found stand in them; the text as it
    is where one of these is in the markup."""
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
