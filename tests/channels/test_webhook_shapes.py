"""Unreadable events are logged and confirmed; otherwise they would be redelivered for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import aiohttp
import httpx
import orjson
import pytest
from aiohttp import web

from benchmarks.hostile_events import DISCORD_MESSAGE, EVENTS
from channels.base import Activity, Delta, WebhookCall, WithHealth
from channels.feishu import FeishuSettings
from channels.feishu.feishu import Feishu
from channels.kit.messenger import ODD_SHAPE, Messenger, check_parts
from channels.kit.platform import Platform
from channels.matrix.matrix import Matrix
from channels.retry import TROUBLE, make_retrying
from channels.slack import SlackSettings
from channels.slack.platform import Slack
from channels.slack.socket import Socket
from channels.telegram.telegram import readable
from channels.wecom import WeComSettings
from channels.wecom.wecom import WeCom
from channels.whatsapp import WhatsAppSettings
from channels.whatsapp.letters import read
from channels.whatsapp.whatsapp import MetaSecrets, WhatsApp
from tests.channels.odd_shapes import odd_bodies
from tests.channels.test_telegram import said, serving, silent
from tests.fakes.fake_bot import FakeBot
from tests.fakes.slack_server import SlackServer
from tests.fakes.telegram_server import TelegramServer
from tests.tables import each_row
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
    """The raised errors are those that `Messenger.call` confirms."""
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
        """Slack is queried for people and messages that do not exist."""

    caplog.set_level(logging.CRITICAL)
    monkeypatch.setattr(Slack, "_look_up", know_nothing)
    async with SlackServer() as slack:
        platform = Slack(SlackSettings(base_url=f"{slack.base_url}/api/"), EVENTS_API)
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
        running = asyncio.create_task(Socket(session, open_url, take, lambda: None).run())
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
    """A channel called by Telegram."""
    hook = {"webhook_url": "https://bot.example.org/webhooks/telegram"}
    async with TelegramServer() as server, serving(bot, server, **hook):
        await server.until(lambda: server.webhook)
        server.webhook["local"] = server.hook_address
        yield server


async def post(server: TelegramServer, body: bytes | BytesIO) -> int:
    """Return the status of the response to a signed request with this body."""
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


PERSON = {"id": 2, "is_bot": False, "first_name": "Ann"}
ENTITIES = [{"type": "text_mention", "offset": n, "length": 1, "user": PERSON} for n in range(100)]
KEYBOARD = {"inline_keyboard": [[{"text": "A", "callback_data": "a"}]] * 100}


def telegram(count: int = 100) -> dict[str, Any]:
    chat = {"id": -3, "type": "supergroup", "title": "G"}
    message = {"message_id": 4, "date": 1_700_000_000, "chat": chat, "from": PERSON}
    said = {**message, "text": "a" * 4_096, "entities": ENTITIES, "reply_markup": KEYBOARD}
    entities = ENTITIES * (count // 100)
    return {"update_id": 7, "message": {**said, "entities": entities, "reply_to_message": said}}


def discord(embeds: int) -> dict[str, Any]:
    embed = {"fields": [{"name": "a", "value": "b", "inline": False}] * 25}
    person = DISCORD_MESSAGE["author"]
    first = {**DISCORD_MESSAGE, "embeds": [embed] * 10, "mentions": [person] * 100}
    return {**first, "embeds": [embed] * embeds, "referenced_message": first}


def test_the_largest_that_there_is_is_read() -> None:
    assert readable(telegram()) == telegram()
    assert EVENTS["discord.incoming.read_message"].read(discord(10))


def test_what_is_larger_is_left_out_and_confirmed() -> None:
    assert readable(telegram(1_000)) == {"update_id": 7}
    with pytest.raises(ValueError, match="parts"):
        EVENTS["discord.incoming.read_message"].read(discord(200))


SHAPES: dict[str, Any] = {
    "a list": [[]] * 9,
    "a deep list": [[[[[[[[[[]]]]]]]]]],
    "objects": {str(n): {} for n in range(9)},
    "a list of objects": {"a": [{"b": 1}] * 8},
}


@each_row("what", SHAPES)
def test_objects_and_lists_are_counted_wherever_they_are(what: str) -> None:
    check_parts(SHAPES[what], 10)
    with pytest.raises(ValueError, match="more than 9"):
        check_parts(SHAPES[what], 9)


def test_other_values_are_no_parts() -> None:
    for value in ("a", 1, None, [1] * 99, {"a": "b"}):
        check_parts(value, 1)


@pytest.mark.parametrize(("asked", "heard"), [(None, TROUBLE + 1), (0.0, 0)])
async def test_somebody_hears_of_what_fails_for_long_but_not_where_the_platform_says_wait(
    asked: float | None, heard: int
) -> None:
    attempts, troubles = 0, list[BaseException]()

    async def attempt() -> str:
        nonlocal attempts
        attempts += 1
        if attempts <= 2 * TROUBLE:
            raise ConnectionError("not now")
        return "there"

    async def sleep(seconds: float) -> None:
        """Not in a test."""

    again = make_retrying(lambda error: True, lambda error: asked, troubles.append, sleep)
    assert await again(attempt) == "there"
    assert len(troubles) == heard


PLATFORMS = (
    Matrix("https://matrix.example", "token"),
    WeCom(WeComSettings(bot_id="bot"), "secret"),
    Feishu(FeishuSettings(app_id="cli_1"), "secret"),
    WhatsApp(WhatsAppSettings(phone_id="1"), MetaSecrets("token", "secret", "word")),
)


@each_row("platform", PLATFORMS)
def test_a_file_that_is_gone_is_gone_and_one_that_is_out_of_reach_may_come(
    platform: Platform,
) -> None:
    for status, kind in ((403, "refused"), (410, "refused"), (429, "passing"), (502, "passing")):
        about: Any = SimpleNamespace(real_url="https://files.example/1")
        error: Exception = aiohttp.ClientResponseError(about, (), status=status)
        if platform.name == "whatsapp":
            request = httpx.Request("GET", "https://files.example/1")
            error = httpx.HTTPStatusError("no", request=request, response=httpx.Response(status))
        assert platform.explain(error).kind == kind, status


def test_a_connection_that_is_not_made_is_tried_again() -> None:
    about: Any = SimpleNamespace(real_url="wss://files.example/1")
    for platform in PLATFORMS[1:3]:
        refused = aiohttp.WSServerHandshakeError(about, (), status=404)
        assert platform.explain(refused).kind == "passing"
