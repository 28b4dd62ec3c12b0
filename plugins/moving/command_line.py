"""The commands `python main.py import` and `export`."""

from __future__ import annotations

import argparse

from bot.command_line import Commands
from channels.program import as_place

PROGRAMS = ("chatgpt", "open-webui", "openclaw", "hermes", "claude-code", "cowagent", "parley")


def add_commands(commands: Commands) -> None:
    """Add `export` and `import` to the command line."""
    out = commands.add_parser("export", help="export all conversations to FOLDER, as plain files")
    out.add_argument("folder", type=as_place)
    out.set_defaults(run=_write_out)
    parser = commands.add_parser(
        "import",
        help="import from ChatGPT, OpenClaw, Hermes, Claude Code, others, or an export",
    )
    parser.add_argument("source", choices=PROGRAMS, help="the program; parley: an export of Parley")
    parser.add_argument("path", type=as_place, help="its export, database or folder")
    parser.add_argument("--to", default="", help="web, web/NAME or terminal (web)")
    parser.add_argument("--user", default="", help="the person, where the database has several")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be imported")
    parser.add_argument(
        "--mine",
        action="store_true",
        help="everything is my own: only tool results are text from outside, and memories apply "
        "at once",
    )
    parser.add_argument(
        "--with-settings", action="store_true", help="import settings, too, and personas as agents"
    )
    parser.set_defaults(run=_run_import)


def _run_import(options: argparse.Namespace) -> int:
    from plugins.moving.commands import run_import  # noqa: PLC0415 - slow, rarely used

    return run_import(options)


def _write_out(options: argparse.Namespace) -> int:
    from plugins.moving.commands import run_export  # noqa: PLC0415 - as above

    return run_export(options)
