"""The checks of MCP servers, for `python main.py doctor`."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Sequence
from importlib.util import find_spec

from bot.checks import Finding
from bot.settings import Settings
from plugins.mcp.settings import McpServer, McpSettings


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check the requirements of the configured servers on this machine, without starting them."""
    del may_connect
    servers = settings.section(McpSettings).all.values()
    return [check_servers(servers, find_spec("mcp") is not None)] if servers else ()


def check_servers(servers: Collection[McpServer], has_sdk: bool) -> Finding:
    """Check the requirements of these servers, without starting them."""
    if not has_sdk:
        advice = "Run: python main.py add mcp"
        return Finding("MCP servers", "broken", "The package mcp is missing.", advice)
    programs = [one for one in servers if one.is_process]
    missing = [f"{one.name} ({one.command})" for one in programs if not shutil.which(one.command)]
    if missing:
        advice = "Install them, or correct mcp.servers."
        return Finding(
            "MCP servers", "broken", f"Programs are missing: {', '.join(missing)}.", advice
        )
    return Finding("MCP servers", "ok", f"What {len(servers)} of them need is there.")
