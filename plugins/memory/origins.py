"""The origins of a line of `MEMORY.md`, quoted: the part of the daily file, and what was said."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from channels.language import _
from memory.long_term.document import MemoryLine, Source
from memory.turns import Entry
from plugins.api import Ask
from plugins.builtin.context.show import moment
from plugins.builtin.context.turns import name_role, role
from plugins.wording import clip, literal

_QUOTED = 3  # messages that are quoted of a section's turns
_LONGEST = 240  # characters of each


class Origin(Struct, frozen=True):
    """A source as a person reads it, and as data."""

    text: str
    data: dict[str, Any]


async def origins(ask: Ask, source: Source, line: MemoryLine) -> Origin:
    """Return what a source says about a line."""
    data = {name: value for name, value in asdict(source).items() if value and name != "digest"}
    when = " ".join(filter(None, (source.day, source.at)))
    if source.kind == "person":
        return Origin(_("Written {by}, {when}.", by=_by(source.who), when=when), data)
    if source.kind == "file":
        return Origin(_("Written into the file by hand; found there {when}.", when=when), data)
    noted = await _section(ask, source, line)
    said = await _quote_turns(ask, source, line)
    where = (
        _(
            ", {turns} in {conversation}",
            turns=literal(source.turns),
            conversation=literal(source.conversation),
        )
        if source.turns
        else ""
    )
    heading = _("**The daily file of {when}**{where}:", when=when, where=where)
    quotes = [f"> {literal(text)}" for text in (noted, *said) if text]
    gone = "" if noted else _("It is not there any more.")
    text = "\n\n".join(filter(None, (heading, gone, "\n>\n".join(quotes))))
    return Origin(text, {**data, "quotes": [text for text in (noted, *said) if text]})


def _by(who: str) -> str:
    """A person, or where nobody has a name, the channel."""
    if "/" in who:
        return _("by {who}", who=literal(who))
    places = {"": _("at the terminal"), "terminal": _("at the terminal"), "web": _("on the page")}
    return places.get(who, _("through the channel {who}", who=literal(who)))


async def _section(ask: Ask, source: Source, line: MemoryLine) -> str:
    """The lines of the section that are nearest to what is remembered."""
    try:
        day = date.fromisoformat(source.day)
    except ValueError:
        return ""
    notes = await ask.conversation.memory.notes(day)
    texts = [n.text for n in notes if n.job == source.job and n.conversation == source.conversation]
    parts = [part for text in texts for part in text.splitlines() if part.strip()]
    best = max(parts, key=lambda part: _nearness(part, line), default="")
    return clip(best, _LONGEST)


async def _quote_turns(ask: Ask, source: Source, line: MemoryLine) -> list[str]:
    """Quote what was said in the turns that the section tells of, as far as they are kept."""
    entries = await ask.conversation.read_turns_of(source.conversation, source.spans)
    near = sorted(entries, key=lambda entry: -_nearness(entry.message.text, line))[:_QUOTED]
    return [_quote(ask, e) for e in _in_order(near) if _nearness(e.message.text, line)]


def _in_order(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.seq)


def _quote(ask: Ask, entry: Entry) -> str:
    who = entry.message.speaker or name_role(role(entry.message))
    at = moment(entry.at, ask.bot.zone())
    return f"t{entry.turn} {who}, {at}: {clip(entry.message.text, _LONGEST)}"


def _nearness(text: str, line: MemoryLine) -> int:
    return len(MemoryLine(text[:5_000]).words & line.words)
