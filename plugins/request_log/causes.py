"""The events behind the differences of two requests. Pure.

What was sent once is sent again byte for byte unless an event changed it. So each part that differs
has an event, or is a fault of the program.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from memory.context.change import Kind, ViewEvent
from memory.turns import Entry

_ANYTHING: frozenset[Kind] = frozenset({"undo", "redo", "setting"})
"""Kinds that may change any part of the conversation: another event counts or does not count, or
another strategy is in force."""


class SentPart(Struct, frozen=True):
    """A part of a request whose cause is looked for: a message of the conversation by its entry, or
    a part before them (`name`)."""

    name: str
    entry: Entry | None = None
    has_summary: bool = False
    """A summary is sent with it, before its own text."""


def find_causes(part: SentPart, events: Iterable[ViewEvent]) -> list[ViewEvent]:
    """Return those of the events between two requests that may have changed a part which both have,
    or which the first one had."""
    return [event for event in events if _touches(event, part)]


def _touches(event: ViewEvent, part: SentPart) -> bool:
    if part.entry is None and part.name in ("tools", "system prompt", "parameters"):
        return event.kind == "prompt"
    if event.kind in _ANYTHING:
        return True
    if event.kind in ("prompt", "hold"):
        return False
    change = event.change
    if (part.entry is None or part.has_summary) and change.rewrites_front:
        return True
    return part.entry is not None and change.touches(part.entry.turn, part.entry.seq)
