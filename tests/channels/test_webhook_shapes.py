"""Signed calls of platforms that nobody can read are logged and confirmed, or they would bring them
again for ever. At Telegram this is in `tests/fuzz/test_telegram_updates.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson
import pytest
from aiohttp import web

from channels.base import Activity, Delta, WebhookCall, WithHealth
from channels.kit.frames import ODD_SHAPE
from channels.kit.messenger import Messenger
from channels.slack.platform import Slack
from channels.slack.settings import SlackSettings
from channels.slack.socket import Socket
from channels.whatsapp.reading import read
from tests.channels.odd_shapes import odd_bodies
from tests.channels.test_telegram import said, serving, silent
from tests.fakes.fake_bot import FakeBot
from tests.fakes.slack_server import SlackServer
from tests.fakes.telegram_server import TelegramServer
from tests.waiting import PATIENCE
from tests.whole.slack_testbot import EVENTS_API

PLACES = {"channel": {"id": "D1"}, "user": {"id": "U1"}, "team": {"id": "T1"}}
SLACK_BODIES: Sequence[tuple[bool, Mapping[str, object]]] = (
    (
        False,
        {
            "type": "event_callback",
            "team_id": "T1",
            "event": {
                **{"type": "message", "user": "U1", "text": "Hi", "ts": "1.2", "channel": "D1"},
                **{"channel_type": "im", "files": [{"id": "F1"}], "blocks": [{"type": "x"}]},
            },
        },
    ),
    (
        False,
        {
            "type": "event_callback",
            "event": {
                **{"type": "reaction_added", "user": "U1", "reaction": "+1"},
                "item": {"type": "message", "channel": "D1", "ts": "1.2"},
            },
        },
    ),
    (
        True,
        {
            **PLACES,
            "type": "block_actions",
            "message": {"ts": "1.2"},
            "container": {"type": "message", "channel_id": "D1"},
            "actions": [{"type": "button", "action_id": "a", "value": "/help"}],
        },
    ),
)


def quiet(text: str) -> Sequence[Activity]:
    return [Delta(text)]


async def status(bot: FakeBot, channel: Messenger, headers: dict[str, str], body: bytes) -> int:
    call = channel.call(bot, WebhookCall("POST", headers, {}, body))
    return (await asyncio.wait_for(call, PATIENCE)).status


def test_whatsapp(caplog: pytest.LogCaptureFixture) -> None:
    """Errors that are raised are those that `Messenger.call` confirms."""
    caplog.set_level(logging.CRITICAL)
    value = {
        "metadata": {"phone_number_id": "1"},
        "messages": [
            {"id": "m", "from": "2", "type": "text", "timestamp": "1", "text": {"body": "Hello"}}
        ],
        "contacts": [{"wa_id": "2", "profile": {"name": "Ann"}}],
        "statuses": [{"id": "1", "status": "failed", "errors": [{"code": 1}]}],
    }
    for body in odd_bodies({"entry": [{"changes": [{"value": value}]}]}):
        with suppress(*ODD_SHAPE):
            list(read(orjson.loads(body), "1", "3"))
    assert len(list(read({"entry": [{"changes": [{"value": value}]}]}, "1", "3"))) == 2


async def test_slack(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    async def know_nothing(*_: object) -> None:
        """Slack is asked about people and messages that it does not have."""

    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(Slack, "_look_up", know_nothing)
    async with SlackServer() as slack:
        platform = Slack(SlackSettings(base_url=f"{slack.url}/api/"), EVENTS_API)
        bot, channel = FakeBot(quiet), Messenger(platform)
        kinds = ("application/json", "application/x-www-form-urlencoded")
        for is_form, good in SLACK_BODIES:
            for body in odd_bodies(good):
                sent = b"payload=" + quote(body).encode() if is_form else body
                signed = slack.delivery.sign(sent)
                headers = {name.lower(): value for name, value in signed.items()}
                headers["content-type"] = kinds[is_form]
                found = await status(bot, channel, headers, sent)
                wanted = (401,) if sent == b"\xff" else (200, 404)  # 404: no event that is known
                assert found in wanted, (found, sent)
        await channel.close()


async def test_what_can_not_be_read_ends_no_connection() -> None:
    taken: asyncio.Queue[Any] = asyncio.Queue()

    async def serve(request: web.Request) -> web.WebSocketResponse:
        wire = web.WebSocketResponse()
        await wire.prepare(request)
        await wire.send_json({"type": "hello"})
        for odd in ("no JSON", "[]", "null", "5", "{}", '{"type": []}'):
            await wire.send_str(odd)
        await wire.send_json({"envelope_id": "e1", "payload": {"text": "Hi"}})
        async for _ in wire:
            pass
        return wire

    async def take(body: dict[str, Any]) -> dict[str, Any]:
        taken.put_nowait(body)
        return {}

    app = web.Application()
    app.router.add_get("/", serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def open_url() -> str:
        return f"http://127.0.0.1:{runner.addresses[0][1]}/"

    async with aiohttp.ClientSession() as session:
        running = asyncio.create_task(Socket(session, open_url, take).run(lambda: None))
        try:
            async with asyncio.timeout(PATIENCE):
                assert await taken.get() == {"text": "Hi"}
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await runner.cleanup()


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
