"""`python main.py logs`: reads what the bot has logged, lines of text or of JSON, of one process or
of several, in the order of their times, also while it is written. What stands in them may come from
strangers, so that nothing of it reaches a terminal but what can be printed.
"""

from __future__ import annotations

import argparse
import heapq
import json
import logging
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import IO, Any
from zoneinfo import ZoneInfo

from msgspec import Struct, field
from msgspec.structs import replace

from bot.settings import SettingError, SettingsStore, load_layers
from plugins.api import CommandError

FILE = "parley.log"
_HEAD = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ([A-Z]{4,8}) \[(.*?)\] ([\w.]+): (.*)", re.DOTALL
)
_INDENT = "    "
_AGO = re.compile(r"(\d{1,6})\s*(s|m|min|h|d)")
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


class LogEntry(Struct, frozen=True):
    """An entry of the log; `turn` is "-" outside of turns. `rest` are the lines below the first: a
    traceback, or more of a text. `process` names its process if there are several."""

    at: datetime
    level: str
    turn: str
    logger: str
    text: str
    rest: tuple[str, ...] = ()
    process: str = ""

    @property
    def weight(self) -> int:
        """The number by which `logging` compares levels; unknown levels rank highest."""
        known = logging.getLevelNamesMapping()
        return known.get(self.level, logging.CRITICAL)


def parse_line(line: str, process: str = "") -> LogEntry | None:
    """Return the entry that begins with this line; None if it continues the previous entry."""
    if line.startswith("{"):
        return _parse_json(line, process)
    if (found := _HEAD.fullmatch(line)) is None:
        return None
    _, level, turn, logger, text = found.groups()
    at = _parse_time(found[1])
    return LogEntry(at, level, turn, logger, text, process=process) if at else None


def _parse_time(text: object) -> datetime | None:
    """Return a time that can be shown in any zone; None for an invalid one, as in damaged files."""
    try:
        at = datetime.fromisoformat(str(text))
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return at if _FIRST_YEAR <= at.year <= _LAST_YEAR else None
    except ValueError:
        return None


_FIRST_YEAR, _LAST_YEAR = 1970, 9998


def _parse_json(line: str, process: str) -> LogEntry | None:
    try:
        whole: dict[str, Any] = json.loads(line)
        at = _parse_time(whole["at"])
        texts = [str(whole[name]) for name in ("level", "turn", "logger", "text")]
        lines = (texts[-1].split("\n"), str(whole.get("error", "")).split("\n"))
    except (ValueError, KeyError, RecursionError):
        return None
    if at is None:
        return None
    (first, *more), error = lines
    rest = (*more, *filter(None, error))
    return LogEntry(at, texts[0].upper(), texts[1], texts[2], first, rest, process)


class LogStream(Struct):
    """The lines of one process as entries; `feed` accepts them as they arrive."""

    process: str = ""
    _last: LogEntry | None = None

    def feed(self, lines: Iterable[str]) -> Iterator[LogEntry]:
        """Yield the complete entries; the last one may continue, and is returned by `flush`."""
        for line in lines:
            entry = parse_line(line, self.process)
            if entry is not None:
                if self._last is not None:
                    yield self._last
                self._last = entry
            elif self._last is not None:
                more = (*self._last.rest, line.removeprefix(_INDENT))
                self._last = replace(self._last, rest=more)

    def flush(self) -> Iterator[LogEntry]:
        """Yield the last entry, for which no more lines are expected."""
        last, self._last = self._last, None
        if last is not None:
            yield last


def find_processes(folder: Path) -> list[Path]:
    """Return the folders with logs of processes: `data/logs`, and for a bot of several processes a
    subfolder for each."""
    places = [folder, *sorted(one for one in folder.iterdir() if one.is_dir())]
    return [place for place in places if any(place.glob(f"{FILE}*"))]


def read_entries(folder: Path) -> Iterator[LogEntry]:
    """Return all entries, oldest first. Raises OSError."""
    places = find_processes(folder)
    streams = [_read(place, place.name if place != folder else "") for place in places]
    return heapq.merge(*streams, key=lambda entry: entry.at)


def _read(place: Path, process: str) -> Iterator[LogEntry]:
    stream = LogStream(process)
    for path in sorted(place.glob(f"{FILE}*"), key=_age, reverse=True):
        with open_log(path) as file:
            yield from stream.feed(line.rstrip("\n") for line in file)
    yield from stream.flush()


def _age(path: Path) -> int:
    """Return 0 for the current file, more for older ones."""
    number = path.name.removeprefix(f"{FILE}.")
    return int(number) if number.isascii() and number.isdigit() else 0


def open_log(path: Path) -> IO[str]:
    """Return a file of the log, in which only a line feed ends a line: a text may contain other
    line breaks."""
    return path.open(encoding="utf-8", errors="replace", newline="\n")


