"""The activity log (flo.monster): how its lines are written, and counted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC

from memory.context.lines import Line, lines_of
from memory.context.meter import Meter
from memory.context.view import LogLine
from memory.turns import Turn


def as_text(line: Line) -> str:
    """ "[t1 2024-01-15T10:30] assistant: created dashboard", in UTC, to the minute."""
    return f"[t{line.turn} {line.at.astimezone(UTC):%Y-%m-%dT%H:%M}] {line.role}: {line.text}"


def log_lines(turns: Iterable[Turn], meter: Meter) -> tuple[LogLine, ...]:
    """The lines of these turns, those that are complete, as they are sent."""
    texts = [(turn, as_text(line)) for turn in turns if turn.is_complete for line in lines_of(turn)]
    return tuple(
        LogLine(turn.number, text, meter.count(text) + 1, turn.has_outside) for turn, text in texts
    )
