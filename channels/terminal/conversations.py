"""The conversations of the terminal: which there are, and what was said in one last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from channels.base import Bot, Said, Session
from channels.language import _
from channels.message import Address
from channels.terminal.display import one_line
from channels.terminal.picker import PickerEntry

CHANNEL = "terminal"
MAIN = "main"
SHOWN = 3
"""Turns that are shown of a conversation that one comes back to."""
_LONGEST = 60  # characters of a name


def address_of(chat: str) -> Address:
    """Return the address of a conversation of the terminal."""
    return Address(CHANNEL, chat)


def clean_name(words: str) -> str:
    """Clean the name of a conversation; "" where nothing is left."""
    return " ".join(one_line(words).split())[:_LONGEST].strip()


async def find(bot: Bot, words: str, here: str) -> list[PickerEntry]:
    """Return the conversations that hold these words or are called so, the newest first, and last a
    new one of that name."""
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
    if name and name not in {session.chat for session in every}:
        entries.append(PickerEntry(_("a new conversation, “{name}”", name=name), "", name))
    return entries


def _entry(session: Session, here: str) -> PickerEntry:
    title = one_line(session.title) or _("(nothing was said)")
    if session.snippet and session.snippet.text not in session.title:
        title += f" · {one_line(session.snippet.text)}"
    is_here = f" · {_('here')}" if session.chat == here else ""
    about = f"{one_line(session.chat)} · {_format_time(session.at)}{is_here}"
    return PickerEntry(title, about, session.chat)


def _format_time(at: datetime) -> str:
    """Return a time by this machine's clock, to the minute today and to the day before that."""
    local, now = at.astimezone(), datetime.now().astimezone()
    return f"{local:%H:%M}" if local.date() == now.date() else f"{local:%Y-%m-%d}"


async def newest(bot: Bot) -> str:
    """Return the conversation in which something was said last."""
    found = await bot.sessions(CHANNEL)
    return found[0].chat if found else MAIN


def retell(said: Sequence[Said]) -> Iterable[tuple[str, str]]:
    """Yield what was said, as (who, text): "person", "model", or "tool" for the names of those
    called."""
    for one in said:
        if one.role == "user":
            yield "person", one.text
        elif one.role == "assistant":
            if one.text.strip():
                yield "model", one.text
            for name in one.calls:
                yield "tool", name
