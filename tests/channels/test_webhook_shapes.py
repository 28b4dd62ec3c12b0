"""Signed calls of platforms that nobody can read are logged and confirmed, or they would bring them
again for ever. At Telegram this is in `tests/fuzz/test_telegram_updates.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import quote

import orjson
import pytest

from channels.base import Activity, Delta, WebhookCall
from channels.kit.frames import ODD_SHAPE
from channels.kit.messenger import Messenger
from channels.slack.platform import Slack
from channels.slack.settings import SlackSettings
from channels.whatsapp.reading import read
from tests.channels.odd_shapes import odd_bodies
from tests.fakes.fake_bot import FakeBot
from tests.fakes.slack_server import SlackServer
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
