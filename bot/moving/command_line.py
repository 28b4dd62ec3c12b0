"""`python main.py import` and `export` as the command line knows them; what they do is loaded when
it is asked for."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from bot.maintenance import say, with_places
from channels.message import clean_text

PROGRAMS = ("chatgpt", "open-webui", "cowagent", "parley")


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the commands to the command line's."""
    out = commands.add_parser("export", help="write all that was said to FOLDER, as plain files")
    out.add_argument("folder", type=Path)
    out.set_defaults(run=_write_out)
    parser = commands.add_parser("import", help="bring in what another program kept")
    parser.add_argument("source", choices=PROGRAMS, help="the program; parley: what export wrote")
    parser.add_argument("path", type=Path, help="its export, database or folder")
    parser.add_argument("--to", default="", help="web, web/NAME or terminal (web)")
    parser.add_argument("--user", default="", help="whose things, where several people have some")
    parser.add_argument("--dry-run", action="store_true", help="say what would come, no more")
    parser.add_argument(
        "--mine",
        action="store_true",
        help="all of it is my own: only what tools returned is text from outside, and what is "
        "remembered holds at once",
    )
    parser.add_argument(
        "--with-settings", action="store_true", help="with settings, and personas as agents"
    )
    parser.set_defaults(run=_bring_in)


def _bring_in(options: argparse.Namespace) -> int:
    return _run("bring_in", options)


def _write_out(options: argparse.Namespace) -> int:
    return _run("write_out", options)


def _run(name: str, options: argparse.Namespace) -> int:
    # slow, and nothing for the other commands
    from bot.moving import commands  # noqa: PLC0415
    from bot.moving.source import MovingError  # noqa: PLC0415

    work = {"bring_in": commands.bring_in, "write_out": commands.write_out}[name]
    try:
        return work(options, partial(_say, options))
    except MovingError as error:
        sys.stderr.write(f"{clean_text(with_places(str(error), options))}\n")
        return 1


def _say(options: argparse.Namespace, text: str) -> None:
    """A text for the person, in which names may stand that a stranger chose."""
    say(clean_text(with_places(text, options)))
