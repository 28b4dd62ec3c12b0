"""Limits of a server: the length of its messages, and their number in a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from msgspec import Struct, field

LONGEST = 4_000_000
"""Bytes of one message of a server."""
MOST_ITEMS = 1_000
"""Tools, parts of a result, resources, … that are taken of one message."""
_MESSAGES = 200.0  # a second that are taken in; whoever sends more has to wait
_BYTES = 4_000_000.0  # a second


class Rate:
    """Lets through what comes in at a bearable rate, and holds up the rest; `clock` in seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._room, self._at = 1.0, clock()

    async def wait(self, size: int, messages: int = 1) -> None:
        """Wait until so many bytes, and so many messages, may be taken in."""
        now = self._clock()
        self._room = min(1.0, self._room + now - self._at)
        self._at = now
        self._room -= messages / _MESSAGES + size / _BYTES
        if self._room < 0:
            await asyncio.sleep(-self._room)


class Health(Struct):
    """State of a connection to a server: `over` is set when it has ended; `why` says what happened
    ("": it was ended, or only its session is over). `said` is the end of what it wrote for people,
    `refused` the last status of HTTP with which it refused a call."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    said: bytes = b""
    refused: int = 0

    def end(self, why: str) -> None:
        """End it; what is said first counts."""
        if not self.over.is_set():
            self.why = why
            self.over.set()
