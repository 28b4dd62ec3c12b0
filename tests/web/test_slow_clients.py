"""Slow clients: disconnected after a while, without an effect on others until then."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import channels.serving as serving_http
from channels.serving import TimeLimits
from tests.fakes.openai_server import OpenAIServer, Received, Say, echo
from tests.waiting import PATIENCE, until
from tests.web.site import serving
from tests.whole.process import talking

QUICK = TimeLimits(headers=0.1, body=0.1, slowest=10, reader=0.1)
POST = (
    b"POST /api/sessions/main/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n"
)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the server check for slow clients at every tick."""
    monkeypatch.setattr(serving_http, "_SWEEP", 1)


@asynccontextmanager
async def connected(
    url: str,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    try:
        async with asyncio.timeout(PATIENCE):
            yield reader, writer
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def trickled(url: str, beginning: bytes) -> bytes:
    """Return the response of the server to a client that sends one byte at a time, until it
    closes."""
    async with connected(url) as (reader, writer):
        writer.write(beginning)
        hearing = asyncio.create_task(reader.read())
        while not hearing.done():
            writer.write(b"x")
            await asyncio.wait((hearing,), timeout=0.01)
        return hearing.result()


async def test_slow_headers_are_waited_for_no_longer_than_is_said(tmp_path: Path) -> None:
    async with serving(tmp_path, patience=QUICK) as site:
        said = await trickled(site.url, b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        assert said.split()[1] == b"408"
        assert b"The request came in too slowly" in said
        async with connected(site.url) as (reader, _):  # not a single byte
            assert await reader.read() == b""


async def test_slow_headers_are_no_less_slow_after_a_request(tmp_path: Path) -> None:
    async with serving(tmp_path, patience=QUICK) as site:
        whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        said = await trickled(site.url, whole + b"GET /health HTTP/1.1\r\nX-Slow: ")
    assert said.count(b"HTTP/1.1 200") == 1
    assert said.count(b"HTTP/1.1 408") == 1


async def test_a_slow_body_is_waited_for_no_longer_than_is_said(tmp_path: Path) -> None:
    patience = TimeLimits(body=0.1, slowest=1_000_000)
    async with serving(tmp_path, patience=patience) as site:
        said = await trickled(site.url, POST + b'{"text": "')
    assert said.split()[1] == b"408"
    assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["message"].startswith(
        "The request came in too slowly"
    )


async def test_the_rest_of_a_body_that_nobody_wants_is_not_waited_for_either(
    tmp_path: Path,
) -> None:
    patience = TimeLimits(body=0.1, slowest=1_000_000)
    async with serving(tmp_path, patience=patience, token="a long random text") as site:
        said = await trickled(site.url, POST + b'{"text": "')
    assert said.split()[1] == b"401"


def test_a_body_that_keeps_coming_is_waited_for() -> None:
    patience = TimeLimits(headers=1, body=10, slowest=100)
    assert not serving_http._Waiting(0.0).is_over(1.0, patience)
    assert serving_http._Waiting(0.0).is_over(1.1, patience)
    for come, last in ((0, 10.0), (500, 15.0), (5_000, 60.0)):
        waiting = serving_http._Waiting(0.0, body=True, come=come)
        assert not waiting.is_over(last, patience)
        assert waiting.is_over(last + 0.1, patience)


async def test_who_does_not_read_an_answer_is_cut_off(tmp_path: Path) -> None:
    def script(request: Received) -> Say:
        del request
        return Say("long " * 20_000)

    async with serving(tmp_path, script, patience=QUICK) as site:
        await site.says("Go on.")
        place = urlsplit(site.url)
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            lazy.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(lazy, (place.hostname, place.port))
            asks = b"GET /api/sessions/main/messages HTTP/1.1\r\nHost: localhost\r\n\r\n"
            await loop.sock_sendall(lazy, asks * 40)
            await until(lambda: is_reset(lazy))


def is_reset(connection: socket.socket) -> bool:
    """Return whether the other side has closed the connection without reading the rest."""
    state = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return state == 7  # TCP_CLOSE


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("come_at_once", [False, True])
async def test_half_open_connections_keep_nobody_out(tmp_path: Path, come_at_once: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = {"web": {"port": port}, "channels": {"web": True}}
    url = f"http://127.0.0.1:{port}"
    limited = 'ulimit -n 256; exec "$@"'
    async with (
        OpenAIServer(echo) as endpoint,
        talking(tmp_path, endpoint, settings, shell=limited) as bot,
        AsyncExitStack() as stack,
    ):
        assert (await bot.says("one"))["text"] == "re: one"
        if come_at_once:  # as for a busy bot
            bot.process.send_signal(signal.SIGSTOP)
        for _ in range(600):
            _, writer = await stack.enter_async_context(connected(url))
            writer.write(b"GET /api/sessions HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        reader, writer = await stack.enter_async_context(connected(url))
        writer.write(b"GET /api/sessions HTTP/1.1\r\nHost: localhost\r\n\r\n")
        bot.process.send_signal(signal.SIGCONT)
        assert (await reader.readline()).split()[1] == b"200"
        assert (await bot.says("two", chat="another"))["text"] == "re: two"
        assert len(bot.errors) < 2_000
    logged = sum(file.stat().st_size for file in (tmp_path / "data" / "logs").iterdir())
    assert logged < 20_000
