"""The reason why a program failed, found in what it wrote for people: one line of its standard
error. Pure."""

from __future__ import annotations

import re

from memory.patterns import lazy
from memory.plain_text import without_controls

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
"""Lines that stand around a reason and say nothing of it."""
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
"""The beginning of a line that names an error, by which programs of most languages end."""


def find_reason(said: bytes) -> str:
    """Return the line that says best why it failed: the last that names an error, or the last that
    sounds like one, or the last that says anything."""
    text = without_controls(said.decode("utf-8", "replace"))
    lines = [line.strip(" \t\r|") for line in text.splitlines()]
    if named := [line for line in lines if _NAMED.match(line)]:
        return _clean(named[-1])
    told = [line for line in lines if line and not _NOISE.fullmatch(line)]
    for sounds in (_REASON, _SIGN):
        if found := [line for line in told if sounds.search(line)]:
            return _clean(found[-1])
    return _clean(told[-1]) if told else ""


def add_last_words(why: str, said: bytes) -> str:
    """Return why a server is down, with what it said of it itself."""
    reason = find_reason(said)
    return f"{why}; it said: {reason}" if reason else why


def _clean(line: str) -> str:
    shown = "".join(c for c in " ".join(line.split()) if c.isprintable())
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]} … {shown[-half:]}"
