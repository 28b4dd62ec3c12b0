"""Views of MCP servers for commands, and the texts about them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from channels.language import _, explain
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
