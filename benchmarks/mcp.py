"""The cost of many MCP servers: tokens of each request, and time of the start.

`python -m benchmarks.mcp` runs a whole bot without servers, and with 20 servers of 10 tools each.
It prints the tokens before the conversation by the bot's own meter, the tokens of the same tools
with their schemas in the request, the time from a process's start to its first answer, and the time
of the first search, which starts all 20.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory.keys import ConversationKey
from plugins.mcp.catalogue import ListedTool
from plugins.mcp.servers import Servers
from tests.fakes.openai_server import OpenAIServer
from tests.mcp.testbot import HOSTILE, running_programs, script
from tests.whole.process import AFRESH, talking
from tests.whole.testbot import run_bot

KEY = ConversationKey("pipe/main", "pipe-main")
NAMES = ("github", "linear", "notion", "slack", "gmail", "calendar", "drive", "jira", "sentry")
ABOUT = ("code and issues", "tickets of the team", "notes and pages", "messages", "", "", "", "")


def servers(folder: Path, count: int) -> dict[str, Any]:
    """Return the settings of a bot with that many servers."""
    made = {}
    for number in range(count):
        name = NAMES[number] if number < len(NAMES) else f"server-{number}"
        about = ABOUT[number % len(ABOUT)]
        made[name] = {
            "command": sys.executable,
            "args": [str(HOSTILE), str(folder), "ten"],
            "about": about,
            "approve": "never",
        }
    return {"mcp": {"servers": made}} if made else {}


async def weigh(folder: Path, strategy: str, count: int) -> dict[str, float]:
    """Return the tokens before a fresh conversation, and those of all schemas."""
    settings = servers(folder, count) | {"context": {"strategy": strategy}}
    async with run_bot(folder, script, settings) as bot:
        await bot.says("Hello")
        meter = bot.app.conversations.services.meter
        prefix = meter.prefix(bot.app.config.prefix(KEY))
        sent = bot.server.requests[-1].body
        found = {"prompt": prefix.system, "tools": prefix.tools, "started": float(alive(folder))}
        begun = time.perf_counter()
        if count:
            await bot.says('call tool_search {"query": "create an issue"}')
            found["first search"] = time.perf_counter() - begun
            begun = time.perf_counter()
            await bot.says('call tool_search {"query": "create an issue"}')
            found["next search"] = time.perf_counter() - begun
            after = bot.server.requests[-1].body
            assert after["tools"] == sent["tools"]
            assert after["messages"][0] == sent["messages"][0]
            found["schemas"] = await schemas(bot.app.features.service(Servers), meter.count)
    return found


def alive(folder: Path) -> int:
    return len(running_programs(HOSTILE, folder))


async def schemas(known: Any, count: Any) -> float:
    """Return the tokens of all tools, if each request included them."""
    total = 0
    for name, tools in (await known.known()).items():
        for one in tools.values():
            tool = known.make_tool(known.all[name], ListedTool.from_json(one.tool, one.listed))
            total += count(json.dumps(tool.to_wire(), ensure_ascii=False))
    return float(total)


async def start(folder: Path, settings: Mapping[str, Any]) -> float:
    """Return the seconds from a process's start to its first answer."""
    async with OpenAIServer(script) as endpoint:
        begun = time.perf_counter()
        async with talking(folder, endpoint, settings, shell=AFRESH) as bot:
            await bot.says("Hello")
            took = time.perf_counter() - begun
            await bot.ended()
    return took


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=7, help="of each kind, in turns")
    arguments = parser.parse_args()
    for strategy in ("trim", "slim"):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            none = await weigh(Path(one), strategy, 0)
            many = await weigh(Path(other), strategy, 20)
        before, after = none["prompt"] + none["tools"], many["prompt"] + many["tools"]
        print(f"{strategy}: {before:.0f} tokens without, {after:.0f} with 20 servers of 10 tools,")
        print(f"  {after - before:.0f} more; their schemas would be {many['schemas']:.0f}.")
        print(f"  Processes before the first search: {many['started']:.0f}.")
        print(
            f"  First search, which starts all: {many['first search']:.1f} s; "
            f"the next: {many['next search']:.3f} s."
        )
    times: dict[int, list[float]] = {0: [], 20: []}
    for _ in range(arguments.starts):
        for count, taken in times.items():
            with tempfile.TemporaryDirectory() as folder:
                taken.append(await start(Path(folder), servers(Path(folder), count)))
    for count, taken in times.items():
        print(
            f"start to first answer, {count} servers: {statistics.median(taken):.2f} s "
            f"({min(taken):.2f} to {max(taken):.2f})"
        )


if __name__ == "__main__":
    asyncio.run(main())
