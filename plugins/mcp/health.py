"""The state of a connection to a server: limits of its messages, whether it is over, and why; and
views of servers for commands, with the texts about them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import Any

from msgspec import Struct, field

from channels.language import _, explain
from memory.patterns import lazy
from memory.plain_text import without_controls
from plugins.wording import amount, clip, count, literal, shorten, table

_FIRST, _LAST = 40, 5  # tools listed if there are many


class RemoteToolView(Struct, frozen=True):
    """A tool of a server. `name` is its name for the model, `own_name` the server's. `tokens` is
    the size of its schema, which the model reads when it looks the tool up. `is_hidden` means that
    the settings don't offer it, `asks` that a person is asked before each call."""

    name: str
    own_name: str
    description: str
    tokens: int
    calls: int
    is_hidden: bool
    asks: bool


class ServerView(Struct, frozen=True):
    """A server with its known tools. `where` is its program or its address, `line` the tokens of
    its line in the prompt. `running` counts its processes or connections, `why_down` is the reason
    of the last failure. `changes` are the times and descriptions of changes of its tools."""

    name: str
    where: str
    is_added: bool
    is_process: bool
    is_served_here: bool
    line: int
    running: int
    why_down: str
    tools: tuple[RemoteToolView, ...]
    changes: tuple[tuple[datetime, str], ...] = ()

    @property
    def offered(self) -> list[RemoteToolView]:
        return [one for one in self.tools if not one.is_hidden]

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.offered)

    @property
    def calls(self) -> int:
        return sum(one.calls for one in self.tools)

    @property
    def state(self) -> str:
        if self.why_down:
            return _("failed: {why}", why=literal(clip(explain(self.why_down), 120)))
        if self.running:
            return _("running")
        return _("not running") if self.tools else _("not started yet")


def format_servers(servers: Sequence[ServerView]) -> str:
    """Return a table of the servers, and the number of tools that were never called."""
    rows = [
        (
            literal(one.name),
            str(len(one.offered)),
            amount(one.tokens),
            str(one.calls),
            one.state if one.is_served_here else _("{state}; not offered here", state=one.state),
        )
        for one in servers
    ]
    shown = table(("server", "tools:", "tokens:", "calls:", "state"), rows)
    return "\n\n".join(filter(None, (shown, describe_uncalled(servers))))


def describe_uncalled(servers: Sequence[ServerView]) -> str:
    """Return the number of tools that were never called; "" if there are none."""
    tools = [tool for one in servers for tool in one.offered]
    never = sum(not tool.calls for tool in tools)
    if not never:
        return ""
    if len(tools) == 1:
        return _("The only tool was never called: /mcp trim hides it.")
    return _(
        "{never} of {all} tools never called: /mcp trim hides them.", never=never, all=len(tools)
    )


def format_tools(server: ServerView) -> str:
    """Return a table of a server's tools, the largest first."""
    ordered = sorted(server.tools, key=lambda one: (one.is_hidden, -one.tokens, one.name))
    rows = [
        (
            literal(one.name),
            amount(one.tokens),
            str(one.calls),
            _("hidden") if one.is_hidden else _("asks first") if one.asks else "",
            literal(clip(one.description, 80)),
        )
        for one in ordered
    ]
    shown = shorten(rows, _FIRST, _LAST, lambda n: ("…", _("{n} more", n=n), "", "", ""))
    return table(("tool", "tokens:", "calls:", "state", "description"), shown)


def describe_cost(servers: Sequence[ServerView]) -> str:
    """Describe the cost of these servers in each request."""
    here = [one for one in servers if one.is_served_here]
    return _(
        "In each request: {line} tokens for {servers}. Schemas are read when they are looked up.",
        line=amount(sum(one.line for one in here)),
        servers=count(len(here), "server"),
    )


def to_data(server: ServerView) -> dict[str, Any]:
    """Return a server as data."""
    return {
        "server": server.name,
        "where": server.where,
        "added": server.is_added,
        "offered_here": server.is_served_here,
        "running": server.running,
        "failed": server.why_down,
        "tokens_in_prompt": server.line,
        "tools": [
            {
                "name": one.name,
                "tokens": one.tokens,
                "calls": one.calls,
                "hidden": one.is_hidden,
                "asks": one.asks,
            }
            for one in server.tools
        ],
    }


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


def find_reason(output: bytes) -> str:
    """Return the line that best explains the failure: the last that names an error, else the last
    that sounds like one, else the last with any content."""
    text = without_controls(output.decode("utf-8", "replace"))
    lines = [line.strip(" \t\r|") for line in text.splitlines()]
    if named := [line for line in lines if _NAMED.match(line)]:
        return _clean(named[-1])
    lines_of_reason = [line for line in lines if line and not _NOISE.fullmatch(line)]
    for sounds in (_REASON, _SIGN):
        if found := [line for line in lines_of_reason if sounds.search(line)]:
            return _clean(found[-1])
    return _clean(lines_of_reason[-1]) if lines_of_reason else ""


def add_stderr_reason(why: str, output: bytes) -> str:
    """Return the reason why a server is down, with the reason in its own output."""
    reason = find_reason(output)
    return f"{why}; it said: {reason}" if reason else why


def _clean(line: str) -> str:
    shown = "".join(c for c in " ".join(line.split()) if c.isprintable())
    half = _LONGEST // 2
    return shown if len(shown) <= _LONGEST else f"{shown[:half]} … {shown[-half:]}"