class _Tail(Struct):
    """A growing file that is occasionally replaced by another one of its name."""

    path: Path
    stream: LogStream
    file: IO[str] | None = None
    cut: str = ""  # an incomplete line

    def read(self) -> Iterator[LogEntry]:
        """Yield the entries written since the last read."""
        if self.file is None and not self._open():
            return
        yield from self._read()
        if self._is_replaced():
            self.close()
            if self._open():
                yield from self._read()
        yield from self.stream.flush()

    def _read(self) -> Iterator[LogEntry]:
        assert self.file is not None
        *lines, self.cut = (self.cut + self.file.read()).split("\n")
        yield from self.stream.feed(lines)

    def _open(self) -> bool:
        try:
            self.file = open_log(self.path)
        except OSError:
            return False
        self.cut = ""
        return True

    def _is_replaced(self) -> bool:
        assert self.file is not None
        try:
            there = self.path.stat()
        except OSError:
            return False  # it may be created again
        return not os.path.samestat(there, os.fstat(self.file.fileno()))

    def skip(self) -> None:
        """Skip the existing content."""
        if self.file is not None or self._open():
            assert self.file is not None
            self.file.seek(0, 2)

    def close(self) -> None:
        if self.file is not None:
            self.file.close()
            self.file = None


class LogFollower(Struct):
    """A reader of new entries in the logs of a folder, also of processes that start later."""

    folder: Path
    _tails: dict[Path, _Tail] = field(default_factory=dict)

    def begin(self) -> None:
        """Skip the existing entries."""
        self._find_files()
        for tail in self._tails.values():
            tail.skip()

    def read(self) -> list[LogEntry]:
        """Return the new entries, in order of time."""
        self._find_files()
        found = [entry for tail in self._tails.values() for entry in tail.read()]
        return sorted(found, key=lambda entry: entry.at)

    def _find_files(self) -> None:
        for place in (self.folder, *(one for one in self.folder.iterdir() if one.is_dir())):
            if place not in self._tails and (place / FILE).exists():
                process = place.name if place != self.folder else ""
                self._tails[place] = _Tail(place / FILE, LogStream(process))

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()


def parse_since(text: str, now: datetime) -> datetime:
    """Return a time: `2h` or `30 min` before now, the last `14:30`, or a date like 2026-11-23 or
    2026-11-23T14:30 in the zone of `now`. Raises ValueError."""
    words = text.strip().lower()
    if ago := _AGO.fullmatch(words):
        try:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        except OverflowError:
            raise ValueError(text) from None
    if re.fullmatch(r"\d{1,2}:\d\d", words):
        hour, minute = map(int, words.split(":"))
        moment = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
        return moment if moment <= now else moment - timedelta(days=1)
    moment = datetime.fromisoformat(text.strip())
    return moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo)


_COLOURS = {"DEBUG": "2", "WARNING": "38;5;130", "ERROR": "31", "CRITICAL": "1;31"}
_DIM = "2"


class LogPrinter(Struct):
    """Entries as lines for a person, in a time zone, with a line for each new day."""

    zone: tzinfo
    has_colour: bool = False
    _day: str = ""

    def lines(self, entry: LogEntry) -> Iterator[str]:
        at = entry.at.astimezone(self.zone)
        day = f"{at:%A, %Y-%m-%d}"
        if day != self._day:
            self._day = day
            yield self._paint(f"--- {day}", _DIM)
        level, colour = printable(entry.level)[:8], _COLOURS.get(entry.level, "")
        about = " ".join(filter(None, (entry.process, entry.turn.removesuffix("-"))))
        where = self._paint(f"{printable(about)}: " if about else "", _DIM)
        time = self._paint(f"{at:%H:%M:%S}", _DIM)
        room = self._paint(f" ({printable(entry.logger)})", _DIM)
        text = self._paint(printable(entry.text), colour)
        yield f"{time} {self._paint(f'{level:7}', colour)} {where}{text}{room}"
        for line in entry.rest:
            yield self._paint(f"{_INDENT}{printable(line)}", _DIM)

    def _paint(self, text: str, colour: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.has_colour and colour and text else text


def printable(text: str) -> str:
    """Return a text without characters that control a terminal or change the order of shown
    text."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\t" else ascii(c)[1:-1] for c in text)


USUAL = 50
"""The default number of shown entries."""
PAUSE = 0.25
"""Seconds between two reads of new entries."""


def run(options: argparse.Namespace) -> int:
    """Show the requested entries."""
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
            follower.begin()
        shown = _print(printer, _last(filter(is_shown, read_entries(folder)), options))
        if not (shown or options.follow):
            sys.stderr.write("No log entry matches.\n")
        while options.follow:
            time.sleep(PAUSE)
            _print(printer, filter(is_shown, follower.read()))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # a reader that has closed its pipe is no fault of a file
        raise
    except OSError as error:
        raise CommandError(
            f"{error.filename or folder / FILE} can't be read: {error.strerror}."
        ) from None
    finally:
        follower.close()
    return 0


def _zone(config: Path) -> ZoneInfo:
    """Return the configured time zone; UTC if the configuration can't be read, which may be the
    very problem that is being investigated."""
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
    """Print these entries; return their number."""
    count = 0
    for entry in entries:
        count += 1
        sys.stdout.writelines(f"{line}\n" for line in printer.lines(entry))
    sys.stdout.flush()
    return count
