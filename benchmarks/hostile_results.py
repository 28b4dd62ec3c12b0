"""The cost of the results of MCP servers: the CPU of reading their bytes in the event loop, and,
for the whole bot, the CPU from a call to the answer and the time for which the loop was blocked.

The whole bot is measured with the model and the HTTP servers in the same process, so their work
counts, too.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from mcp_types.jsonrpc import JSONRPCRequest

from benchmarks.hostile_requests import SHAPES, SIZES, ReadCost, cpu
from benchmarks.loop_held import watched
from plugins.mcp.messages import ServerAnswers, StreamLines, encode
from tests.mcp.fakes.http_server import McpHttpServer
from tests.mcp.testbot import HOSTILE, script, with_servers
from tests.whole.testbot import run_bot

MEGABYTE = 1_000_000
MOST = 0.8
"""Seconds of CPU from the call to the model's answer, for a result of a megabyte."""
_PIECE = 65_536  # bytes that arrive at a time
_HEAD = b'{"jsonrpc":"2.0","id":1,'


# --- the reading of the bytes --------------------------------------------------------------------


def _places() -> Iterator[bytes]:
    """Yield the places in a server's message in which a value can be."""
    yield b"%s\n"
    yield b'{"jsonrpc":"2.0","method":"notifications/message","params":%s}\n'
    yield _HEAD + b'"error":{"code":1,"message":"a","data":%s}}\n'
    yield _HEAD + b'"result":{"content":[{"type":"text","text":%s}]}}\n'
    for name in (b"content", b"structuredContent", b"contents", b"resources", b"tools", b"_meta"):
        yield _HEAD + b'"result":{"' + name + b'":%s}}\n'


def _read(content: bytes) -> None:
    answers, lines = ServerAnswers(), StreamLines()
    answers.sent(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/call"))
    for at in range(0, len(content), _PIECE):
        for line, is_whole in lines.feed(content[at : at + _PIECE]):
            encode(answers.read(line) if is_whole else answers.read_begin(line))


def messages(sizes: tuple[int, ...] = SIZES) -> Iterator[ReadCost]:
    """Yield the worst input of each size."""
    for size in sizes:
        costs = [
            ReadCost("bytes of a server", size, f"{shape} in {place.decode()}", cpu(_read, content))
            for shape, make in SHAPES.items()
            for place in _places()
            for content in [place.replace(b"%s", make(size))]
        ]
        yield max(costs, key=lambda cost: cost.seconds)


# --- the whole bot --------------------------------------------------------------------------------


def _listed(size: int) -> str:
    rows = [{"id": number, "price": number * 1.5, "name": "a"} for number in range(size // 40)]
    return json.dumps(rows)[:size]


def _drawn(signs: str, size: int) -> str:
    return "".join(random.Random(7).choices(signs, k=size))


TEXTS: Mapping[str, Callable[[int], str]] = {
    "one word": lambda size: "x" * size,
    "words": lambda size: ("what we said about the plan, " * (size // 29 + 1))[:size],
    "lines": lambda size: "a\n" * (size // 2),
    "JSON": _listed,
    "base64": partial(_drawn, "ABCDEFGHabcdefgh01234567+/"),
    "Chinese": lambda size: _drawn("明天中午一点的会议在哪里我们说过", size // 3),
}
"""Texts of about so many bytes, by name."""
WAYS = ("stdio", "http", "events", "sse")
"""The transports of a server: `events` is HTTP with the answer as an event."""


@dataclass(frozen=True, slots=True)
class ResultCost:
    """Seconds of CPU and of time from the call to the answer, and the longest block of the loop."""

    way: str
    text: str
    cpu: float
    seconds: float
    held: float

    @property
    def is_well(self) -> bool:
        return self.cpu <= MOST


async def results(
    ways: Collection[str] = WAYS, texts: Collection[str] = tuple(TEXTS)
) -> list[ResultCost]:
    """Measure the cost of a result of a megabyte, for each transport and text."""
    return [await _measured(way, text) for way in ways for text in texts]


async def _measured(way: str, text: str) -> ResultCost:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            _server(way, TEXTS[text](MEGABYTE), folder) as server,
            run_bot(folder, script, with_servers(a=server | {"approve": "never"})) as bot,
            watched() as watch,
        ):
            await bot.says('call tool_search {"query": "act"}')  # starts the server
            gc.freeze()  # as main.py does
            await watch.worst()
            begin, cpu_begin = time.perf_counter(), time.process_time()
            await bot.says("use a__act")
            spent, seconds = time.process_time() - cpu_begin, time.perf_counter() - begin
            shown = sum(len(str(one["content"])) for one in bot.sent_to_model())
            assert shown > 10_000, "the result has arrived"
            return ResultCost(way, text, spent, seconds, await watch.worst())


@asynccontextmanager
async def _server(way: str, text: str, folder: Path) -> AsyncGenerator[dict[str, Any], None]:
    """Yield the settings of a server that answers with this text."""
    if way == "stdio":
        (folder / "text").write_text(text, encoding="utf-8")
        yield {"command": sys.executable, "args": [str(HOSTILE), str(folder), "told"]}
        return
    async with McpHttpServer("sse" if way == "sse" else "http", is_json=way != "events") as server:
        server.text = text
        yield {"url": server.url}


def main() -> int:
    found = asyncio.run(results())
    for one in found:
        print(
            f"{one.way:7} {one.text:9} {one.cpu:.2f} s of CPU, {one.seconds:.2f} s, "
            f"held for {one.held * 1e3:.0f} ms"
        )
    return int(not all(one.is_well for one in found))


if __name__ == "__main__":
    sys.exit(main())
