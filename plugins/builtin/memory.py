"""`/memory`: what the daily memory files hold, and all that was said, for who may read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta

from memory.recollection import NoteHit
from memory.record.daily import Note
from memory.record.search import Hit
from plugins.api import Action, Ask, Command, CommandError, Reply, command, hookimpl
from plugins.builtin.context.glance import moment
from plugins.builtin.context.search import excerpt
from plugins.builtin.context.state import CLEARED, DROPPED, States, states
from plugins.builtin.context.turns import role
from plugins.wording import count, literal

SUBS = (
    ("2026-11-20", "what was written on a day; also today, yesterday"),
    ("search", "find words in the daily memory and in all that was said: search WORDS"),
    ("status", "files, sizes, and summaries that are on their way"),
)
SHOWN = 10
"""Hits that are shown, of each kind."""
LONGEST = 6_000
"""Characters of a day that are shown, the newest."""


@command("memory", "Show what is remembered for longer", "[DAY|search WORDS|status]", SUBS)
async def memory(ask: Ask) -> Reply:
    """Without a word: today's file."""
    verb, _, rest = ask.text.strip().partition(" ")
    if verb.lower() == "search":
        return await _search(ask, rest.split())
    if verb.lower() == "status":
        return await _status(ask)
    today = datetime.now(ask.bot.zone()).date()
    return await _day(ask, day_of(ask.text.strip().lower() or "today", today), today)


def day_of(text: str, today: date) -> date:
    """The day that a person means; raises CommandError with a sentence."""
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise CommandError(
            f"/memory does not know {text[:60]!r}; it wants a day like {today}, yesterday, "
            "search WORDS, or status."
        ) from None


async def _day(ask: Ask, day: date, today: date) -> Reply:
    notes = await ask.conversation.memory.notes(day)
    days = await ask.conversation.memory.days()
    others = _neighbours(days, day)
    name = "today" if day == today else f"on {day:%A}, {day}"
    data = {"day": str(day), "sections": [_as_data(note) for note in notes]}
    if notes:
        whole = "\n\n".join(map(_as_text, notes))
        return Reply(f"**{day:%A}, {day}**\n\n{_newest(whole)}", data, others)
    last = f" The last before is /memory {others[0].label}." if others else ""
    return Reply(
        f"Nothing was written to the memory {name}.{last} What leaves the context of this chat is "
        "summarised there; /memory search finds everything else that was said.",
        data,
        others,
    )


def _neighbours(days: Sequence[date], day: date) -> tuple[Action, ...]:
    """The nearest days with a file, before and after."""
    before = [other for other in days if other < day][-1:]
    after = [other for other in days if other > day][:1]
    return tuple(Action(str(other), f"/memory {other}") for other in (*before, *after))


def _as_text(note: Note) -> str:
    if not note.at:
        return note.text
    return f"**{note.at}** · {literal(note.conversation)} · {note.turns}\n\n{note.text}"


def _as_data(note: Note) -> dict[str, str]:
    return {
        "at": note.at,
        "conversation": note.conversation,
        "turns": note.turns,
        "text": note.text,
    }


def _newest(text: str) -> str:
    """The end of a long text, from the beginning of a line on."""
    if len(text) <= LONGEST:
        return text
    kept = text[-LONGEST:].partition("\n")[2] or text[-LONGEST:]
    return f"(… {len(text) - len(kept):,} characters before this are in the file.)\n\n{kept}"


async def _search(ask: Ask, words: Sequence[str]) -> Reply:
    if not words:
        raise CommandError("/memory search wants words to look for: /memory search lisbon hotel.")
    conversation = ask.conversation
    found = await conversation.memory.search(words, SHOWN)
    where = states(conversation.view(), conversation.events, conversation.limits.strategy)
    total = found.total_notes + found.said.total
    said = [_said(ask, name, hit, where) for name, hit in found.said.hits]
    data = {"total": total, "notes": [_note(hit) for hit in found.notes], "said": said}
    if not total:
        return Reply(f"Nothing that is remembered holds {literal(' '.join(words))}.", data)
    parts = (
        _part("In the daily memory", found.total_notes, map(_note_line, found.notes)),
        _part("Said", found.said.total, map(_said_line, said)),
    )
    return Reply("\n\n".join(filter(None, parts)), data)


def _part(title: str, total: int, hits: Iterable[str]) -> str:
    lines = [f"- {hit}" for hit in hits]
    best = f", the best {len(lines)}" if total > len(lines) else ""
    return f"**{title}** ({count(total, 'hit')}{best}):\n\n" + "\n".join(lines) if lines else ""


def _note(hit: NoteHit) -> dict[str, str]:
    return {
        "day": str(hit.note.day),
        **_as_data(hit.note),
        "text": excerpt(hit.note.text, hit.spans),
    }


def _note_line(hit: NoteHit) -> str:
    note = _note(hit)
    heading = " ".join(filter(None, (note["at"], note["turns"])))
    return f"**{note['day']}** {heading}".rstrip() + f": {note['text']}"


def _said(ask: Ask, conversation: str, hit: Hit, where: States) -> dict[str, str]:
    """A hit as data; `state` only where a person put the turn away in this conversation."""
    is_here = conversation == ask.conversation.key.id
    marks = [name for name in where.of(hit.entry.turn) if is_here and name in (CLEARED, DROPPED)]
    return {
        "conversation": "" if is_here else conversation,
        "turn": f"t{hit.entry.turn}",
        "role": role(hit.entry.message),
        "at": moment(hit.entry.at, ask.bot.zone()),
        "state": ", ".join(marks),
        "text": excerpt(hit.text, hit.spans),
    }


def _said_line(hit: Mapping[str, str]) -> str:
    where = f" in {literal(hit['conversation'])}" if hit["conversation"] else ""
    state = f" ({hit['state']})" if hit["state"] else ""
    return f"**{hit['turn']}** {literal(hit['role'])}{where}, {hit['at']}{state}: {hit['text']}"


async def _status(ask: Ask) -> Reply:
    status = await ask.conversation.memory.status()
    days = ask.bot.settings.describe("session_retention_days", "").value
    span = "".join(f", {day}" for day in status.days[:1])
    span += "".join(f" to {day}" for day in status.days[1:][-1:])
    keeping = (
        f"Conversations in which nothing is said for {count(days, 'day')} are deleted once they "
        "are summarised here (session_retention_days)."
        if days
        else "Conversations are never deleted by themselves (session_retention_days is 0)."
    )
    text = (
        f"{count(len(status.days), 'daily file')}{span}, {status.size / 1000:.1f} kB, in "
        f"`{status.folder}`. {count(status.conversations, 'conversation')} can be searched; "
        f"{_on_their_way(status.pending)}\n\n{keeping}"
    )
    data = {
        "days": [str(day) for day in status.days],
        "bytes": status.size,
        "conversations": status.conversations,
        "pending": status.pending,
        "folder": str(status.folder),
    }
    return Reply(text, data)


def _on_their_way(pending: int) -> str:
    if pending == 1:
        return "1 summary is on its way to them."
    return f"{pending or 'no'} summaries are on their way to them."


@hookimpl
def parley_commands() -> list[Command]:
    return [memory]
