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
from pathlib import Path
from typing import Any, TypeAlias

from channels.program import CALL, as_called, usual_config, usual_data

Commands: TypeAlias = "_SubParsersAction[argparse.ArgumentParser]"


class CommandRefused(Exception):
    """The bot can't start, or can't do what was asked; the text says why and what to do."""


class CommandParser(argparse.ArgumentParser):
    """The parser of a command: the places of its bot may stand behind it, too."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in ("--config", "--data"):
            self.add_argument(name, type=Path, default=argparse.SUPPRESS, help=argparse.SUPPRESS)


def say(text: str) -> None:
    """Write a line for the person."""
    sys.stdout.write(f"{as_called(text)}\n")


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
