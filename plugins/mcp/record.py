"""The database rows of MCP servers: their tools as last listed, and the number of calls of each."""

from __future__ import annotations

import time
from collections.abc import Mapping

from msgspec import Struct

from memory.record import tables
from memory.record.database import Database


class ServerTool(Struct, frozen=True):
    """A tool of a server, by the server's name and the tool's own name. `listed` is its description
    and schema as JSON. `is_gone` means that the server no longer lists it. `called_at` is in
    seconds since 1970."""

    server: str
    tool: str
    listed: str
    calls: int = 0
    called_at: float = 0.0
    is_gone: bool = False


class ListingChange(Struct, frozen=True):
    """A change of a server's list of tools; `at` is in seconds since 1970."""

    server: str
    at: float
    what: str


_TOOL, _CHANGE = tables.McpTool, tables.McpChange
_MOST_CHANGES = 100
"""The maximum number of stored changes of a server's tools."""


def load(database: Database) -> list[ServerTool]:
    """Return all known tools, sorted by name."""
    rows = _TOOL.select().order_by(_TOOL.server, _TOOL.tool).execute(database)
    return [
        ServerTool(
            row["server"],
            row["tool"],
            row["listed"],
            row["calls"],
            row["called_at"],
            bool(row["is_gone"]),
        )
        for row in rows
    ]


def keep_listing(database: Database, server: str, listed: Mapping[str, str], change: str) -> None:
    """Store a server's current list by the tools' names, and the description of its change ("":
    unchanged)."""
    mine = _TOOL.server == server
    rows = _TOOL.select(_TOOL.tool, _TOOL.listed, _TOOL.is_gone).where(mine).execute(database)
    before = {row["tool"]: (row["listed"], bool(row["is_gone"])) for row in rows}
    for tool, text in listed.items():
        if tool not in before:
            _TOOL.insert(
                server=server, tool=tool, listed=text, calls=0, called_at=0.0, is_gone=0
            ).execute(database)
        elif before[tool] != (text, False):
            _TOOL.update(listed=text, is_gone=0).where(mine & (_TOOL.tool == tool)).execute(
                database
            )
    for tool in before.keys() - listed.keys():
        _TOOL.update(is_gone=1).where(mine & (_TOOL.tool == tool)).execute(database)
    if change:
        _CHANGE.insert(server=server, at=time.time(), what=change).execute(database)
        newest = (
            _CHANGE.select(_CHANGE.id)
            .where(_CHANGE.server == server)
            .order_by(_CHANGE.id.desc())
            .limit(_MOST_CHANGES)
            .execute(database)
        )
        kept = [row["id"] for row in newest]
        _CHANGE.delete().where(
            (_CHANGE.server == server) & (_CHANGE.id < min(kept, default=0))
        ).execute(database)


def count_call(database: Database, server: str, tool: str) -> None:
    """Count a call of a tool."""
    _TOOL.update(calls=_TOOL.calls + 1, called_at=time.time()).where(
        (_TOOL.server == server) & (_TOOL.tool == tool)
    ).execute(database)


def list_changes(database: Database, server: str, most: int = 5) -> list[ListingChange]:
    """Return the newest changes of a server's list, the newest first."""
    rows = (
        _CHANGE.select()
        .where(_CHANGE.server == server)
        .order_by(_CHANGE.id.desc())
        .limit(most)
        .execute(database)
    )
    return [ListingChange(row["server"], row["at"], row["what"]) for row in rows]


def forget_server(database: Database, server: str) -> None:
    """Delete all data about a server's tools."""
    _TOOL.delete().where(_TOOL.server == server).execute(database)
    _CHANGE.delete().where(_CHANGE.server == server).execute(database)
