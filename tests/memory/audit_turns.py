"""Turns made of lines, for tests of pure functions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from memory.messages import Message
from memory.turns import Entry, Turn

NOW = datetime.fromtimestamp(0, UTC)


def turns_of(lines: Sequence[str]) -> list[Turn]:
    """Return turns of lines in which a person and the assistant alternate; the last may be open."""
    turns = []
    for number, first in enumerate(range(0, len(lines), 2), 1):
        said = [Message("user", lines[first])]
        said += [Message("assistant", line) for line in lines[first + 1 : first + 2]]
        entries = [
            Entry(2 * number + place, number, message, 1 + len(message.text.encode()) // 4, NOW)
            for place, message in enumerate(said)
        ]
        turns.append(Turn(number, tuple(entries)))
    return turns
