"""`/memory search WORDS` and the tool `memory_search`: search the messages and the daily memory,
and show the best hits with the adjacent messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta, tzinfo
from typing import Annotated, Any

from pydantic import Field

from channels.language import _, format_stored_date
from memory.messages import Message
from memory.record.daily import Note, NoteHit
from memory.record.search import Hit
from memory.record.search.excerpts import blocks, excerpt, window
from memory.turns import Entry
from plugins.api import Ask, Reply, ToolContext, ToolError, refusal, tool
from plugins.builtin.context.turns import name_role, role
from plugins.builtin.context.values import CLEARED, DROPPED, TurnStates, states
from plugins.memory.views import name_conversations
from plugins.wording import (
    aside,
    clip,
    count,
    labelled,
    literal,
    localize_marks,
    localize_turns,
    quoted,
    series,
)

HITS = 10
"""The maximum number of hits shown, of each kind."""
BESIDE = 80
"""The maximum number of characters shown of the messages before and after a hit."""
NOTES = 3
"""The maximum number of parts of the daily memory files that the model gets."""
_PAUSE = timedelta(hours=1)  # after such a pause a new block begins, with its time
_HIT, _NEAR = 600, 160  # characters for the model of a hit, and of a message next to it

# --- for people ----------------------------------------------------------------------------


async def search(ask: Ask, rest: str) -> Reply:
    """Run `/memory search WORDS`. The results include cleared turns, marked as such."""
    if not rest.strip():
        raise refusal("/memory search needs words to look for, like /memory search lisbon hotel.")
    conversation = ask.conversation
    found = await conversation.memory.search(rest, HITS)
    where = states(conversation.context.view())
    total = found.notes.total + found.said.total
    rows = [_to_data(ask, hit, where) for hit in found.said.hits]
    notes = [*map(_note, found.notes.hits)]
    names = await name_conversations(ask, {str(hit["conversation"]) for hit in rows})
    data = {"total": total, "notes": notes, "said": rows}
    if not total:
        return Reply(
            _("Nothing in the memory contains {words}.", words=quoted(literal(clip(rest)))), data
        )
    parts = (
        _part(_("In the daily memory"), found.notes.total, map(_note_line, notes)),
        _part(_("Said"), found.said.total, (_format_line(hit, names) for hit in rows)),
    )
    return Reply(localize_marks("\n\n".join(filter(None, parts))), data)


def _part(title: str, total: int, hits: Iterable[str]) -> str:
    lines = [f"- {hit}" for hit in hits]
    best = _(", the best {n}", n=len(lines)) if total > len(lines) else ""
    head = labelled(f"**{title}**" + aside(count(total, "hit") + best), "").rstrip()
    return f"{head}\n\n" + "\n".join(lines) if lines else ""


def as_data(note: Note) -> dict[str, str]:
    """Return a part of a daily file as data for programs."""
    return {
        "at": note.at,
        "conversation": note.conversation,
        "turns": note.turns,
        "text": note.text,
    }


def _note(hit: NoteHit) -> dict[str, str]:
    note = hit.note
    text = excerpt(note.text, hit.spans) if hit.spans else literal(clip(note.text))
    return {"day": str(note.day), **as_data(note), "text": text}


def _note_line(note: Mapping[str, str]) -> str:
    heading = " ".join(filter(None, (note["at"], localize_turns(note["turns"]))))
    return labelled(f"**{format_stored_date(note['day'])}** {heading}".rstrip(), note["text"])


def _to_data(ask: Ask, hit: Hit, where: TurnStates) -> dict[str, Any]:
    """Return a hit as data; `state` is set only if a person removed the turn in this
    conversation."""
    is_here = hit.conversation == ask.conversation.key.id
    entry = hit.entry
    marks = [name for name in where.of(entry.turn) if is_here and name in (CLEARED, DROPPED)]
    return {
        "conversation": "" if is_here else hit.conversation,
        "turn": f"t{entry.turn}",
        "role": role(entry.message),
        "at": _minute(entry, ask.bot.zone()),
        "state": ", ".join(marks),
        "text": excerpt(hit.text, hit.spans) if hit.spans else _begin(entry),
        "before": _neighbour_text(hit.before),
        "after": _neighbour_text(hit.after),
    }


def _neighbour_text(entry: Entry | None) -> str:
    return labelled(literal(name_role(role(entry.message))), _begin(entry)) if entry else ""


def _minute(entry: Entry, zone: tzinfo) -> str:
    """Return the time of a message, for programs and the model."""
    return f"{entry.at.astimezone(zone):%Y-%m-%d %H:%M}"


def _begin(entry: Entry) -> str:
    return literal(clip(entry.message.text, BESIDE))


def _format_line(hit: Mapping[str, Any], names: Mapping[str, str]) -> str:
    there = names.get(hit["conversation"], "")
    where = _(" in {conversation}", conversation=there) if there else ""
    state = aside(series(map(_, hit["state"].split(", "))) if hit["state"] else "")
    beside = (f"\n  {_(name)} {hit[name]}" for name in ("before", "after") if hit[name])
    who = f"**{hit['turn']}** {literal(name_role(hit['role']))}{where}"
    at = format_stored_date(*hit["at"].split())
    return labelled(series((who, at)) + state, hit["text"]) + "".join(beside)


# --- for the model -------------------------------------------------------------------------


@tool(needs_conversation=True)
async def memory_search(
    context: ToolContext,
    query: Annotated[str, Field(max_length=1_000)],
    limit: Annotated[int, Field(ge=1, le=20)] = 5,
) -> str:
    """Search all that was ever said in this chat, and the daily memory.

    Args:
        query: A question, or words.
    """
    if context.conversation is None:
        raise ToolError("There is no conversation to search here.")
    found = await context.conversation.memory.recall(query, limit)
    shown = _with_neighbours(found.said.hits)
    if any(hit.entry.message.has_outside for block in shown for hit in block):
        context.from_outside()
    parts = [_block(block, context.key.id, context.timezone) for block in shown]
    parts += map(_format_note, found.notes.hits[:NOTES])
    return "\n\n".join(parts) or "Nothing was found; other words may find it."


def _with_neighbours(hits: Sequence[Hit]) -> list[list[Hit]]:
    """Return the messages in blocks of adjacent ones, each once; the block of the best hit
    first."""
    shown = {(hit.conversation, hit.entry.seq): (rank, hit) for rank, hit in enumerate(hits)}
    for rank, hit in enumerate(hits):
        for entry in filter(None, (hit.before, hit.after)):  # a hit replaces a neighbour
            beside = Hit(entry, _summarize(entry.message), conversation=hit.conversation)
            shown.setdefault((hit.conversation, entry.seq), (rank, beside))
    ranks = {id(hit): rank for rank, hit in shown.values()}
    found = blocks((shown[place][1] for place in sorted(shown)), _is_next)
    return sorted(found, key=lambda block: min(ranks[id(hit)] for hit in block))


def _summarize(message: Message) -> str:
    """Return the beginning of a message, and the tools that it calls."""
    calls = ", ".join(call.name for call in message.tool_calls)
    return " ".join(filter(None, (clip(message.shown_text, _NEAR), calls and f"[calls {calls}]")))


def _is_next(hit: Hit, before: Hit) -> bool:
    """Return whether a message directly follows another one, without a long pause."""
    is_beside = (hit.conversation, hit.entry.seq) == (before.conversation, before.entry.seq + 1)
    return is_beside and hit.entry.at - before.entry.at < _PAUSE


def _block(hits: Sequence[Hit], here: str, zone: tzinfo) -> str:
    where = "" if hits[0].conversation == here else f" in {hits[0].conversation}"
    heading = f"--- {_minute(hits[0].entry, zone)}{where} ---"
    return "\n".join((heading, *map(_as_text, hits)))


def _as_text(hit: Hit) -> str:
    message = hit.entry.message
    who = " ".join(filter(None, (role(message), message.speaker, f"t{hit.entry.turn}")))
    return f"[{who}] {_format_hit(hit)}"


def _format_note(hit: NoteHit) -> str:
    note = hit.note
    heading = " ".join(filter(None, (str(note.day), note.at, note.turns)))
    return f"[daily memory, {heading}]\n{_format_hit(hit)}"


def _format_hit(hit: Hit) -> str:
    return " ".join(window(hit.text, hit.spans, _HIT).split())
