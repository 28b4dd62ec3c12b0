"""The conversations of the terminal, the last messages of one, and `/copy`, which puts an answer or
a piece of code into the clipboard."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from channels.base import Bot, Session, TranscriptMessage
from channels.language import _, format_date
from channels.message import Address
from channels.terminal.display import one_line, without_controls
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


TURNS = 200
"""The number of turns that are searched."""
_CODE = "code"


class NothingToCopy(Exception):
    """The error if there is nothing of that kind, or the words are not understood; the text gives
    the remedy."""


class ClipboardText(Struct, frozen=True):
    """A text for the clipboard: its kind, and its number from the end (1: the last)."""

    text: str
    kind: Literal["answer", "code"]
    number: int


def find_copy(messages: Sequence[TranscriptMessage], words: str) -> ClipboardText:
    """Return the text that `/copy` with these words selects: "", "2", "code" or "code 2". Raises
    NothingToCopy."""
    kind, _space, number = words.strip().lower().partition(" ")
    if kind != _CODE:
        kind, number = "", words
    number = number.strip() or "1"
    if not (number.isdecimal() and number.isascii() and int(number)):
        raise NothingToCopy(
            _("Write /copy, /copy 2 for the answer before the last, or /copy code 2.")
        )
    found = _list_code(messages) if kind else _list_answers(messages)
    place = int(number)
    if not found:
        none = (
            _("There is no code here to copy.") if kind else _("There is no answer here to copy.")
        )
        raise NothingToCopy(none)
    if place > len(found):
        raise NothingToCopy(_("There are only {n} to copy.", n=len(found)))
    return ClipboardText(without_controls(found[-place]), "code" if kind else "answer", place)


def _list_answers(messages: Sequence[TranscriptMessage]) -> list[str]:
    """Return the last message of each turn, in order."""
    answers = {
        one.turn: one.text for one in messages if one.role == "assistant" and one.text.strip()
    }
    return [*answers.values()]


def _list_code(messages: Sequence[TranscriptMessage]) -> list[str]:
    # rich.markdown is slow to import, and not needed for the first prompt.
    from channels.terminal.markdown import list_code  # noqa: PLC0415

    return [code for one in messages if one.role == "assistant" for code in list_code(one.text)]


def describe(copied: ClipboardText, *, is_first: bool) -> str:
    """Describe the copied text, and the first time the remedy if the clipboard stays empty."""
    lines = _("{n} line", n=1) if "\n" not in copied.text else ""
    lines = lines or _("{n} lines", n=copied.text.count("\n") + 1)
    what = {
        ("answer", True): _("the last answer"),
        ("code", True): _("the last code block"),
        ("answer", False): _("answer {n} from the end", n=copied.number),
        ("code", False): _("code block {n} from the end", n=copied.number),
    }[copied.kind, copied.number == 1]
    done = _("Copied {what} ({lines}).", what=what, lines=lines)
    if not is_first:
        return done
    if "TMUX" in os.environ:
        how = _("If the clipboard stays empty: tmux set -g set-clipboard on")
    else:
        how = _("If the clipboard stays empty, this terminal does not allow it (OSC 52).")
    return f"{done} {how}"
