"""`/copy`: an answer, or a piece of code, for the clipboard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from channels.base import TranscriptMessage
from channels.language import _
from channels.terminal.display import without_controls

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


def find(messages: Sequence[TranscriptMessage], words: str) -> ClipboardText:
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
