"""The command line: what all commands of `main.py` share.

A feature adds commands of its own in a module `command_line.py` of its folder, with a function
`add_commands(commands)`. It is imported at every start, so that whatever a command needs is
imported when the command runs.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from argparse import _SubParsersAction
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from bot.paragraphs import columns_of, wrap_words, write_paragraph
from channels.program import CALL, as_called, as_place, usual_config, usual_data

Commands: TypeAlias = "_SubParsersAction[argparse.ArgumentParser]"


class CommandRefused(Exception):
    """The bot can't start, or can't do what was asked; the text says why and what to do."""


class LineParser(argparse.ArgumentParser):
    """A parser that says first what is not known: of `--prot 80`, argparse alone would say that 80
    is no command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, whose `parse_args` and commands come here."""
        words = list(sys.argv[1:] if args is None else args)
        trees = (one for one in self._actions if isinstance(one, _SubParsersAction))
        commands = {name for one in trees for name in one.choices}
        options = self._option_string_actions
        for word in takewhile(lambda word: word != "--" and word not in commands, words):
            name = word.partition("=")[0]
            if name.startswith("--") and not any(one.startswith(name) for one in options):
                self.error(f"there is no option {name}{_suggest(name, options)}")
        return super().parse_known_args(words, namespace)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End as argparse does; on a terminal the message wraps at words."""
        super().exit(status, message and wrap_words(message, columns_of(sys.stderr)))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        choices = [str(one) for one in action.choices or ()]
        if choices and str(value) not in choices:
            raise argparse.ArgumentError(action, f"there is no {value}{_suggest(value, choices)}")


def _suggest(word: str, known: Iterable[str]) -> str:
    """Return which known word was meant, or which there are."""
    from difflib import get_close_matches  # noqa: PLC0415 - nothing for who has made no mistake

    listed = [one for one in known if one.startswith("--") == word.startswith("--")]
    if near := get_close_matches(word, listed, 1):
        return f"; did you mean {near[0]}?"
    return "" if word.startswith("--") else f"; there are: {', '.join(listed)}"


class CommandParser(LineParser):
    """The parser of a command: the places of its bot may stand behind it, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in ("--config", "--data"):
            self.add_argument(
                name, type=as_place, default=argparse.SUPPRESS, help=argparse.SUPPRESS
            )


def say(text: str) -> None:
    """Write a line for the person; on a terminal it wraps at words."""
    write_paragraph(as_called(text), sys.stdout)


def call_of(options: argparse.Namespace) -> str:
    """Return how the command line is called for this bot, to be copied: the same command without
    these places would be about the bot of the folder where the person stands."""
    words = [*CALL]
    for name, usual in (("config", usual_config()), ("data", usual_data())):
        place: Path = getattr(options, name)
        if place != usual:
            words += [f"--{name}", str(place)]
    return shlex.join(words)


def with_places(text: str, options: argparse.Namespace) -> str:
    """Return a text in which commands are advised, with these as they are called for this bot."""
    call = call_of(options)
    return as_called(text if call in text else text.replace("python main.py", call))
