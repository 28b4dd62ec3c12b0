"""The webhook's own server: what it reads of whom, and what it answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from channels.telegram import webhook
from tests.channels.test_telegram import said, serving, silent
from tests.fakes.fake_bot import FakeBot
from tests.fakes.telegram_server import TelegramServer


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@asynccontextmanager
async def hooked(bot: FakeBot) -> AsyncIterator[TelegramServer]:
    """A channel that Telegram calls."""
    port = free_port()
    hook = {"webhook_url": "https://bot.example.org/hook", "webhook_port": port}
    async with TelegramServer() as server, serving(bot, server, **hook):
        await server.until(lambda: server.webhook)
        server.webhook["local"] = f"http://127.0.0.1:{port}/hook"
        yield server


async def raw(server: TelegramServer, headers: str, body: bytes = b"") -> bytes:
    """The first line of what is answered to a request of which no more is sent than this."""
    port = int(server.webhook["local"].split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"POST /hook HTTP/1.1\r\nHost: a\r\n{headers}\r\n\r\n".encode() + body)
        await writer.drain()
        return await asyncio.wait_for(reader.readline(), 30)
    finally:
        writer.close()


def signed(server: TelegramServer) -> str:
    return f"X-Telegram-Bot-Api-Secret-Token: {server.webhook['secret_token']}"


async def post(server: TelegramServer, body: bytes) -> int:
    """The status that a signed request with this body is answered with."""
    headers = {"X-Telegram-Bot-Api-Secret-Token": server.webhook["secret_token"]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.webhook["local"], data=body, headers=headers) as response,
    ):
        return response.status


@pytest.mark.parametrize("secret", ["", "X-Telegram-Bot-Api-Secret-Token: guessed\r\n"])
@pytest.mark.parametrize("size", ["Content-Length: 90000000", "Transfer-Encoding: chunked"])
async def test_who_does_not_know_the_secret_is_refused_before_a_byte_of_the_body(
    secret: str, size: str
) -> None:
    async with hooked(silent()) as server:
        assert b" 403 " in await raw(server, secret + size)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 9_000),
        b'{"update_id": "a", "message": 7}',
        b'{"update_id": [1]}',
        b'{"update_id": {"a": 1}}',
        b'{"update_id": "1"}',
        b'{"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": {"id": [1], '
        b'"type": "x"}}}',
        b'{"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": {"id": 1, "type": "x"}, '
        b'"media_group_id": ["a"]}}',
    ],
)
async def test_what_telegram_brings_and_nobody_can_read_is_confirmed(body: bytes) -> None:
    bot = silent()
    async with hooked(bot) as server:
        assert await post(server, body) == 200
        update = {"update_id": 5, "message": server.person("Ann", 42).message("Hi")}
        assert await server.call_webhook(update) == 200
        await said(bot, server, 1)


async def test_an_update_that_is_larger_than_any_is_confirmed_and_not_read() -> None:
    async with hooked(silent()) as server:
        assert b" 200 " in await raw(server, f"{signed(server)}\r\nContent-Length: 90000000")


async def test_who_only_holds_connections_keeps_nobody_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "_MOST_CONNECTIONS", 2)
    async with hooked(silent()) as server:
        port = int(server.webhook["local"].split(":")[2].split("/")[0])
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        try:
            assert b" 403 " in await raw(server, "Content-Length: 0")
        finally:
            for _, writer in held:
                writer.close()


async def test_a_header_that_does_not_end_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhook, "_HEADER_TIME", 0.05)
    async with hooked(silent()) as server:
        assert await raw(server, "A: b", b"")  # one that ends is answered
        port = int(server.webhook["local"].split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(b"POST /hook HTTP/1.1\r\nHost:")
            assert await asyncio.wait_for(reader.read(), 30) == b""
        finally:
            writer.close()
