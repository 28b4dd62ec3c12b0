"""`/context history`: all changes to the context, with `undo` and `redo`. `/context search WORDS`:
all messages of this conversation, in context or not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import tzinfo
from typing import Any

from channels.language import _, format_datetime
from memory.context.change import ViewEvent
from memory.context.layout import list_effective, newest_undoable, redoable
from memory.context.view import View
from memory.patterns import lazy
from memory.record.search import Hit, SearchHits
from memory.record.search.excerpts import excerpt, pieces, without_markup
from plugins.api import Action, Ask, Reply, refusal
from plugins.builtin.context import receipts
from plugins.builtin.context.cost import cache_of
from plugins.builtin.context.overview import event_data, hold
from plugins.builtin.context.show import by, explain_hold, name_kind, undo_of
from plugins.builtin.context.turns import name_role, role
from plugins.builtin.context.values import (
    IN_PLAY,
    TurnStates,
    as_data,
    name_states,
    phrase,
    sentence_about,
    states,
)
from plugins.guarding import with_offers
from plugins.turn_names import numbers_in_context
from plugins.wording import (
    amounts,
    aside,
    clip,
    count,
    format_turns,
    labelled,
    literal,
    quoted,
    sentence,
    series,
)

_EVENT = lazy(r"e([0-9]{1,18})")
NEWEST = 40
"""The maximum number of events shown; `data` has all."""


async def show(ask: Ask, rest: str) -> Reply:
    """Show the history. In the data, `next` marks the events that `/context undo` and `redo` apply
    to if none is named."""
    del rest
    events = await ask.conversation.context.history()
    if not events:
        return Reply(
            _("The context has never been changed: every turn is in context."), {"events": []}
        )
    held = {event.id for event in list_effective(events)}
    undone = {e.id for e in events if e.id not in held and e.name not in ("undo", "redo")}
    by_id = {event.id: event for event in events}
    cache = cache_of(ask)
    costs = {event.id: cache.of_event(event) for event in events}
    kept = await ask.conversation.summary.receipts(events)
    details = {
        e.id: (
            _("the summary is longer than its turns")
            if e.change.makes("summary") and e.tokens_after > e.tokens_before
            else "",
            cache.clause(costs[e.id], is_past=True),
            receipts.shorten(kept.get(e.id)),
        )
        for e in events
    }
    zone = ask.bot.zone()
    lines = [_line(e, by_id, undone, zone, details[e.id]) for e in reversed(events)]
    text = "\n".join(lines[:NEWEST])
    if len(lines) > NEWEST:
        text += _("\n\nThe newest {newest} of {n} are shown.", newest=NEWEST, n=len(lines))
    ways = {"undo": newest_undoable(events), "redo": redoable(events)}
    if last := ways["undo"]:
        text += _("\n\n`/context undo e{id}` undoes the change e{id}.", id=last.id)
    offered = {event.id: way for way, event in ways.items() if event}
    data = [
        event_data(e)
        | {"undone": e.id in undone, "next": offered.get(e.id, ""), "cost": cache.data(costs[e.id])}
        | {"receipt": as_data(kept.get(e.id))}
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
    """Describe one event: its kind and time, its turns and sizes, its cost and receipt, its author
    and reason."""
    target = by_id.get(event.target)
    what = name_kind(target or event)
    if target:
        what = _(
            "undo of e{id} ({kind})" if event.name == "undo" else "redo of e{id} ({kind})",
            kind=what,
            id=target.id,
        )
    is_undone, is_moved = event.id in undone, event.tokens_before != event.tokens_after
    head = (
        _("e{id} ~~{what}~~ undone", id=event.id, what=what)
        if is_undone
        else f"e{event.id} **{what}**",
        format_turns((target or event).touched),
        phrase(event, "{tokens_before} → {tokens_after} tokens") if is_moved else "",
    )
    origin = format_datetime(event.at, zone), literal(clip(by(event), 120))
    lines = (" · ".join(filter(None, one)) for one in (head, origin, more))
    return f"- {f'{chr(10)}  '.join(filter(None, lines))}"


async def undo(ask: Ask, rest: str) -> Reply:
    """Run `/context undo` or `/context undo e12`."""
    number = _event_number(rest)
    before = ask.conversation.context.view()
    event = await ask.conversation.editor.undo(number)
    if event is None and number:
        raise refusal(
            "There is no change e{number} here that can be undone; /context history lists them.",
            number=number,
        )
    if event is None:
        return Reply(_("There is nothing to undo."), {"undone": None}, await _redo(ask))
    return await _report_move("Undone", event, before, ask)


def _event_number(rest: str) -> int:
    """Return 12 for "e12"; 0 if no event is named. Raises CommandError."""
    name = rest.strip().lower()
    number = _read_number(name)
    if number or not name:
        return number
    raise refusal(
        "“{name}” is not a change, so nothing was undone. /context undo takes back the last "
        "change, or the one you name, like /context undo e12; /context history lists them. To "
        "take back your last message, use /undo.",
        name=literal(clip(name)),
    )


def _read_number(rest: str) -> int:
    """Return the number of "e12"; 0 for any other text."""
    found = _EVENT.fullmatch(rest.strip().lower())
    return int(found[1]) if found else 0


async def redo(ask: Ask, rest: str) -> Reply:
    """Run `/context redo`; with `e12`, as buttons send it, only if e12 was the last event
    undone."""
    number = _read_number(rest)
    if rest.strip() and not number:
        raise refusal(
            "/context redo does not take “{rest}”, so nothing was changed. Send it alone: it "
            "redoes the last undo.",
            rest=literal(clip(rest)),
        )
    before = ask.conversation.context.view()
    event = await ask.conversation.editor.redo(number)
    if event is None and number:
        raise refusal(
            "e{number} is not the change that was undone last, so nothing was changed; /context "
            "history lists the changes.",
            number=number,
        )
    if event is None:
        text = _(
            "There is nothing to redo: nothing was undone, or something else was changed after it."
        )
        return Reply(text, {"redone": None})
    return await _report_move("Redone", event, before, ask)


async def _report_move(done: str, event: ViewEvent, before: View, ask: Ask) -> Reply:
    conversation, is_undo = ask.conversation, done == "Undone"
    after = conversation.context.view()
    what = _(
        "{kind} of {at} ({by})",
        kind=name_kind(event),
        at=format_datetime(event.at, ask.bot.zone()),
        by=by(event),
    )
    text = _("Undone: the {event}." if is_undo else "Redone: the {event}.", event=what)
    was, now = amounts(before.tokens, after.tokens)
    sizes = _("{before} → {after} tokens", before=was, after=now)
    if before.tokens == after.tokens:
        sizes = _("{n} tokens, as before", n=now)
    text += f" {sentence(_compare(before, after) + sizes)}"
    if until := hold(conversation):
        text += f" {explain_hold(until)}"
    if is_undo and before.layout == after.layout:
        text += _(" That alone restored nothing: a later change removed the same turns.")
    sizes_now = {"tokens_before": before.tokens, "tokens_after": after.tokens}
    data = {done.lower(): event.name, "turns": [turn.id for turn in after.turns], **sizes_now}
    reply = Reply(text, data, await _redo(ask) if is_undo else (undo_of(event),))
    last = max(numbers_in_context(conversation), default=None)
    return reply if last is None else await with_offers(reply, ask, conversation.key, last)


def _compare(before: View, after: View) -> str:
    was, now = ({turn.number for turn in view.turns} for view in (before, after))
    back, removed = tuple(now - was), tuple(was - now)
    if back:
        return sentence_about(back, "{turns} is back in context; ", "{turns} are back in context; ")
    if removed:
        return sentence_about(
            removed, "{turns} is out of the context; ", "{turns} are out of the context; "
        )
    return ""


async def _redo(ask: Ask) -> tuple[Action, ...]:
    event = redoable(await ask.conversation.context.history())
    return (Action("Redo", f"/context redo e{event.id}"),) if event else ()


SHOWN = 10
"""The maximum number of hits shown."""


async def search(ask: Ask, rest: str) -> Reply:
    """Run `/context search WORDS`."""
    words = rest.split()
    if not words:
        raise refusal("/context search needs words to look for, like /context search lisbon hotel.")
    conversation = ask.conversation
    found = await conversation.search(words, SHOWN)
    where = states(conversation.context.view())
    hits = found.hits[: found.whole] or found.hits
    lines = [_hit_line(hit, where, format_datetime(hit.entry.at, ask.bot.zone())) for hit in hits]
    more = [await part(ask, rest) for part in ask.bot.context_parts.get("search", ())]
    parts = (_headline(found, rest), "\n".join(lines), *(text for text, _added in more))
    data: dict[str, Any] = {
        "total": found.whole,
        "partly": found.total,
        "hits": [_data(h, where) for h in hits],
    }
    for _text, added in more:
        data.update(added)
    return Reply("\n\n".join(filter(None, parts)), data)


def _headline(found: SearchHits, rest: str) -> str:
    words = quoted(literal(clip(rest)))
    if not found.total:
        return _("Nothing in this conversation contains {words}.", words=words)
    if not found.whole:
        more = _("; the best {shown} of {total}", shown=SHOWN, total=found.total)
        return _(
            "No message contains all of {words}. These contain part of it{more}:",
            words=words,
            more=more if found.total > SHOWN else "",
        )
    more = _("; the newest {shown} are", shown=SHOWN) if found.whole > SHOWN else ""
    messages = count(found.whole, "message")
    return _("{messages} with {words}{more}:", messages=messages, words=words, more=more)


def _hit_line(hit: Hit, where: TurnStates, at: str) -> str:
    state = [name for name in where.of(hit.entry.turn) if name != IN_PLAY]
    marks = aside(name_states(state))
    who = literal(name_role(role(hit.entry.message)))
    text = f"- **t{hit.entry.turn}** {series((who, at))}{marks}"
    return labelled(text, excerpt(hit.text, hit.spans))


def _data(hit: Hit, where: TurnStates) -> dict[str, Any]:
    entry = hit.entry
    return {
        "turn": f"t{entry.turn}",
        "role": entry.message.role,
        "tool": entry.message.tool,
        "at": entry.at.isoformat(),
        "state": list(where.of(entry.turn)),
        "excerpt": "".join(text for text, _ in pieces(*without_markup(hit.text, hit.spans))),
    }
