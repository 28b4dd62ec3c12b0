"""`main.py add NAME`: install the packages of a messenger, or of another extra, beside the bot.

`pip install 'parley-bot[NAME]'` does the same from outside. This one knows where the bot is
installed, and leaves out what is only data and would be compiled for ten minutes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from bot.command_line import CommandRefused, Commands, say
from channels.program import ALONE, EXTRAS, ROOT


def add_command(commands: Commands) -> None:
    """Add `add` to the command line's."""
    parser = commands.add_parser("add", help="install what a messenger or another extra needs")
    parser.add_argument("name", choices=sorted(EXTRAS), metavar="NAME", help=", ".join(EXTRAS))
    parser.set_defaults(run=_add)


def _add(options: argparse.Namespace) -> int:
    command = install_command(options.name)
    say(f"Installing what {options.name} needs.")
    code = subprocess.run(command, check=False).returncode
    if code:
        raise CommandRefused(
            f"The packages of {options.name} could not be installed, for the reason above. "
            "Correct that, and run this again."
        )
    say("Installed. A bot that runs already needs a restart.")
    return 0


def install_command(name: str) -> Sequence[str]:
    """Return the command line that installs an extra into this Python. Raises CommandRefused."""
    wanted = ("--no-deps",) if name in ALONE else ()
    file = ("-r", str(ROOT / EXTRAS[name]))
    if find_spec("pip") is not None:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input")
        return (sys.executable, "-m", "pip", "install", *quiet, *wanted, *file)
    if uv := shutil.which("uv"):  # its environments have no pip
        return (uv, "pip", "install", "--quiet", "--python", sys.executable, *wanted, *file)
    raise CommandRefused("Neither pip nor uv is here to install packages; install one of them.")
