"""The progress of long work on the command line: one line with the amount done, the total, and the
remaining time.

On a terminal the line is redrawn in place and removed at the end. Elsewhere (a log, a pipe) a line
is written at most every ten seconds. It goes to stderr: stdout has the results alone. Only standard
library modules are imported: the first installation shows its progress, too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from bot.paragraphs import columns_of, wrap_words
from memory.tasks import TaskProgress

BYTES = "bytes"
"""The unit of sizes, which are written in MB."""
_OFTEN, _SELDOM = 0.1, 10.0  # seconds between two lines
_SURE = 1.0  # seconds after which the pace is meaningful
_MINUTE, _HOUR = 60, 3_600


def format_left(share: float, elapsed: float) -> str:
    """Return the remaining time in words, if this share (0 to 1) took this many seconds; "" if it
    can't be known yet."""
    if not 0 < share <= 1 or elapsed < _SURE:
        return ""
    left = elapsed * (1 - share) / share
    if left < 5:
        return "a few seconds left"
    if left < _MINUTE - 2.5:
        return f"about {5 * round(left / 5)} s left"
    minutes = max(1, round(left / _MINUTE))
    if minutes < 60:
        return f"about {minutes} min left"
    hours, minutes = divmod(minutes, 60)
    return f"about {hours} h {minutes} min left" if minutes else f"about {hours} h left"


def format_progress(
    what: str, unit: str, done: int, total: int, elapsed: float, room: int = -1
) -> str:
    """Return the line: "Importing: 1,200 of 5,000 conversations, 24 %, about 3 min left". Where
    there is `room` for fewer columns (-1: any), the share and the time are said, not the count."""
    done = min(done, total) if total > 0 else done
    is_size = unit == BYTES
    shown = _format_size(done) if is_size else f"{done:,}"
    unit = "" if is_size else f" {unit}"
    if total <= 0:
        return f"{what}: {shown}{unit}"[: room if room >= 0 else None]
    all_states = _format_size(total) if is_size else f"{total:,}"
    left = format_left(done / total, elapsed) if done < total else ""
    count, share = f"{what}: {shown} of {all_states}", f"{100 * done // total} %"
    for parts in ((count + unit, share, left), (count, share, left), (f"{what}: {share}", left)):
        line = ", ".join(filter(None, parts))
        if room < 0 or len(line) <= room:
            return line
    return ", ".join(filter(None, (share, left)))[:room]


def _format_size(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"


class ProgressLine(TaskProgress):
    """The progress line of one task. `unit` is the unit counted, in the plural, or BYTES."""

    def __init__(
        self,
        what: str,
        unit: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what, self._unit, self._clock = what, unit, clock
        self._stream = stream or sys.stderr
        is_person = self._stream is not None and self._stream.isatty()
        self._is_drawn = is_person and os.environ.get("TERM") != "dumb"
        self._begun = clock()
        self._next = self._begun + (0 if self._is_drawn else _SELDOM)
        self._line = ""

    def show_progress(self, done: int, total: int) -> None:
        """Show the amount done; a total of 0 means unknown."""
        now = self._clock()
        if now < self._next or self._stream is None:
            return
        room = columns_of(self._stream) - 1 if self._is_drawn else -1
        line = format_progress(self._what, self._unit, done, total, now - self._begun, room)
        if self._is_drawn:
            self._next = now + _OFTEN
            if line != self._line:
                self._draw(line)
        else:
            self._next = now + _SELDOM
            self._stream.write(f"{line}\n")
            self._stream.flush()

    def write_line(self, text: str) -> None:
        """Write a line for the person to stdout, above this one."""
        line = self._line
        self.close()
        sys.stdout.write(f"{wrap_words(text, columns_of(sys.stdout))}\n")
        sys.stdout.flush()
        if line:
            self._draw(line)

    def close(self) -> None:
        """Remove the line."""
        if self._line:
            self._draw("")

    def _draw(self, line: str) -> None:
        self._line = line
        self._stream.write(f"\r{line}\x1b[K")
        self._stream.flush()


@contextmanager
def progress(what: str, unit: str) -> Iterator[ProgressLine]:
    """Show the progress of work, until it ends."""
    shown = ProgressLine(what, unit)
    try:
        yield shown
    finally:
        shown.close()
