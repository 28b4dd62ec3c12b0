"""`/context history`: all that ever changed the view; and `/context search WORDS`: all that was
said in this conversation, in play or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Any

from memory.context.change import ViewEvent
from memory.context.replay import list_effective
from memory.record.search import Found, Hit
from memory.record.side_questions import SideQuestion
from memory.turns import format_turns
from plugins.api import Ask, CommandError, Reply
from plugins.builtin.context import receipts
from plugins.builtin.context.cost import cache_of
from plugins.builtin.context.overview import event_data, list_touched
from plugins.builtin.context.show import by, moment, name_kind
from plugins.builtin.context.state import IN_PLAY, States, states
from plugins.builtin.context.turns import role
from plugins.wording import amount, clip, count, excerpt, literal, pieces

NEWEST = 40
"""Events that are shown; `data` has them all."""


async def show(ask: Ask, rest: str) -> Reply:
    """`/context history`"""
    del rest
    events = await ask.conversation.context.history()
    if not events:
        return Reply("The context has never been changed: every turn is in play.", {"events": []})
    held = {event.id for event in list_effective(events)}
    undone = {e.id for e in events if e.id not in held and e.kind not in ("undo", "redo")}
    by_id = {event.id: event for event in events}
    cache = cache_of(ask)
    costs = {event.id: cache.of_event(event) for event in events}
    kept = await ask.conversation.summary.receipts(events)
    said = {
        e.id: (cache.clause(costs[e.id], is_past=True), receipts.shorten(kept.get(e.id)))
        for e in events
    }
    zone = ask.bot.zone()
    lines = [_line(e, by_id, undone, zone, said[e.id]) for e in reversed(events)]
    text = "\n".join(lines[:NEWEST])
    if len(lines) > NEWEST:
        text += f"\n\nThe newest {NEWEST} of {len(lines)} are shown."
    data = [
        {
            **event_data(e),
            "undone": e.id in undone,
            "cost": cache.data(costs[e.id]),
            "receipt": receipts.to_data(kept.get(e.id)),
        }
        for e in events
    ]
    return Reply(text, {"events": data})


def _line(
    event: ViewEvent,
    by_id: Mapping[int, ViewEvent],
    undone: Collection[int],
    zone: tzinfo,
    more: tuple[str, ...],
) -> str:
    """One event: what and when, the turns and sizes, what it cost and kept, who and why."""
    target = by_id.get(event.change.target) if event.kind in ("undo", "redo") else None
    what = f"{event.kind} of a {name_kind(target)} (e{target.id})" if target else name_kind(event)
    said = (
        f"e{event.id} ~~{what}~~ undone" if event.id in undone else f"e{event.id} **{what}**",
        moment(event.at, zone),
        format_turns(list_touched(target or event)),
        _sizes(event),
        *more,
        literal(clip(by(event), 120)),
    )
    return f"- {' · '.join(filter(None, said))}"


def _sizes(event: ViewEvent) -> str:
    before, after = event.tokens_before, event.tokens_after
    return f"{amount(before)} → {amount(after)} tokens" if before != after else ""


SHOWN = 10
"""Hits that are shown."""


async def search(ask: Ask, rest: str) -> Reply:
    """`/context search WORDS`"""
    words = rest.split()
    if not words:
        raise CommandError(
            "/context search needs words to look for, like /context search lisbon hotel."
        )
    conversation = ask.conversation
    found = await conversation.search(words, SHOWN)
    events = await conversation.context.history()
    where = states(conversation.context.view(), events, conversation.context.limits.strategy)
    hits = found.hits[: found.whole] or found.hits
    lines = [_hit_line(hit, where, moment(hit.entry.at, ask.bot.zone())) for hit in hits]
    asides = await conversation.asides(SHOWN, words)
    aside = "\n".join(("Asked aside (/btw), which the model does not find:", *map(_aside, asides)))
    parts = (_headline(found, rest), "\n".join(lines), aside if asides else "")
    return Reply(
        "\n\n".join(filter(None, parts)),
        {
            "total": found.whole,
            "partly": found.total,
            "hits": [_data(h, where) for h in hits],
            "asides": [{"question": one.question, "answer": one.answer} for one in asides],
        },
    )


def _aside(one: SideQuestion) -> str:
    return f"- {literal(clip(one.question, 120))}: {literal(clip(one.answer, 240))}"


def _headline(found: Found, rest: str) -> str:
    words = f"“{literal(clip(rest))}”"
    if not found.total:
        return f"Nothing in this conversation contains {words}."
    if not found.whole:
        more = f"; the best {SHOWN} of {found.total}" if found.total > SHOWN else ""
        return f"No message contains all of {words}. These contain part of it{more}:"
    more = f"; the newest {SHOWN} are" if found.whole > SHOWN else ""
    return f"{count(found.whole, 'message')} with {words}{more}:"


def _hit_line(hit: Hit, where: States, at: str) -> str:
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
