"""The command line's commands for operating a bot."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable

from bot.command_line import Commands
from channels.program import as_place

LEVELS = ("debug", "info", "warning", "error")


def add_commands(commands: Commands) -> None:
    """Add these commands to the command line."""
    examine = commands.add_parser("doctor", help="check the installation, and say how to fix it")
    examine.set_defaults(run=_run("commands", "examine"))
    look = commands.add_parser("audit", help="check the security of the installation")
    look.set_defaults(run=_run("commands", "print_risks"))
    save = commands.add_parser("backup", help="save all data to FILE")
    save.add_argument("file", type=as_place)
    save.set_defaults(run=_run("commands", "save"))
    upgrade = commands.add_parser("upgrade", help="upgrade the data of an older version")
    upgrade.add_argument(
        "--check",
        action="store_true",
        help="only make a backup, and say what would change and how long that takes",
    )
    upgrade.add_argument("--backup", type=as_place, metavar="FILE", help="the place of the backup")
    upgrade.set_defaults(run=_run("commands", "upgrade_data"))
    service = commands.add_parser("service", help="run permanently, as a systemd service")
    service.add_argument("action", choices=("install", "status", "uninstall"))
    service.add_argument("--name", default="parley", help="the service's name (parley)")
    service.set_defaults(run=_run("commands", "manage_service"))
    move = commands.add_parser("migrate", help="move the data to another database system")
    move.add_argument("--to", choices=("postgresql", "sqlite"), required=True)
    move.set_defaults(run=_run("commands", "move"))
    restore_backup = commands.add_parser(
        "restore", help="restore the backup FILE (plugins and skills with --with-code)"
    )
    restore_backup.add_argument("file", type=as_place)
    restore_backup.add_argument(
        "--with-code",
        action="store_true",
        help="with plugins, skills and powerful settings, without asking",
    )
    restore_backup.set_defaults(run=_run("commands", "restore_backup"))
    logs = commands.add_parser("logs", help="show the bot's log")
    logs.add_argument("-f", "--follow", action="store_true", help="follow the log as it grows")
    logs.add_argument(
        "--since", metavar="WHEN", help="entries since then: 2h, 30m, 14:30, 2026-11-23"
    )
    logs.add_argument("--level", choices=LEVELS, default="debug", help="this level and above")
    logs.add_argument("-n", "--lines", type=_number, metavar="N", help="the last N")
    logs.set_defaults(run=_run("log_reading", "run"))
    report = commands.add_parser(
        "report", help="write a file for an issue, without secrets and texts"
    )
    report.add_argument("file", type=as_place, nargs="?", help="a new file (parley-report-….zip)")
    report.set_defaults(run=_run("report", "run"))


def _run(module: str, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a command that imports its module, which is slow, only when it runs."""

    def run(options: argparse.Namespace) -> int:
        found = importlib.import_module(f"plugins.operations.{module}")
        return int(getattr(found, function)(options))

    return run


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of entries; write -n 50.")
    return int(text)
