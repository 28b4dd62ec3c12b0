"""What the web channel adds to a message, and how many chats it serves at once.

python -m benchmarks.channels

The bot runs as a person runs it, `python main.py --web`, in a process of its own, with a model in
another that answers at once. The client keeps its connection, as browsers and SDKs do. The floor is
that of `overhead.py`: a commit and a bare request to the same model, measured in the same run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp

from benchmarks import figures
from benchmarks.overhead import BOT, MODEL, QUESTION, House, cpu_of, floor, running

WARM = 30
"""First messages of a process, which load what is slow to import; they are not measured."""
BUSY = 10
"""Messages of each chat where many talk at once."""
STREAM = {"Accept": "text/event-stream"}


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A bot that serves; its address, and its process."""
    config = folder / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", "web": {"port": 0}}))
    command = (*BOT, "--web", "--config", str(config), "--data", str(folder / "data"))
    environ = {**os.environ, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "none"}
    with running(command, env=environ) as process:
        assert process.stdout is not None
        found = re.search(rb"http://\S+", process.stdout.readline())
        assert found, "the bot did not say where it is"
        yield found[0].decode(), process


class Client:
    """Talks to the bot over HTTP."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self._root, self._http = url, http

    async def ask(self, chat: str, text: str = QUESTION) -> dict[str, Any]:
        """A message and its answer, as JSON."""
        url = f"{self._root}/api/sessions/{chat}/messages"
        async with self._http.post(url, json={"text": text}) as response:
            answer: dict[str, Any] = await response.json()
            assert answer.get("turn"), answer
            return answer

    async def stream(self, chat: str) -> bytes:
        """A message and its answer, as an event stream."""
        url = f"{self._root}/api/sessions/{chat}/messages"
        async with self._http.post(url, json={"text": QUESTION}, headers=STREAM) as response:
            return await response.read()

    async def complete(self, chat: str) -> bytes:
        """The same in OpenAI's protocol."""
        body = {"messages": [{"role": "user", "content": QUESTION}], "user": chat}
        async with self._http.post(f"{self._root}/v1/chat/completions", json=body) as response:
            return await response.read()

    async def command(self, chat: str) -> bytes:
        """What the page's right column asks for."""
        async with self._http.get(f"{self._root}/api/sessions/{chat}/context") as response:
            return await response.read()

    async def said(self, chat: str) -> list[str]:
        """What was asked in a chat, in the order of its transcript."""
        async with self._http.get(f"{self._root}/api/sessions/{chat}/messages") as response:
            messages = (await response.json())["messages"]
        return [message["text"] for message in messages if message["role"] == "user"]


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        yield Client(url, http)


async def timed(ask: Any, chat: str, count: int) -> list[float]:
    """Milliseconds from the request to its last byte, one after the other."""
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        await ask(chat)
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


async def crowd(bot: Client, chats: int) -> float:
    """Messages per second where many chats talk at once; each must find its own in order."""

    async def chat(name: str) -> None:
        for number in range(BUSY):
            await bot.ask(name, f"{name}, message {number}")
        assert await bot.said(name) == [f"{name}, message {number}" for number in range(BUSY)]

    start = time.perf_counter()
    await asyncio.gather(*(chat(f"crowd{number}") for number in range(chats)))
    return chats * BUSY / (time.perf_counter() - start)


def line(what: str, samples: Sequence[float], least: float, target: str = "") -> str:
    middle, slow = median(samples), quantiles(samples, n=20)[-1]
    return f"{what:40}{middle:8.1f} ms{slow:10.1f} ms{target:>9}{middle / least:>9.1f}"


async def measure(
    url: str, process: subprocess.Popen[bytes], least: float, wanted: argparse.Namespace
) -> dict[str, float]:
    """Prints the table; returns what is compared with earlier runs."""
    print(f"{'':40}{'median':>11}{'19 of 20':>13}{'at most':>9}{'x floor':>9}")
    print(f"{'the floor':40}{least:8.1f} ms")
    async with client(url) as bot:
        await timed(bot.ask, "warm", WARM)
        asked = await timed(bot.ask, "one", wanted.messages)
        print(line("POST to last byte, JSON", asked, least, "4 ms"))
        streamed = await timed(bot.stream, "two", wanted.messages)
        print(line("POST to last byte, event stream", streamed, least, "4 ms"))
        completed = await timed(bot.complete, "three", wanted.messages)
        print(line("POST to last byte, chat/completions", completed, least, "4 ms"))
        shown = await timed(bot.command, "one", 50)
        print(line("the context, turns and settings", shown, least, "3 ms"))
        before = cpu_of(process)
        rate = await crowd(bot, wanted.chats)
        cpu = (cpu_of(process) - before) / (wanted.chats * BUSY)
        what = f"{wanted.chats} chats at once, each in order"
        print(f"{what}: {rate:.0f} messages/s, {cpu:.1f} ms CPU each")
    samples = {"JSON": asked, "event stream": streamed, "chat/completions": completed}
    samples["context"] = shown
    return {what: median(times) / least for what, times in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=200)
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="for the database; where files are temporary")
    parser.add_argument("--write", action="store_true", help="keep these figures")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=wanted.folder) as folder, running(MODEL) as model:
        assert model.stdout is not None
        address = model.stdout.readline().decode().strip()
        least = floor(House(Path(folder), address)).latency
        with serving(Path(folder), address) as (url, process):
            measured = asyncio.run(measure(url, process, least, wanted))
    figures.conclude("web", measured, is_kept=wanted.write)


if __name__ == "__main__":
    main()
