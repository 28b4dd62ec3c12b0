"""The options of commands: words that begin with "--", before all other words."""

from __future__ import annotations

import re
from itertools import dropwhile

from channels.language import _
from plugins.api import Command, CommandError

_OPTION = re.compile(r"--[A-Za-z][\w-]*")
_TURNS = re.compile(r"t\d+(?:-t?\d+)?,?", re.IGNORECASE)
_WRITTEN = re.compile(r"\b(?:TEXT|QUESTION|COMMAND|PROMPT|WHAT)\b|\bsearch WORDS\b")
"""Arguments that a person may begin as they like, and where a command reads its options itself."""
_OF_WORDS = frozenset({"search", "keep"})
"""Subcommands that take any words."""


def refuse_unknown(command: Command, text: str) -> None:
    """Refuse an option that the command does not have: a command that takes words would take it for
    some of them. Raises CommandError."""
    if _WRITTEN.search(command.usage):
        return
    words = text.split()
    names = {sub.name for sub in command.subs}
    if words and words[0].lower() in names:
        if words[0].lower() in _OF_WORDS:
            return
        words = words[1:]
    first = next(dropwhile(_TURNS.fullmatch, words), "")
    known = _OPTION.findall(" ".join((command.usage, *(sub.summary for sub in command.subs))))
    if _OPTION.fullmatch(first) and first.lower() not in known:
        raise CommandError(
            _(
                "/{name} has no option {option}, so nothing was done; /help {name} says what it "
                "takes.",
                name=command.name,
                option=first[:60],
            )
        )
