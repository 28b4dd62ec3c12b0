"""The behaviour of a bot whose model endpoint is hostile: it answers endlessly, compressed, in one
line, with tens of thousands of calls, with an empty answer, or with another address.

python -m benchmarks.hostile_endpoint

The bot is a process under limits: 1 GB of address space, few files, small files. The endpoint is a
server on this machine that speaks HTTP as far as its family allows. After its first answer it
behaves correctly, which shows whether the bot is still alive.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any, Self

from tests.whole.process import BotProcess, talking

LIMITS = 'ulimit -v 1048576; ulimit -n 256; ulimit -f 262144; ulimit -c 0; exec "$@"'
"""1 GB of memory, 256 descriptors, files of at most 128 MB, no core."""
SETTINGS: Mapping[str, Any] = {"request_timeout": 1, "turn_timeout": 60, "agent_max_steps": 3}
MOST_SENT = 5_000_000_000
"""Bytes after which a so-called endless stream ends."""

Body = Iterator[bytes]


@dataclass(frozen=True)
class Family:
    """A kind of attack: the beginning of an answer, and its continuation; `pause` is in seconds
    between two pieces. Each piece is sent as a chunk of HTTP's chunked encoding."""

    name: str
    body: Callable[[], Body]
    content_type: str = "text/event-stream"
    status: str = "200 OK"
    headers: str = ""
    pause: float = 0.0
    is_listing: bool = False
    """The flag of a family whose list of models is hostile."""
    is_bare: bool = False
    """The flag of a family whose pieces are sent unchanged, without a head."""


