"""The command line: the parts that all commands of `main.py` share.

A feature adds commands in a module `command_line.py` of its folder, with a function
`add_commands(commands)`. The module is imported at every start, so a command's own imports happen
when it runs.
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
    """Raised if the bot can't start, or can't do the request; the text says why and what to do."""


class LineParser(argparse.ArgumentParser):
    """A parser that reports the unknown option first: for `--prot 80`, argparse would complain that
    80 is no command."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; its `parse_args` and subcommands call this."""
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
    """Return a hint: the nearest known word, or the list of them."""
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for a mistake

    listed = [one for one in known if one.startswith("--") == word.startswith("--")]
    if near := get_close_matches(word, listed, 1):
        return f"; did you mean {near[0]}?"
    return "" if word.startswith("--") else f"; there are: {', '.join(listed)}"


class CommandParser(LineParser):
    """The parser of a command: the bot's folders may follow the command, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in ("--config", "--data"):
            self.add_argument(
                name, type=as_place, default=argparse.SUPPRESS, help=argparse.SUPPRESS
            )


def write_line(text: str) -> None:
    """Write a line for the person; on a terminal it wraps at words."""
    write_paragraph(as_called(text), sys.stdout)


def call_of(options: argparse.Namespace) -> str:
    """Return the command line for this bot, to be copied. Without these folders the same command
    would use the bot of the current folder."""
    words = [*CALL]
    for name, usual in (("config", usual_config()), ("data", usual_data())):
        place: Path = getattr(options, name)
        if place != usual:
            words += [f"--{name}", str(place)]
    return shlex.join(words)


def with_places(text: str, options: argparse.Namespace) -> str:
    """Return a text whose suggested commands are given as they are called for this bot."""
    call = call_of(options)
    return as_called(text if call in text else text.replace("python main.py", call))
