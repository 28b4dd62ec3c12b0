"""`/memory search WORDS`: what was said and written down, the best hits with what stands beside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from memory.record.daily import Note
from memory.record.recall import Recalled
from memory.record.recall.notes import NoteHit
from memory.turns import Entry
from plugins.api import Ask, CommandError, Reply
from plugins.builtin.context.search import excerpt
from plugins.builtin.context.show import moment
from plugins.builtin.context.state import CLEARED, DROPPED, States, states
from plugins.builtin.context.turns import role
from plugins.wording import beginning, count, literal

SHOWN = 10
"""Hits that are shown, of each kind."""
BESIDE = 80
"""Characters that are shown of the messages before and after a hit."""


async def search(ask: Ask, rest: str) -> Reply:
    """The person who asks sees what was cleared, too, marked."""
    if not rest.strip():
        raise CommandError("/memory search wants words to look for: /memory search lisbon hotel.")
    conversation = ask.conversation
    found = await conversation.memory.search(rest, SHOWN)
    events = await conversation.context.history()
    where = states(conversation.context.view(), events, conversation.context.limits.strategy)
    total = found.notes.total + found.said.total
    said = [_said(ask, one, where) for one in found.said.hits]
    notes = [_note(hit) for hit in found.notes.hits]
    data = {"total": total, "notes": notes, "said": said}
    if not total:
        return Reply(f"Nothing that is remembered holds {literal(beginning(rest))}.", data)
    parts = (
        _part("In the daily memory", found.notes.total, map(_note_line, notes)),
        _part("Said", found.said.total, map(_said_line, said)),
    )
    return Reply("\n\n".join(filter(None, parts)), data)


def _part(title: str, total: int, hits: Iterable[str]) -> str:
    lines = [f"- {hit}" for hit in hits]
    best = f", the best {len(lines)}" if total > len(lines) else ""
    return f"**{title}** ({count(total, 'hit')}{best}):\n\n" + "\n".join(lines) if lines else ""


def as_data(note: Note) -> dict[str, str]:
    """A part of a daily file, for programs."""
    return {
        "at": note.at,
        "conversation": note.conversation,
        "turns": note.turns,
        "text": note.text,
    }


def _note(hit: NoteHit) -> dict[str, str]:
    text = excerpt(hit.note.text, hit.spans) if hit.spans else literal(beginning(hit.note.text))
    return {"day": str(hit.note.day), **as_data(hit.note), "text": text}


def _note_line(note: Mapping[str, str]) -> str:
    heading = " ".join(filter(None, (note["at"], note["turns"])))
    return f"**{note['day']}** {heading}".rstrip() + f": {note['text']}"


def _said(ask: Ask, one: Recalled, where: States) -> dict[str, Any]:
    """A hit as data; `state` only where a person put the turn away in this conversation."""
    is_here = one.conversation == ask.conversation.key.id
    entry = one.hit.entry
    marks = [name for name in where.of(entry.turn) if is_here and name in (CLEARED, DROPPED)]
    return {
        "conversation": "" if is_here else one.conversation,
        "turn": f"t{entry.turn}",
        "role": role(entry.message),
        "at": moment(entry.at, ask.bot.zone()),
        "state": ", ".join(marks),
        "text": excerpt(one.hit.text, one.hit.spans) if one.hit.spans else _begin(entry),
        "before": _beside(one.before),
        "after": _beside(one.after),
    }


def _beside(entry: Entry | None) -> str:
    return f"{literal(role(entry.message))}: {_begin(entry)}" if entry else ""


def _begin(entry: Entry) -> str:
    return literal(beginning(entry.message.text, BESIDE))


def _said_line(hit: Mapping[str, Any]) -> str:
    where = f" in {literal(hit['conversation'])}" if hit["conversation"] else ""
    state = f" ({hit['state']})" if hit["state"] else ""
    beside = (f"\n  {name} {hit[name]}" for name in ("before", "after") if hit[name])
    return (
        f"**{hit['turn']}** {literal(hit['role'])}{where}, {hit['at']}{state}: {hit['text']}"
        + "".join(beside)
    )
