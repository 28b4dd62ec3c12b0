"""`main.py add NAME`: install the packages of a messenger or another extra into the bot's Python.

`pip install 'parley-bot[NAME]'` does the same from outside. This command knows where the bot is
installed, and skips packages that are only data and would take ten minutes to compile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from importlib import invalidate_caches
from importlib.util import find_spec
from pathlib import Path

from bot import installing
from bot.command_line import CommandRefused, Commands, write_line
from channels.program import ALONE, EXTRAS, ROOT


def add_command(commands: Commands) -> None:
    """Add `add` to the command line."""
    parser = commands.add_parser("add", help="install what a messenger or another extra needs")
    parser.add_argument("name", choices=sorted(EXTRAS), metavar="NAME", help=", ".join(EXTRAS))
    parser.set_defaults(run=_add)


def _add(options: argparse.Namespace) -> int:
    install(options.name)
    write_line("Installed. A bot that runs already needs a restart.")
    return 0


def install(name: str) -> None:
    """Install an extra into this Python. Raises CommandRefused."""
    execute = find_installer()
    write_line(f"Installing what {name} needs.")
    wanted = ("--no-deps",) if name in ALONE else ()
    if execute((*wanted, "-r", str(ROOT / EXTRAS[name]))):
        raise CommandRefused(
            f"The packages of {name} could not be installed, for the reason above. Correct that, "
            f"and run `python main.py add {name}`."
        )
    invalidate_caches()  # this process can import them now


def find_installer() -> Callable[[Sequence[str]], int]:
    """Return the function that installs packages into this Python: it takes the arguments of `pip
    install`, and returns the exit code. Raises CommandRefused."""
    if find_spec("pip") is None and installing.find_uv(Path(sys.executable)) is None:
        raise CommandRefused("Neither pip nor uv is here to install packages; install one of them.")
    return installing.main
