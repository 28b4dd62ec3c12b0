"""The presentation of the long-term memory: days by name, changes of `MEMORY.md` as a diff and with
their reasons, and the quoted sources of a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from bot.listing import title_of
from channels.language import _, format_datetime, format_stored_date, number_of
from memory.keys import ConversationKey
from memory.long_term.document import LONGEST, LineOperation, MemoryLine, Source
from memory.turns import Entry
from plugins.api import Ask, refusal
from plugins.builtin.context.turns import name_role, role
from plugins.wording import (
    aside,
    clip,
    format_list,
    labelled,
    literal,
    name_branch,
    quoted,
    sentence,
    series,
)

_QUOTED = 3  # messages quoted of a section's turns
_LONGEST = 240  # characters of each
Changes = Sequence[tuple[str, str]]
"""Signs ("-" or "+") and lines, in the form of `diff_lines`."""


def count_changes(changes: Changes) -> str:
    """Return the number of added and removed lines, as a sentence."""
    new = sum(sign == "+" for sign, _raw in changes)
    removed = len(changes) - new
    parts = [
        *[number_of(new, "{n} line added", "{n} lines added")] * bool(new),
        *[number_of(removed, "{n} line removed", "{n} lines removed")] * bool(removed),
    ]
    return sentence(format_list(parts)) if parts else _("No line is different.")


def to_data(changes: Changes) -> list[dict[str, str]]:
    """Return changes as data for programs."""
    return [{"sign": sign, "line": raw} for sign, raw in changes]


def to_block(changes: Changes) -> str:
    """Return changes as a diff that channels colour; "" without changes."""
    if not changes:
        return ""
    lines = "\n".join(f"{sign} {raw.removeprefix('- ')[: 2 * LONGEST]}" for sign, raw in changes)
    return f"```diff\n{lines.replace('```', chr(39) * 3)}\n```"


def list_reasons(operations: Sequence[LineOperation]) -> str:
    """Return the reason and the source of each change."""
    names: Mapping[str, str] = {"add": "new", "replace": "changed", "remove": "gone"}
    lines = []
    for one in operations:
        text = one.line.text if one.line else MemoryLine(one.old).text
        where = "; ".join(dict.fromkeys(map(_place, one.sources)))
        reason = aside(literal(one.why))
        line = _(
            "- {what}: “{words}”{reason}",
            what=_(names[one.do]),
            words=literal(text[:80]),
            reason=reason,
        )
        lines.append(line + (_(", from {where}", where=where) if where else ""))
    return "\n".join(lines)


def _place(source: Source) -> str:
    return " ".join(
        filter(None, (format_stored_date(source.day, source.at), literal(source.turns)))
    )


def day_of(text: str, today: date) -> date:
    """Return the day that a person names. Raises CommandError with a sentence."""
    named = {"today": today, "yesterday": today - timedelta(days=1)}
    if text in named:
        return named[text]
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise refusal(
            "/memory does not know {words!r}; it takes a day like `{today}`, yesterday, search "
            "WORDS, status, pending, or what /help memory lists.",
            words=text[:60],
            today=today,
        ) from None


async def name_conversations(ask: Ask, keys: Iterable[str]) -> dict[str, str]:
    """Return the display names of conversations by their ids: "this conversation", or their
    titles."""
    wanted = {key: ConversationKey(key, "") for key in filter(None, keys)}
    here = ask.conversation.key
    others = {key.home for key in wanted.values()} - {here.home}
    titles = await ask.conversation.memory.titles(others) if others else {}

    def name(key: ConversationKey) -> str:
        if key.id == here.id:
            return _("this conversation")
        branch = name_branch(key.number, "") if key.is_branch or key.home == here.home else ""
        title = title_of(titles.get(key.home, ""))
        chat = quoted(literal(clip(title))) if title else literal(key.home)
        return branch if key.home == here.home else series((chat, branch))

    return {id: name(key) for id, key in wanted.items()}


class Origin(Struct, frozen=True):
    """The source of a line, as text for a person and as data."""

    text: str
    data: dict[str, Any]


async def origins(ask: Ask, source: Source, line: MemoryLine) -> Origin:
    """Return the text of a source about a line."""
    data = {name: value for name, value in asdict(source).items() if value and name != "digest"}
    when = format_stored_date(source.day, source.at)
    if source.kind == "person":
        return Origin(_("Written {by}, {when}.", by=_by(source.who), when=when), data)
    if source.kind == "file":
        return Origin(_("Written into the file by hand; found there {when}.", when=when), data)
    noted = await _section(ask, source, line)
    quotations = await _quote_turns(ask, source, line)
    names = await name_conversations(ask, [source.conversation])
    where = (
        _(
            ", {turns} in {conversation}",
            turns=literal(source.turns),
            conversation=names.get(source.conversation, ""),
        )
        if source.turns
        else ""
    )
    heading = _("**The daily file of {when}**{where}:", when=when, where=where)
    quotes = [f"> {literal(text)}" for text in (noted, *quotations) if text]
    note = "" if noted else _("It is not there any more.")
    text = "\n\n".join(filter(None, (heading, note, "\n>\n".join(quotes))))
    return Origin(text, {**data, "quotes": [text for text in (noted, *quotations) if text]})


def _by(who: str) -> str:
    """Return a person; if nobody has a name there, the channel."""
    if "/" in who:
        return _("by {who}", who=literal(who))
    places = {"": _("at the terminal"), "terminal": _("at the terminal"), "web": _("on the page")}
    return places.get(who, _("through the channel {who}", who=literal(who)))


async def _section(ask: Ask, source: Source, line: MemoryLine) -> str:
    """Return the line of the section that is most similar to the remembered line."""
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
    """Quote the messages of the section's turns that are most similar to the line, as far as they
    are stored."""
    entries = await ask.conversation.read_turns_of(source.conversation, source.spans)
    near = sorted(entries, key=lambda entry: -_nearness(entry.message.text, line))[:_QUOTED]
    return [_quote(ask, e) for e in _in_order(near) if _nearness(e.message.text, line)]


def _in_order(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: entry.seq)


def _quote(ask: Ask, entry: Entry) -> str:
    who = entry.message.speaker or name_role(role(entry.message))
    at = format_datetime(entry.at, ask.bot.zone())
    return labelled(series((f"t{entry.turn} {who}", at)), clip(entry.message.text, _LONGEST))


def _nearness(text: str, line: MemoryLine) -> int:
    return len(MemoryLine(text[:5_000]).words & line.words)
