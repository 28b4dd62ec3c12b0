"""`/context search WORDS`: all that was said in this conversation, in play or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from memory.record.search import Found, Hit, Span
from plugins.api import Ask, CommandError, Reply
from plugins.builtin.context.show import moment
from plugins.builtin.context.state import IN_PLAY, States, states
from plugins.builtin.context.turns import role
from plugins.wording import beginning, count, literal

SHOWN = 10
"""Hits that are shown."""
_AROUND = 50  # characters that are shown on each side of a word


async def search(ask: Ask, rest: str) -> Reply:
    """`/context search WORDS`"""
    words = rest.split()
    if not words:
        raise CommandError("/context search wants words to look for: /context search lisbon hotel.")
    conversation = ask.conversation
    found = await conversation.search(words, SHOWN)
    events = await conversation.context.history()
    where = states(conversation.context.view(), events, conversation.context.limits.strategy)
    hits = found.hits[: found.whole] or found.hits
    lines = [_line(hit, where, moment(hit.entry.at, ask.bot.zone())) for hit in hits]
    return Reply(
        "\n\n".join(filter(None, (_headline(found, rest), "\n".join(lines)))),
        {"total": found.whole, "partly": found.partly, "hits": [_data(h, where) for h in hits]},
    )


def _headline(found: Found, rest: str) -> str:
    words = f"“{literal(beginning(rest))}”"
    if not found.partly:
        return f"Nothing in this conversation holds {words}."
    if not found.whole:
        more = f"; the best {SHOWN} of {found.partly}" if found.partly > SHOWN else ""
        return f"No message holds all of {words}. These hold a part of it{more}:"
    more = f"; the newest {SHOWN} are" if found.whole > SHOWN else ""
    return f"{count(found.whole, 'message')} with {words}{more}:"


def _line(hit: Hit, where: States, at: str) -> str:
    state = [name for name in where.of(hit.entry.turn) if name != IN_PLAY]
    marks = f" ({', '.join(state)})" if state else ""
    who = literal(role(hit.entry.message))
    return f"- **t{hit.entry.turn}** {who}, {at}{marks}: {excerpt(hit.text, hit.spans)}"


def _data(hit: Hit, where: States) -> dict[str, Any]:
    entry = hit.entry
    return {
        "turn": f"t{entry.turn}",
        "role": entry.message.role,
        "tool": entry.message.tool,
        "at": entry.at.isoformat(),
        "state": list(where.of(entry.turn)),
        "excerpt": "".join(text for text, _ in pieces(hit.text, hit.spans)),
    }


def excerpt(text: str, spans: Sequence[Span]) -> str:
    """The parts of a text around the words found, on one line, with these in bold."""
    shown = [
        f"**{literal(piece)}**" if is_word else literal(piece)
        for piece, is_word in pieces(text, spans)
    ]
    return " ".join("".join(shown).split())


def pieces(text: str, spans: Sequence[Span]) -> list[tuple[str, bool]]:
    """An excerpt as (text, whether it is a word that was found), "…" where something is left
    out; words that overlap are one."""
    words = _merged(spans)
    found: list[tuple[str, bool]] = []
    shown = 0
    for window in _merged([_widened(word, len(text)) for word in words]):
        if window.start > shown:
            found.append((" … " if found else "…", False))
        found += _inside(window, words, text)
        shown = window.end
    return [*found, ("…", False)] if shown < len(text) else found


def _widened(word: Span, length: int) -> Span:
    return Span(max(0, word.start - _AROUND), min(length, word.end + _AROUND))


def _merged(spans: Sequence[Span]) -> list[Span]:
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
