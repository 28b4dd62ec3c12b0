"""`python main.py logs`: what the bot has logged, for a person, also while it is written."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from bot.settings import SettingError, SettingsStore, load_layers
from plugins.api import CommandError
from plugins.operations.log_reading import (
    FILE,
    LogEntry,
    LogFollower,
    LogPrinter,
    find_processes,
    parse_since,
    read_entries,
)

USUAL = 50
"""Events that are shown where nothing else is asked for."""
PAUSE = 0.25
"""Seconds between two looks at what was written."""


def run(options: argparse.Namespace) -> int:
    """Show what the command line asks for."""
    folder = options.data / "logs"
    if not folder.is_dir() or not (find_processes(folder) or options.follow):
        raise CommandError(
            f"There are no logs in {folder}; name the bot's data folder with --data DIR."
        )
    zone = _zone(options.config)
    is_shown = _filter(options, datetime.now(zone))
    printer = LogPrinter(zone, sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    follower = LogFollower(folder)
    try:
        if options.follow:
            follower.begin()  # before the rest is read: better a line twice than none
        shown = _print(printer, _last(filter(is_shown, read_entries(folder)), options))
        if not (shown or options.follow):
            sys.stderr.write("No log entry matches.\n")
        while options.follow:
            time.sleep(PAUSE)
            _print(printer, filter(is_shown, follower.read()))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # `| head` has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder / FILE} can't be read: {error.strerror}."
        ) from None
    finally:
        follower.close()
    return 0


def _zone(config: Path) -> ZoneInfo:
    """Return the time zone that is set; UTC where the configuration can't be read, which is what
    somebody may want to look into."""
    try:
        return SettingsStore(load_layers(config, os.environ)).effective().zone
    except SettingError:
        return ZoneInfo("UTC")


def _filter(options: argparse.Namespace, now: datetime) -> Callable[[LogEntry], bool]:
    least = LogEntry(now, options.level.upper(), "", "", "").weight
    since = datetime.min.replace(tzinfo=UTC)
    if options.since:
        try:
            since = parse_since(options.since, now)
        except ValueError:
            raise CommandError(
                f"--since {options.since!r} is no time; write 2h, 30m, 3d, 14:30, or 2026-11-23."
            ) from None
    return lambda entry: entry.weight >= least and entry.at >= since


def _last(entries: Iterator[LogEntry], options: argparse.Namespace) -> Iterable[LogEntry]:
    most = USUAL if options.lines is None and not options.since else options.lines
    return entries if most is None else deque(entries, maxlen=most)


def _print(printer: LogPrinter, entries: Iterable[LogEntry]) -> int:
    """Show these events; returns how many there were."""
    count = 0
    for entry in entries:
        count += 1
        sys.stdout.writelines(f"{line}\n" for line in printer.lines(entry))
    sys.stdout.flush()
    return count
