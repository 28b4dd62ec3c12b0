"""The time that the web channel adds to a message, and how many chats it serves at once.

python -m benchmarks.channels

The bot runs as in production, `python main.py --web`, in its own process; the model runs in another
process and answers at once. The client keeps its connection, as browsers and SDKs do. The floor is
that of `overhead.py`: a commit and a bare request to the same model, measured in the same run.

The first token is timed from the model's write to the client's read. Model and client are in this
process for that, with the bot between them.
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
from aiohttp import web

from benchmarks import figures
from benchmarks.overhead import BOT, MODEL, QUESTION, Setup, cpu_of, floor, running

WARM = 30
"""First messages of a process, which load slow imports; they are not measured."""
BUSY = 10
"""Messages of each chat when many chats are active at once."""
STREAM = {"Accept": "text/event-stream"}
TOKENS = 100
"""First tokens that are timed."""
REST = 0.02
"""Seconds of silence of the model after the first token."""


@contextmanager
def serving(folder: Path, model: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """Run a web server of the bot; yield its address and its process."""
    folder.mkdir(exist_ok=True)
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
        """Send a message and return its answer as JSON."""
        url = f"{self._root}/api/sessions/{chat}/messages"
        async with self._http.post(url, json={"text": text}) as response:
            answer: dict[str, Any] = await response.json()
            assert answer.get("turn"), answer
            return answer

    async def stream(self, chat: str) -> bytes:
        """Send a message and return its answer as an event stream."""
        url = f"{self._root}/api/sessions/{chat}/messages"
        async with self._http.post(url, json={"text": QUESTION}, headers=STREAM) as response:
            return await response.read()

    async def first_token(self, chat: str) -> float:
        """Return the time at which the first token of an answer arrives, by this process's
        clock."""
        url = f"{self._root}/api/sessions/{chat}/messages"
        async with self._http.post(url, json={"text": QUESTION}, headers=STREAM) as response:
            read = b""
            while b"event: delta" not in read:
                read += await response.content.readany()
            here = time.perf_counter()
            await response.read()
        return here

    async def complete(self, chat: str) -> bytes:
        """Send a message and return its answer in OpenAI's protocol."""
        body = {"messages": [{"role": "user", "content": QUESTION}], "user": chat}
        async with self._http.post(f"{self._root}/v1/chat/completions", json=body) as response:
            return await response.read()

    async def command(self, chat: str) -> bytes:
        """Return the data of the page's right column."""
        async with self._http.get(f"{self._root}/api/sessions/{chat}/context") as response:
            return await response.read()

    async def said(self, chat: str) -> list[str]:
        """Return the questions of a chat, in the order of its transcript."""
        async with self._http.get(f"{self._root}/api/sessions/{chat}/messages") as response:
            messages = (await response.json())["messages"]
        return [message["text"] for message in messages if message["role"] == "user"]


@asynccontextmanager
async def client(url: str) -> AsyncIterator[Client]:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:
        yield Client(url, http)


async def timed(ask: Any, chat: str, count: int) -> list[float]:
    """Return the milliseconds from request to last byte of sequential requests."""
    samples = []
    for _ in range(count):
        start = time.perf_counter()
        await ask(chat)
        samples.append((time.perf_counter() - start) * 1e3)
    return samples


async def crowd(bot: Client, chats: int) -> float:
    """Return the messages per second of many simultaneous chats; each must keep its order."""

    async def chat(name: str) -> None:
        for number in range(BUSY):
            await bot.ask(name, f"{name}, message {number}")
        assert await bot.said(name) == [f"{name}, message {number}" for number in range(BUSY)]

    start = time.perf_counter()
    await asyncio.gather(*(chat(f"crowd{number}") for number in range(chats)))
    return chats * BUSY / (time.perf_counter() - start)


class SlowModel:
    """A model that sends one token, pauses, and sends another."""

    def __init__(self) -> None:
        self.begun = 0.0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await asyncio.sleep(REST)  # the client reads the headers first
        self.begun = time.perf_counter()
        await response.write(_chunk({"content": "One"}))
        await asyncio.sleep(REST)
        await response.write(_chunk({"content": ", two."}, "stop") + b"data: [DONE]\n\n")
        return response


def _chunk(delta: dict[str, str], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m"}
    return b"data: " + json.dumps(chunk | {"choices": [choice]}).encode() + b"\n\n"


async def first_tokens(folder: Path) -> list[float]:
    """Return the milliseconds from the model's write to the client's read of the first token."""
    model, app = SlowModel(), web.Application()
    app.router.add_post("/v1/chat/completions", model.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    samples = []
    serve = serving(folder, f"http://{host}:{port}/v1")
    url, _ = await asyncio.to_thread(serve.__enter__)
    try:
        async with client(url) as bot:
            for number in range(WARM + TOKENS):
                here = await bot.first_token("first")
                if number >= WARM:
                    samples.append((here - model.begun) * 1e3)
    finally:
        serve.__exit__(None, None, None)
        await runner.cleanup()
    return samples


def line(what: str, samples: Sequence[float], least: float, target: str = "") -> str:
    middle, slow = median(samples), quantiles(samples, n=20)[-1]
    return f"{what:42}{middle:8.1f} ms{slow:10.1f} ms{target:>9}{middle / least:>9.1f}"


async def measure(
    url: str, process: subprocess.Popen[bytes], least: float, wanted: argparse.Namespace
) -> dict[str, float]:
    """Print the table; return the figures that are compared with earlier runs."""
    print(f"{'':42}{'median':>11}{'19 of 20':>13}{'at most':>9}{'x floor':>9}")
    print(f"{'the floor':42}{least:8.1f} ms")
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
        least = floor(Setup(Path(folder), address)).latency
        with serving(Path(folder), address) as (url, process):
            measured = asyncio.run(measure(url, process, least, wanted))
        tokens = asyncio.run(first_tokens(Path(folder) / "first"))
        print(line("first token, from the model to the client", tokens, least, "1 ms"))
    measured["first token"] = median(tokens) / least
    figures.conclude("web", measured, is_kept=wanted.write)


if __name__ == "__main__":
    main()
