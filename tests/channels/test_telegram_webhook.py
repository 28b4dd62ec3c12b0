"""Telegram's webhook: what it takes of whom, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp
import pytest

from channels.base import WithHealth
from tests.channels.test_telegram import said, serving, silent
from tests.fakes.fake_bot import FakeBot
from tests.fakes.telegram_server import TelegramServer


@asynccontextmanager
async def hooked(bot: FakeBot) -> AsyncIterator[TelegramServer]:
    """A channel that Telegram calls."""
    hook = {"webhook_url": "https://bot.example.org/webhooks/telegram"}
    async with TelegramServer() as server, serving(bot, server, **hook):
        await server.until(lambda: server.webhook)
        server.webhook["local"] = server.hook_address
        yield server


async def post(server: TelegramServer, body: bytes | BytesIO) -> int:
    """The status that a signed request with this body is answered with."""
    headers = {"X-Telegram-Bot-Api-Secret-Token": server.webhook["secret_token"]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(server.webhook["local"], data=body, headers=headers) as response,
    ):
        return response.status


@pytest.mark.parametrize("secret", ["", "guessed"])
async def test_who_does_not_know_the_secret_is_refused_and_counted(secret: str) -> None:
    bot = silent()
    async with hooked(bot) as server:
        update = {"update_id": 5, "message": server.person("Ann", 42).message("Hi")}
        assert await server.call_webhook(update, secret=secret or "-") == 401
        channel: object = bot.channel
        assert isinstance(channel, WithHealth)
        assert channel.health.forged == 1
    assert bot.submitted == []


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
        assert await post(server, BytesIO(b" " * 2_000_000)) == 200
