"""Telegram's webhook: what it takes of whom, and what it answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO

import aiohttp

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


async def test_who_does_not_know_the_secret_is_refused_and_counted() -> None:
    for secret in ["", "guessed"]:
        bot = silent()
        async with hooked(bot) as server:
            update = {"update_id": 5, "message": server.person("Ann", 42).message("Hi")}
            assert await server.call_webhook(update, secret=secret or "-") == 401, secret
            channel: object = bot.channel
            assert isinstance(channel, WithHealth), secret
            assert channel.health.forged == 1, secret
        assert bot.submitted == [], secret


CHAT = b'{"update_id": 1, "message": {"message_id": 1, "date": 1, "chat": %s}}'


async def test_what_telegram_brings_and_nobody_can_read_is_confirmed() -> None:
    bot = silent()
    async with hooked(bot) as server:
        for body in [
            *(b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 9_000),
            b'{"update_id": "a", "message": 7}',
            b'{"update_id": [1]}',
            b'{"update_id": {"a": 1}}',
            b'{"update_id": "1"}',
            CHAT % b'{"id": [1], "type": "x"}',
            CHAT % b'{"id": 1, "type": "x"}, "media_group_id": ["a"]',
        ]:
            assert await post(server, body) == 200, body
        update = {"update_id": 5, "message": server.person("Ann", 42).message("Hi")}
        assert await server.call_webhook(update) == 200
        await said(bot, 1)


async def test_an_update_that_is_larger_than_any_is_confirmed_and_not_read() -> None:
    async with hooked(silent()) as server:
        assert await post(server, BytesIO(b" " * 2_000_000)) == 200
