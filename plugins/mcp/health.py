"""The state of a connection to a server: limits of its messages, whether it is over, and why: a
line of what it wrote for people."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from time import monotonic

from msgspec import Struct, field

from memory.patterns import lazy
from memory.plain_text import without_controls

LONGEST = 4_000_000
"""The maximum length of one message in bytes."""
MOST_ITEMS = 1_000
"""The maximum number of tools, parts of a result, resources, … in one message."""
_MESSAGES = 200.0  # maximum per second; further messages are delayed
_BYTES = 4_000_000.0  # maximum per second


class Rate:
    """A rate limiter for incoming data, which delays the excess; `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._room, self._at = 1.0, clock()

    async def wait(self, size: int, messages: int = 1) -> None:
        """Wait until this many bytes and messages may be processed."""
        now = self._clock()
        self._room = min(1.0, self._room + now - self._at)
        self._at = now
        self._room -= messages / _MESSAGES + size / _BYTES
        if self._room < 0:
            await asyncio.sleep(-self._room)


class Health(Struct):
    """The state of a connection to a server. `over` is set when it has ended; `why` is the reason
    ("": it was ended by us, or only its session is over). `said` is the end of its standard error,
    `refused` the last HTTP status with which it refused a call."""

    over: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    said: bytes = b""
    refused: int = 0

    def end(self, why: str) -> None:
        """Mark it as ended; only the first reason is kept."""
        if not self.over.is_set():
            self.why = why
            self.over.set()


_LONGEST = 200
_NOISE = lazy(
    r"""
    at\s.* | [\W_]* | \.{3}.* | Node\.js\ v[\d.]+
    | (?:node:|file:|\.*/|[A-Z]:\\|\[)\S*:\d+:?    # a place in a program
    | throw\b.* | [\w$]+:\s.*[,{\[]            # fields of an error's object
    | (?:code|errno|syscall|path|requireStack|stack):\s.*
    | File\ ".*",\ line\ \d+.* | Traceback\ .*
    | npm\ (?:error|ERR!)(?:\ (?:code|errno|path|syscall|command)\b.*|\ \d+|\s*A\ complete\ log.*)?
    | goroutine\ .* | exit\ status\ \d+ | \t.*\.go:\d+.*
    | note:\ .* | Caused\ by: | \d+:\s.* | stack\ backtrace:
    | Usage:.* | usage:.*
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""Lines around a reason that don't contain it."""
_REASON = lazy(
    r"""
    \b(?:not\ found|no\ such|can(?:not|'t)|could\ not|couldn't|unable|missing|requires?d?|must\ be
    | is\ not\ set|denied|refused|invalid|un(?:known|recognized|supported|expected|defined)
    | expired|exists|in\ use|timed\ out|panic(?:ked)?)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SIGN = lazy(r".{0,40}\b(?:error|fatal|fail(?:ed|ure)?|critical|ERR!)(?!\w)", re.IGNORECASE)
_NAMED = lazy(
    r"(?:[\w ]{0,30}\b)?[\w.]*(?:Error|Exception|Rejection|panic)\b(?: \[\w+\])?\s*:\s*\S", re.I
)
"""The beginning of a line that names an error, as programs in most languages end with."""


def find_reason(said: bytes) -> str:
    """Return the line that best explains the failure: the last that names an error, else the last
    that sounds like one, else the last with any content."""
    text = without_controls(said.decode("utf-8", "replace"))
    lines = [line.strip(" \t\r|") for line in text.splitlines()]
    if named := [line for line in lines if _NAMED.match(line)]:
        return _clean(named[-1])
    told = [line for line in lines if line and not _NOISE.fullmatch(line)]
    for sounds in (_REASON, _SIGN):
        if found := [line for line in told if sounds.search(line)]:
            return _clean(found[-1])
    return _clean(told[-1]) if told else ""


def add_stderr_reason(why: str, said: bytes) -> str:
    """Return the reason why a server is down, with the reason in its own output."""
    reason = find_reason(said)
    return f"{why}; it said: {reason}" if reason else why


def _clean(line: str) -> str:
    shown = "".join(c for c in " ".join(line.split()) if c.isprintable())
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]} … {shown[-half:]}"
