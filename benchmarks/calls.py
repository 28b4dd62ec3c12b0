"""The number of calls of our own code for one user action, and the size of that code.

python -m benchmarks.calls

The benchmark counts calls of functions of the product (main.py and its packages) in all threads,
from the submission of a message until the bot is idle. Calls by which the benchmark itself waits
for idleness are not counted. The bot is a complete one with a scripted endpoint on this machine;
each action is done several times before it is counted, so that no module is loaded during the
measurement. CPython 3.11 or newer.
"""

from __future__ import annotations

import ast
import asyncio
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Bot
from channels.message import Address, Inbound, Outbound
from tests.fakes.openai_server import Call, OpenAIServer, Received, Say

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("main.py", "bot", "plugins", "agent", "channels", "memory")
WARM = 6
"""Times that each action is done before it is counted."""


class Calls:
    """Counts calls while it `is_on`."""

    def __init__(self) -> None:
        self.is_on = False
        self.counts = Counter[CodeType]()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        del arg
        if self.is_on and event == "call" and not (_goes_on(frame) or _waits(frame)):
            self.counts[frame.f_code] += 1

    def ours(self) -> tuple[int, int, int]:
        """Return the numbers of calls of named functions, of all calls, and of files."""
        mine = {code: count for code, count in self.counts.items() if _layer(code.co_filename)}
        named = sum(count for code, count in mine.items() if not code.co_name.startswith("<"))
        return named, sum(mine.values()), len({code.co_filename for code in mine})


def _goes_on(frame: FrameType) -> bool:
    """Return True if a generator or coroutine is resumed, which is not a call: the argument of the
    instruction at which it is entered (RESUME) shows this."""
    return frame.f_code.co_code[frame.f_lasti + 1] != 0


def _waits(frame: FrameType | None) -> bool:
    """Return True for the calls by which the benchmark itself waits until the bot is idle."""
    while frame is not None and frame.f_code is not App.idle.__code__:
        frame = frame.f_back
    return frame is not None


def _layer(file: str) -> str:
    path = Path(file)
    if not path.is_relative_to(ROOT):
        return ""
    first = path.relative_to(ROOT).parts[0]
    return first if first in LAYERS else ""


class TestChannel:
    """A channel that passes messages to the bot and awaits the messages that the bot sends."""

    name = "pipe"

    def __init__(self) -> None:
        self._bot: asyncio.Future[Bot] = asyncio.get_running_loop().create_future()
        self._leaving = asyncio.Event()
        self._replies: dict[str, asyncio.Future[Outbound]] = {}
        self._count = 0

    async def listen(self, bot: Bot) -> None:
        self._bot.set_result(bot)
        await self._leaving.wait()

    async def send(self, outbound: Outbound) -> None:
        if outbound.reply_to in self._replies:
            self._replies.pop(outbound.reply_to).set_result(outbound)

    def leave(self) -> None:
        self._leaving.set()

    async def says(self, text: str, chat: str) -> None:
        self._count += 1
        message = f"m{self._count}"
        reply = self._replies[message] = asyncio.get_running_loop().create_future()
        bot = await self._bot
        await bot.submit(Inbound(message, Address(self.name, chat), text))
        await reply


def _answer(request: Received) -> Say:
    """Answer with a tool call if the last question requests one, and otherwise with a text."""
    said = request.body["messages"][-1]
    if said["role"] == "user" and str(said["content"]).endswith("Calculate."):
        return Say(calls=(Call("calculate", '{"expression": "17 * 4"}', "call_1"),))
    return Say("The quick brown fox jumps over the lazy dog. " * 5)


@asynccontextmanager
async def run_bot(folder: Path) -> AsyncIterator[tuple[TestChannel, Callable[[], Awaitable[None]]]]:
    """Run a bot; yield its channel, and a function that waits until the bot is idle."""
    config = folder / "config.json"
    config.write_text('{"model": "gpt-4o-mini"}')
    async with OpenAIServer(_answer) as endpoint:
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "none"}
        channel = TestChannel()
        app = await assemble(load_layers(config, environ), folder / "data", [channel])
        running = asyncio.create_task(app.run())
        try:
            yield channel, app.idle
        finally:
            channel.leave()
            await running


async def measured(calls: Calls, folder: Path) -> list[tuple[str, tuple[int, int, int]]]:
    """Measure the calls of each action."""
    rows = []
    async with run_bot(folder) as (channel, idle):

        async def count(what: str, text: str, chat: str) -> None:
            calls.counts.clear()
            calls.is_on = True
            await channel.says(text, chat)
            await idle()
            calls.is_on = False
            rows.append((what, calls.ours()))

        for what, text in {
            "a plain message": "What did we say about the plan?",
            "a message and one tool": "What is seventeen times four? Calculate.",
            "/context": "/context",
            "/config": "/config agent_max_context_turns",
        }.items():
            for _ in range(WARM):
                await channel.says("What did we say about the plan?", what)
                await channel.says(text, what)
                await idle()
            await count(what, text, what)
        for turn in range(2):
            for _ in range(WARM):
                await channel.says("What did we say about the plan?", f"compaction {turn}")
            await idle()
            if turn:
                await count("/context compact", "/context compact", f"compaction {turn}")
            else:
                await channel.says("/context compact", f"compaction {turn}")
    return rows


def sources() -> Iterator[tuple[str, str]]:
    """Yield the product's files, by name."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        if name.split("/")[0] in LAYERS:
            yield name, (ROOT / name).read_text()


def size() -> str:
    """Describe the lines, the files and the length of functions."""
    files = dict(sources())
    lengths = sorted(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for text in files.values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lines = sum(text.count("\n") for text in files.values())
    p50, p90 = lengths[len(lengths) // 2], lengths[len(lengths) * 9 // 10]
    return (
        f"{lines:,} lines in {len(files)} files; {len(lengths):,} functions, half of them of at "
        f"most {p50} lines, nine tenths of at most {p90}"
    )


def main() -> None:
    calls = Calls()
    threading.setprofile(calls)
    sys.setprofile(calls)
    with tempfile.TemporaryDirectory() as folder:
        rows = asyncio.run(measured(calls, Path(folder)))
    sys.setprofile(None)
    print(size())
    print(f"\n{'':28}{'named calls':>12}{'all calls':>12}{'files':>8}")
    for what, (named, everything, files) in rows:
        print(f"{what:28}{named:>12,}{everything:>12,}{files:>8}")


if __name__ == "__main__":
    main()
