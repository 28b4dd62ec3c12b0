"""A bot with MCP servers, and a model that follows the commands in a message."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot

NOTES = Path(__file__).parent / "fakes" / "notes_server.py"
HOSTILE = Path(__file__).parent / "fakes" / "hostile_server.py"


def notes(folder: Path, **more: Any) -> dict[str, Any]:
    """Return the settings of `fakes/notes_server.py`, without approvals by default."""
    return {"command": sys.executable, "args": [str(NOTES), str(folder)], "approve": "never"} | more


def with_servers(**servers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a bot with these servers."""
    return {"mcp": {"servers": servers}}


def script(request: Received) -> Answer:
    """Make the calls that a message names: "call TOOL JSON", or "use TOOL JSON" by use_tool."""
    last = request.body["messages"][-1]
    found = re.search(r"(call|use) (\S+) ?(.*)", str(last["content"]), re.DOTALL)
    if last["role"] == "tool" or not found:
        return Say("Done.")
    name, arguments = found[2], found[3] or "{}"
    if found[1] == "use":
        arguments = json.dumps({"name": name, "arguments": json.loads(arguments)})
        name = "use_tool"
    return Say(calls=(Call(name, arguments, "c"),))


def last_result(bot: TestBot) -> str:
    """Return the result of the model's last call."""
    found = [one for one in bot.sent_to_model() if one["role"] == "tool"]
    return str(found[-1]["content"])


def calls_in(folder: Path) -> list[str]:
    """Return the calls that the server has received."""
    file = folder / "calls"
    return file.read_text().splitlines() if file.exists() else []


def running_programs(program: Path, folder: Path) -> list[str]:
    """Return the processes that run a program on a folder."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            line = (place / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(program) in line and str(folder) in line and place.name != str(os.getpid()):
            found.append(line)
    return found
