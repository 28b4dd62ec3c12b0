"""The conversations of the terminal, and the last messages of one.

The choice from a list in the terminal: a list above the input line, whose text filters it.
"""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime

from msgspec import Struct
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.cells import cell_len, set_cell_size

from channels.base import Bot, Session, TranscriptMessage
from channels.language import _, say_date
from channels.message import Address
from channels.terminal.display import one_line

_MOST = 10  # entries that are shown at once


class PickerEntry(Struct, frozen=True):
    """An entry of a list: its label, words on its right, and its value."""

    label: str
    about: str
    value: str


Find = Callable[[str], Awaitable[Sequence[PickerEntry]]]
"""Returns the entries for the typed text."""


class Picker(Struct):
    """The list to choose from; `found` are the entries, and the one at `index` is marked."""

    title: str
    find: Find
    choose: Callable[[str], None]
    found: Sequence[PickerEntry] = ()
    index: int = 0
    asked: int = 0

    def move(self, by: int) -> None:
        self.index = max(0, min(len(self.found) - 1, self.index + by))

    def take(self, found: Sequence[PickerEntry], asked: int) -> bool:
        """Show the results of a search, unless a newer one was started; return whether they are
        shown."""
        if asked != self.asked:
            return False
        self.found, self.index = found, 0
        return True

    def draw(self, width: int, height: int) -> StyleAndTextTuples:
        """Return the list, as many entries as there is room for, including the marked one."""
        room = max(1, min(_MOST, height - 6))
        first = max(0, min(self.index - room // 2, len(self.found) - room))
        shown = self.found[first : first + room]
        lines: StyleAndTextTuples = [("bold", self.title[: width - 1]), ("", "\n")]
        for number, entry in enumerate(shown, first):
            is_marked = number == self.index
            about = entry.about if cell_len(entry.about) < width // 2 else ""
            label = set_cell_size(entry.label, max(1, width - cell_len(about) - 4))
            lines.append(
                ("class:prompt" if is_marked else "", f"{'›' if is_marked else ' '} {label}")
            )
            lines += [("class:bar", f" {about}"), ("", "\n")]
        if len(self.found) > len(shown):
            narrow = _("{n} in total; type to filter them", n=len(self.found))
            lines += [("class:bar", f"  {narrow}"), ("", "\n")]
        if not self.found:
            lines += [("class:bar", f"  {_('nothing found')}"), ("", "\n")]
        return lines


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
    return f"{local:%H:%M}" if local.date() == now.date() else say_date(local)


def describe_visit(chat: str, said: Sequence[TranscriptMessage]) -> str:
    """Describe the current conversation: "main · 12 turns · yesterday"."""
    name = one_line(chat)
    if not said:
        return f"{name} · {_('nothing was said here yet')}"
    turns = int(said[-1].turn.removeprefix("t"))
    many = _("{n} turn", n=turns) if turns == 1 else _("{n} turns", n=turns)
    return f"{name} · {many} · {format_day(said[-1].at, datetime.now().astimezone())}"


def list_before(came: datetime, said: Sequence[TranscriptMessage]) -> list[TranscriptMessage]:
    """Return what was said in the turns that began before a person came; the others are shown as
    they happen."""
    begun = {one.turn: one.at for one in reversed(said)}
    return [one for one in said if begun[one.turn] < came]


def format_day(at: datetime, now: datetime) -> str:
    """Return the day of a time in words, by the clock of `now`."""
    day = at.astimezone(now.tzinfo).date()
    days = (now.date() - day).days
    if days <= 0:
        return _("today")
    if days == 1:
        return _("yesterday")
    return _("{n} days ago", n=days) if days < _DAYS else say_date(day)


def describe_way_back(program: str, chat: str) -> str:
    """Describe how to return to a conversation."""
    command = program if chat == MAIN else f"{program} --chat {shlex.quote(one_line(chat))}"
    return _("To continue: {command}", command=command)


async def newest(bot: Bot) -> str:
    """Return the conversation with the latest message."""
    found = await bot.sessions(CHANNEL)
    return found[0].chat if found else MAIN


def retell(said: Sequence[TranscriptMessage]) -> Iterable[tuple[str, str]]:
    """Yield the messages as (who, text): "person", "model", or "tool" for the names of called
    tools."""
    for one in said:
        if one.role == "user":
            yield "person", one.text
        elif one.role == "assistant":
            if one.text.strip():
                yield "model", one.text
            for name in one.calls:
                yield "tool", name
