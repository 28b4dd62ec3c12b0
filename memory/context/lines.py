"""A turn in one or a few lines, for the activity log (flo.monster).

The model writes a line about its own reply, a sub-agent about its work. A turn without one gets a
line made of its own first words, so that no turn is missing.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct

from memory.context.meter import Meter
from memory.context.view import LogLine
from memory.plain_text import beginning
from memory.turns import Entry, Turn

_QUESTION = 60  # characters of a question in a line made of first words
_WHOLE = 160  # characters of such a line


class Line(Struct, frozen=True):
    """A line about the work of the assistant or a sub-agent in a turn; `at` is its time, in UTC."""

    turn: int
    at: datetime
    role: Literal["assistant", "subagent"]
    text: str


def lines_of(turn: Turn) -> tuple[Line, ...]:
    """Return the lines of a turn: the sub-agents' in order, then the turn's own."""
    subagents = (
        Line(turn.number, entry.at, "subagent", _one_line(entry.message.terse))
        for entry in turn.entries
        if entry.message.role == "tool" and entry.message.terse.strip()
    )
    return (*subagents, _own_line(turn))


def _own_line(turn: Turn) -> Line:
    """Return the last line that the model wrote, at the time of its message; else the first
    words."""
    written = [entry for entry in turn.entries if _is_written(entry)]
    entry = written[-1] if written else turn.entries[-1]
    text = _one_line(entry.message.terse) if written else _first_words_of(turn)
    return Line(turn.number, entry.at, "assistant", text)


def _is_written(entry: Entry) -> bool:
    return entry.message.role == "assistant" and bool(entry.message.terse.strip())


def _first_words_of(turn: Turn) -> str:
    text = turn.reply.text if turn.reply else ""
    return first_words(turn.question.text, text or "(no reply)")


def first_words(question: str, reply: str) -> str:
    """Return "question → reply", each by its first words, at most 160 characters."""
    arrow = f"{beginning(question, _QUESTION)} → "
    return arrow + beginning(reply, _WHOLE - len(arrow))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def as_text(line: Line) -> str:
    """Return a line as in "[t1 2024-01-15T10:30] assistant: created dashboard", in UTC, to the
    minute."""
    return f"[t{line.turn} {line.at.astimezone(UTC):%Y-%m-%dT%H:%M}] {line.role}: {line.text}"


def as_brief_text(line: Line) -> str:
    """Return a line as in "t1 created dashboard", for lines that follow a line of the same hour.
    The role is given only for a sub-agent."""
    who = "" if line.role == "assistant" else f"{line.role}: "
    return f"t{line.turn} {who}{line.text}"


def brief_logs(turns: Iterable[Turn]) -> dict[int, str]:
    """Return the lines of each turn by its number; only the first line of each hour has the
    time."""
    found, hour = dict[int, str](), ""
    for turn in turns:
        texts = []
        for line in lines_of(turn):
            texts.append(as_brief_text(line) if hour == _hour_of(line) else as_text(line))
            hour = _hour_of(line)
        found[turn.number] = "\n".join(texts)
    return found


def _hour_of(line: Line) -> str:
    return f"{line.at.astimezone(UTC):%Y-%m-%dT%H}"


def log_lines(turns: Iterable[Turn], meter: Meter) -> tuple[LogLine, ...]:
    """Return the lines of the complete ones of these turns, as they are sent."""
    return tuple(
        _log_line(line, turn.has_outside, meter)
        for turn in turns
        if turn.is_complete
        for line in lines_of(turn)
    )


def _log_line(line: Line, is_untrusted: bool, meter: Meter) -> LogLine:
    text, brief = as_text(line), as_brief_text(line)
    tokens, least = meter.count(text) + 1, meter.count(brief) + 1
    return LogLine(line.turn, text, tokens, is_untrusted, _hour_of(line), brief, least)
