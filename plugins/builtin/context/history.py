"""`/context history`: all that ever changed the view."""

from __future__ import annotations

from datetime import tzinfo

from memory.context.change import ViewEvent, standing
from memory.turns import named
from plugins.api import Ask, Reply
from plugins.builtin.context.glance import KINDS, actor, moment, reason
from plugins.builtin.context.overview import event_data, touched
from plugins.wording import amount, beginning, literal, table

NEWEST = 40
"""Events that are shown; `data` has them all."""


async def show(ask: Ask, rest: str) -> Reply:
    """`/context history`"""
    del rest
    events = ask.conversation.events
    if not events:
        return Reply("The context was never changed: every turn is in play.", {"events": []})
    held = {event.id for event in standing(events)}
    undone = {e.id for e in events if e.id not in held and e.kind not in ("undo", "redo")}
    by_id = {event.id: event for event in events}
    rows = [_row(event, by_id, undone, ask.bot.zone()) for event in reversed(events)]
    text = table(("when", "who", "what", "turns", "tokens", "why"), rows[:NEWEST])
    if len(rows) > NEWEST:
        text += f"\n\nThe newest {NEWEST} of {len(rows)} are shown."
    data = [{**event_data(event), "undone": event.id in undone} for event in events]
    return Reply(text, {"events": data})


def _row(
    event: ViewEvent, by_id: dict[int, ViewEvent], undone: set[int], zone: tzinfo
) -> tuple[str, ...]:
    what = KINDS.get(event.kind, event.kind)
    target = by_id.get(event.change.target) if event.kind in ("undo", "redo") else None
    if target:
        what = f"{what} of the {KINDS.get(target.kind, target.kind)} of {moment(target.at, zone)}"
    return (
        moment(event.at, zone),
        actor(event),
        f"~~{what}~~ (undone)" if event.id in undone else what,
        named(touched(target or event)),
        _sizes(event),
        literal(beginning(reason(event.reason), 80)),
    )


def _sizes(event: ViewEvent) -> str:
    before, after = event.tokens_before, event.tokens_after
    return f"{amount(before)} → {amount(after)}" if before != after else ""
