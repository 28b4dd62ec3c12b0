"""`/context search WORDS`: all that was said in this conversation, in play or not."""

from __future__ import annotations

from typing import Any

from memory.record.search import Found, Hit
from plugins.api import Ask, CommandError, Reply
from plugins.builtin.context.show import moment
from plugins.builtin.context.state import IN_PLAY, States, states
from plugins.builtin.context.turns import role
from plugins.wording import beginning, count, excerpt, literal, pieces

SHOWN = 10
"""Hits that are shown."""


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
        {"total": found.whole, "partly": found.total, "hits": [_data(h, where) for h in hits]},
    )


def _headline(found: Found, rest: str) -> str:
    words = f"“{literal(beginning(rest))}”"
    if not found.total:
        return f"Nothing in this conversation holds {words}."
    if not found.whole:
        more = f"; the best {SHOWN} of {found.total}" if found.total > SHOWN else ""
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
