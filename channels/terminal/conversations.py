"""The conversations of the terminal, and the last messages of one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime

from channels.base import Bot, Session, TranscriptMessage
from channels.language import _, format_date
from channels.message import Address
from channels.terminal.display import one_line
from channels.terminal.line import PickerEntry

CHANNEL = "terminal"
MAIN = "main"
SHOWN = 2
"""The number of turns that are shown when a person returns to a conversation."""
_LONGEST = 60  # characters of a name
_DAYS = 7  # that are counted; an earlier day is shown by its date


def address_of(chat: str) -> Address:
    """Return the address of a conversation of the terminal."""
    return Address(CHANNEL, chat)


def clean_name(words: str) -> str:
    """Return a valid name for a conversation; "" if nothing is left."""
    return " ".join(one_line(words).split())[:_LONGEST].strip()


async def find(bot: Bot, words: str, here: str) -> list[PickerEntry]:
    """Return the conversations with these words in their messages or name, the newest first, and
    last a new one with that name."""
    every = await bot.sessions(CHANNEL)
    hits = {one.chat: one for one in await bot.sessions(CHANNEL, words)} if words else {}
    low = words.lower()
    shown = [
        hits.get(session.chat, session)
        for session in every
        if not words or session.chat in hits or low in f"{session.chat} {session.title}".lower()
    ]
    entries = [_entry(session, here) for session in shown]
    name = clean_name(words)
    is_command = name.startswith("/")  # typed without seeing the list
    if name and not is_command and name not in {session.chat for session in every}:
        entries.append(PickerEntry(_("a new conversation, “{name}”", name=name), "", name))
    return entries


def _entry(session: Session, here: str) -> PickerEntry:
    title = one_line(session.title) or _("(nothing was said)")
    if session.snippet and session.snippet.text not in session.title:
        title += f" · {one_line(session.snippet.text)}"
    is_here = f" · {_('here')}" if session.chat == here else ""
    about = f"{_format_time(session.at)}{is_here} · {one_line(session.chat)}"
    return PickerEntry(title, about, session.chat)


def _format_time(at: datetime) -> str:
    """Return a time by this machine's clock: the time today, the date for earlier days."""
    local, now = at.astimezone(), datetime.now().astimezone()
    return f"{local:%H:%M}" if local.date() == now.date() else format_date(local)


def describe_visit(chat: str, messages: Sequence[TranscriptMessage]) -> str:
    """Describe the current conversation: "main · 12 turns · yesterday"."""
    name = one_line(chat)
    if not messages:
        return f"{name} · {_('nothing was said here yet')}"
    turns = int(messages[-1].turn.removeprefix("t"))
    many = _("{n} turn", n=turns) if turns == 1 else _("{n} turns", n=turns)
    return f"{name} · {many} · {format_day(messages[-1].at, datetime.now().astimezone())}"


def list_before(came: datetime, messages: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
    """Return what was said in the turns that began before a person came; the others are shown as
    they happen."""
    begun = {one.turn: one.at for one in reversed(messages)}
    return [one for one in messages if begun[one.turn] < came]


def format_day(at: datetime, now: datetime) -> str:
    """Return the day of a time in words, by the clock of `now`."""
    day = at.astimezone(now.tzinfo).date()
    days = (now.date() - day).days
    if days <= 0:
        return _("today")
    if days == 1:
        return _("yesterday")
    return _("{n} days ago", n=days) if days < _DAYS else format_date(day)


def describe_way_back(program: str, chat: str) -> str:
    """Describe how to return to a conversation."""
    command = program if chat == MAIN else f"{program} --chat {shlex.quote(one_line(chat))}"
    return _("To continue: {command}", command=command)


async def newest(bot: Bot) -> str:
    """Return the conversation with the latest message."""
    found = await bot.sessions(CHANNEL)
    return found[0].chat if found else MAIN


def replay(messages: Sequence[TranscriptMessage]) -> Iterable[tuple[str, str]]:
    """Yield the messages as (who, text): "person", "model", or "tool" for the names of called
    tools."""
    for one in messages:
        if one.role == "user":
            yield "person", one.text
        elif one.role == "assistant":
            if one.text.strip():
                yield "model", one.text
            for name in one.calls:
                yield "tool", name