def _event(delta: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def _then(start: bytes, piece: bytes) -> Callable[[], Body]:
    """Return a body that yields a beginning, and then one piece endlessly."""

    def body() -> Body:
        yield start
        yield from repeat(piece)

    return body


def _bomb() -> Body:
    """Return a gigabyte of blanks compressed to a megabyte."""
    yield gzip.compress(b'{"choices": [')  # sent at once: compressing the rest takes a while
    yield from repeat(gzip.compress(b" " * 64_000_000), 16)


CALLS = 40_000


def _call(number: int) -> dict[str, Any]:
    arguments = json.dumps({"expression": f"{number}+1"})
    function = {"name": "calculate", "arguments": arguments}
    return {"index": number, "id": f"c{number}", "type": "function", "function": function}


def _streamed_calls() -> Body:
    yield from (_event({"tool_calls": [_call(number)]}) for number in range(CALLS))
    yield b"data: [DONE]\n\n"


def _calls_at_once() -> Body:
    message = {"role": "assistant", "tool_calls": [_call(number) for number in range(CALLS // 2)]}
    yield json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()


SAID = _event({"content": "As far as I know. "})
_BIG = b"a" * 65_536
JSON = "application/json"

FAMILIES = (
    Family("one huge JSON", _then(b'{"choices": [{"message": {"content": "', _BIG), JSON),
    Family("gzip bomb", _bomb, JSON, headers="Content-Encoding: gzip\r\n"),
    Family("no newline", _then(b'data: {"choices": [{"delta": {"content": "', _BIG)),
    Family("words, then no newline", _then(SAID + b'data: {"a": "', _BIG)),
    Family("endless words", _then(b"", SAID * 500)),
    Family("endless reasoning", _then(b"", _event({"reasoning_content": "Hm. " * 50}) * 200)),
    Family("endless empty deltas", _then(b"", _event({"content": ""}) * 500)),
    Family("an endless event", _then(b"", b"data: 1\n" * 5_000)),
    Family("a deep nest", lambda: iter((b"data: " + b"[" * 500_000 + b"\\ud800\n\n",))),
    Family("many small values", lambda: iter((b"data: [" + b"[]," * 1_300_000 + b"0]\n\n",))),
    Family("40,000 calls", _streamed_calls),
    Family("20,000 calls at once", _calls_at_once, JSON),
    Family(
        "endless arguments",
        _then(
            _event({"tool_calls": [_call(0)]}),
            _event({"tool_calls": [{"index": 0, "function": {"arguments": "1" * 200}}]}) * 200,
        ),
    ),
    Family("comments for ever", _then(b"", b": still here\n\n"), pause=0.05),
    Family("words, then comments", _then(SAID, b": still here\n\n"), pause=0.05),
    Family("blanks for ever", _then(b"", b" "), JSON, pause=0.05),
    Family(
        "100 Continue for ever",
        _then(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
        pause=0.05,
        is_bare=True,
    ),
    Family("an endless error", _then(b'{"error": {"message": "', _BIG), JSON, "400 Bad Request"),
    Family(
        "an error in punycode",
        lambda: iter((b"a-" + b"b" * 3_000_000,)),
        "text/plain; charset=punycode",
        "400 Bad Request",
    ),
    Family(
        "an endless list of models",
        _then(b'{"data": [', b'{"id": "a"},' * 5_000),
        JSON,
        is_listing=True,
    ),
    Family("redirect elsewhere", lambda: iter(()), JSON, "307 Temporary Redirect"),
    Family("redirect for good", lambda: iter(()), JSON, "308 Permanent Redirect"),
    Family(
        "redirect of the list", lambda: iter(()), JSON, "307 Temporary Redirect", is_listing=True
    ),
)


class HostileEndpoint:
    """A server on the loopback interface whose first answer is of a family; all others are "Fine.".
    `sent` counts the bytes of it that were read; `elsewhere` are the requests that reached the
    redirect target."""

    def __init__(self, family: Family) -> None:
        self._family = family
        self._is_spent = False
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.base_url = ""
        self.sent = 0
        self.elsewhere: list[bytes] = []

    async def __aenter__(self) -> Self:
        for serve in (self._overhear, self._answer):
            self._servers.append(await asyncio.start_server(self._kept(serve), "127.0.0.1", 0))
        other, own = (server.sockets[0].getsockname()[1] for server in self._servers)
        self._other = f"http://127.0.0.1:{other}/v1/chat/completions"
        self.base_url = f"http://127.0.0.1:{own}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        for server in self._servers:
            server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _kept(self, serve: Callable[..., Any]) -> Callable[..., None]:
        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._served(serve, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return connected

    async def _served(
        self,
        serve: Callable[..., Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            # uvloop raises a RuntimeError for writes to a closed connection.
            with suppress(ConnectionError, RuntimeError, asyncio.IncompleteReadError):
                await serve(await _request(reader), writer)
        finally:  # also if the server is closed in the middle of an answer
            writer.close()

    async def _overhear(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        self.elsewhere.append(request)
        await _say_fine(writer)

    async def _answer(self, request: bytes, writer: asyncio.StreamWriter) -> None:
        is_listing = request.startswith(b"GET ")
        if self._is_spent or is_listing != self._family.is_listing:
            await (_list(writer) if is_listing else _say_fine(writer))
            return
        # A retry after a broken answer gets the same answer.
        self._is_spent = b"and now?" in request
        if self._is_spent:
            await _say_fine(writer)
            return
        await self._harm(writer)

    async def _harm(self, writer: asyncio.StreamWriter) -> None:
        family = self._family
        if not family.is_bare:
            more = family.headers + self._location()
            writer.write(_head(family.status, family.content_type, more))
        for piece in family.body():
            if piece:
                writer.write(piece if family.is_bare else b"%x\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                self.sent += len(piece)
            await asyncio.sleep(family.pause)
            if self.sent > MOST_SENT:
                break
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    def _location(self) -> str:
        is_redirect = self._family.status.startswith("30")
        return f"Location: {self._other}\r\n" if is_redirect else ""


def _head(status: str, content_type: str, more: str = "") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n"
        f"Connection: close\r\n{more}\r\n"
    ).encode()


async def _request(reader: asyncio.StreamReader) -> bytes:
    """Return head and body of a request."""
    head = await reader.readuntil(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(lengths[0].partition(b":")[2]) if lengths else 0
    return head + await reader.readexactly(size)


async def _say_fine(writer: asyncio.StreamWriter) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Fine."}, "finish_reason": "stop"}]}
    body = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
    writer.write(
        _head("200 OK", "text/event-stream") + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    )
    await writer.drain()


async def _list(writer: asyncio.StreamWriter) -> None:
    body = json.dumps({"data": [{"id": "some-model"}]}).encode()
    writer.write(_head("200 OK", JSON) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body))
    await writer.drain()


# --- the bot in front of it ---


@dataclass(frozen=True)
class Row:
    """The result of a family: the reply to the person, the seconds it took, the bot's peak memory
    in MB, the bytes sent to it, the number of redirected requests, and the answer to the next
    question."""

    family: str
    heard: str
    seconds: float
    peak: int
    sent: int
    elsewhere: int
    after: str


async def tried(family: Family, folder: Path) -> Row:
    """Run a bot on an empty folder against a family. Raises AssertionError if the bot dies."""
    async with HostileEndpoint(family) as endpoint:
        settings = {**SETTINGS, **({"model": "auto"} if family.is_listing else {})}
        async with talking(folder, endpoint, settings, shell=LIMITS) as bot:
            started = time.perf_counter()
            heard = (await bot.says("Hello?"))["text"]
            seconds = time.perf_counter() - started
            after = (await bot.says("and now?"))["text"]
            peak = _peak(bot)
        sent, elsewhere = endpoint.sent // 1_000_000, len(endpoint.elsewhere)
    return Row(family.name, heard, seconds, peak, sent, elsewhere, after)


async def rows(families: tuple[Family, ...] = FAMILIES) -> AsyncIterator[Row]:
    """Yield a row for each family, one after the other, each with its own bot."""
    for family in families:
        with tempfile.TemporaryDirectory() as folder:
            yield await tried(family, Path(folder))


def _peak(bot: BotProcess) -> int:
    """Return the bot's peak memory, in MB."""
    status = Path(f"/proc/{bot.process.pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) // 1024


HEADER = "| family | the person heard | s | peak MB | MB sent |\n|---|---|---|---|---|"


def shown(row: Row) -> str:
    """Return a row of the table."""
    text = " ".join(row.heard.split())
    short = text if len(text) <= 140 else f"{text[:60]}… ({len(text):,}) …{text[-70:]}"
    return f"| {row.family} | {short} | {row.seconds:.1f} | {row.peak} | {row.sent} |"


async def _print(named: list[str]) -> None:
    print(HEADER)
    chosen = tuple(family for family in FAMILIES if not named or family.name in named)
    async for row in rows(chosen):
        print(shown(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="A bot whose model wants to harm.")
    parser.add_argument("family", nargs="*", help="those to try; all, where none is named")
    asyncio.run(_print(parser.parse_args().family))


if __name__ == "__main__":
    main()
