"""`/context history`: all that ever changed the view."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo

from memory.context.change import ViewEvent, standing
from memory.turns import named
from plugins.api import Ask, Reply
from plugins.builtin.context.overview import event_data, touched
from plugins.builtin.context.show import by, called, moment
from plugins.wording import amount, beginning, literal

NEWEST = 40
"""Events that are shown; `data` has them all."""


async def show(ask: Ask, rest: str) -> Reply:
    """`/context history`"""
    del rest
    events = await ask.conversation.context.history()
    if not events:
        return Reply("The context was never changed: every turn is in play.", {"events": []})
    held = {event.id for event in standing(events)}
    undone = {e.id for e in events if e.id not in held and e.kind not in ("undo", "redo")}
    by_id = {event.id: event for event in events}
    lines = [_line(event, by_id, undone, ask.bot.zone()) for event in reversed(events)]
    text = "\n".join(lines[:NEWEST])
    if len(lines) > NEWEST:
        text += f"\n\nThe newest {NEWEST} of {len(lines)} are shown."
    data = [{**event_data(event), "undone": event.id in undone} for event in events]
    return Reply(text, {"events": data})


def _line(
    event: ViewEvent, by_id: Mapping[int, ViewEvent], undone: Collection[int], zone: tzinfo
) -> str:
    """One event: what and when, the turns and sizes, who and why."""
    target = by_id.get(event.change.target) if event.kind in ("undo", "redo") else None
    what = f"{event.kind} of a {called(target)} (e{target.id})" if target else called(event)
    said = (
        f"e{event.id} ~~{what}~~ undone" if event.id in undone else f"e{event.id} **{what}**",
        moment(event.at, zone),
        named(touched(target or event)),
        _sizes(event),
        literal(beginning(by(event), 120)),
    )
    return f"- {' · '.join(filter(None, said))}"


def _sizes(event: ViewEvent) -> str:
    before, after = event.tokens_before, event.tokens_after
    return f"{amount(before)} → {amount(after)} tokens" if before != after else ""
