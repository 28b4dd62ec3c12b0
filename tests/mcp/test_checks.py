"""The doctor's look at what MCP servers need on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from bot.checks import Finding
from plugins.mcp.checks import check_servers
from plugins.mcp.settings import parse_servers
from plugins.operations.doctor import Probes, examine


async def examined(folder: Path, servers: Mapping[str, Any]) -> dict[str, Finding]:
    """Return what the doctor finds with these servers in the configuration, by name."""
    config = folder / "config.yaml"
    config.write_text(yaml.safe_dump({"mcp": {"servers": dict(servers)}}))
    probes = Probes(config, folder / "data", {}, may_connect=False)
    return {one.name: one for one in await examine(probes)}


@pytest.mark.parametrize(
    ("servers", "found"),
    [
        ({}, None),
        ({"a": {"command": "sh"}}, Finding("MCP servers", "ok", "What 1 of them need is there.")),
        (
            {"a": {"command": "no-such-program"}, "b": {"url": "http://127.0.0.1:9/"}},
            Finding(
                "MCP servers",
                "broken",
                "Programs are missing: a (no-such-program).",
                "Install them, or correct mcp.servers.",
            ),
        ),
    ],
)
async def test_what_servers_need_is_looked_for(
    tmp_path: Path, servers: Mapping[str, Any], found: Finding | None
) -> None:
    assert (await examined(tmp_path, servers)).get("MCP servers") == found


def test_servers_without_the_package_for_them_are_told_of() -> None:
    found = check_servers(parse_servers({"a": {"url": "http://127.0.0.1:9/"}}), has_sdk=False)
    assert found.advice == "Run: python main.py add mcp"
