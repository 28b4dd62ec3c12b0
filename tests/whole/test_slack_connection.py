"""A whole bot at Slack whose connection breaks, ends, or is replaced by calls of the Events API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec.structs import replace

from channels.base import Activity, Bot, ChannelError, Delta
from channels.kit.messenger import Messenger
from channels.slack import CHANNEL, SlackSettings
from channels.slack.platform import Slack
from tests.channels.webhook_server import webhooks
from tests.fakes.fake_bot import FakeBot
from tests.fakes.openai_server import echo
from tests.fakes.slack_methods import SlackRefusal
from tests.fakes.slack_server import BOT_TOKEN, SlackServer
from tests.whole.slack_testbot import EVENTS_API, SlackTestBot, at_slack


async def test_a_connection_that_slack_renews_has_no_gap(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        delivery = bot.slack.delivery
        await bot.slack.until(lambda: delivery.connections)
        for number, reason in enumerate(("warning", "refresh_requested")):
            old = {*delivery.connections}
            await delivery.refresh(reason)
            bot.ann.says(f"message {number}")
            await bot.slack.shown(f"re: message {number}")
            await bot.slack.until(
                partial(lambda old: delivery.connections and not old & {*delivery.connections}, old)
            )
        assert bot.slept == []  # it did not count as a failure


async def test_a_token_of_an_account_that_was_closed_is_a_sentence_for_the_owner(
    tmp_path: Path,
) -> None:
    async with at_slack(tmp_path, echo) as bot:
        bot.ann.says("before")
        await bot.slack.shown("re: before")
        await bot.slack.revoke("account_inactive")
        await until_down(bot)
        assert "install the app again" in bot.channel.health.reason


async def until_down(bot: SlackTestBot) -> None:
    """Wait until the channel has ended permanently."""
    await bot.is_over()
    assert bot.channel.health.state == "down"


async def test_an_app_that_is_removed_says_so_at_once(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        await bot.slack.until(lambda: bot.slack.delivery.connections)
        await bot.slack.revoke(tells=True)
        await until_down(bot)
        assert "removed from the Slack workspace" in bot.channel.health.reason


async def test_a_ticket_that_is_used_up_and_a_token_of_a_person_end_nothing(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        await bot.slack.until(lambda: bot.slack.delivery.connections)
        bot.slack.emit({"type": "tokens_revoked", "tokens": {"oauth": ["U9"], "bot": []}})
        bot.slack.delivery.refuses_tickets = 2
        await bot.slack.delivery.cut()
        bot.ann.says("Hi")
        await bot.slack.shown("re: Hi")


async def test_events_of_odd_shape_are_confirmed_and_hold_up_nothing(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        await bot.slack.until(lambda: bot.slack.delivery.connections)
        changes: tuple[dict[str, Any], ...] = ({}, {"type": []}, {"user": 7}, {"item": None})
        for odd in changes:
            event = {"type": "reaction_added", "user": "U1", "reaction": "+1"} | odd
            bot.slack.delivery.send("events_api", {"type": "event_callback", "event": event})
        bot.ann.says("Hi")
        await bot.slack.shown("re: Hi")
        await bot.slack.until(lambda: not bot.slack.delivery.waiting)
        assert len(bot.slack.delivery.connections) == 1


async def test_socket_mode_that_is_switched_off_is_a_sentence(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        await bot.slack.until(lambda: bot.slack.delivery.connections)
        await bot.slack.delivery.refresh("link_disabled")
        await until_down(bot)
        assert "Socket Mode is switched off" in bot.channel.health.reason


async def test_a_missing_permission_is_named(tmp_path: Path) -> None:
    async with at_slack(tmp_path, echo) as bot:
        bot.slack.fail(
            "apps.connections.open", SlackRefusal("missing_scope", needed="connections:write")
        )
        await bot.slack.delivery.cut()
        await until_down(bot)
        assert "lacks the permission connections:write" in bot.channel.health.reason


def test_without_a_way_in_it_says_what_to_do() -> None:
    with pytest.raises(ChannelError, match="SLACK_APP_TOKEN"):
        CHANNEL.make(SlackSettings(), {"SLACK_BOT_TOKEN": BOT_TOKEN})


def test_a_token_goes_over_no_open_connection() -> None:
    with pytest.raises(ValueError, match="base_url"):
        SlackSettings(base_url="http://slack.example.org/api/")


@asynccontextmanager
async def called(folder: Path) -> AsyncIterator[SlackTestBot]:
    """A bot that is called by Slack."""
    async with at_slack(folder, echo, secrets=EVENTS_API) as bot:
        api: Bot = bot.app.bot
        async with webhooks(api, bot.channel) as address:
            bot.slack.delivery.webhook = f"{address}/webhooks/slack"
            await bot.slack.called("auth.test", 2)  # it is open, and listens
            yield bot


async def post(bot: SlackTestBot, body: bytes, headers: dict[str, str]) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(bot.slack.delivery.webhook, data=body, headers=headers) as response,
    ):
        return response.status, await response.text()


async def test_over_the_events_api_it_does_the_same(tmp_path: Path) -> None:
    async with called(tmp_path) as bot:
        bot.ann.says("Hi")
        await bot.slack.shown("re: Hi")
        bot.ann.commands("context")
        context = await bot.slack.shown("50k tokens")
        bot.ann.presses(context, "Details")
        await bot.slack.until(lambda: len(bot.slack.delivery.answers) == 3)
        assert bot.slack.delivery.answers == [200, 200, 200]
        bot.slack.delivery.redeliver()
        await bot.slack.until(lambda: len(bot.slack.delivery.answers) == 6)
        await bot.is_idle()
        assert len(bot.model.requests) == 1


async def test_a_call_from_before_the_bot_listened_takes_no_draft_from_later_ones() -> None:
    leaves_unfinished = asyncio.Event()
    story: list[Activity | asyncio.Event] = [Delta("Once upon a time"), leaves_unfinished]
    bot = FakeBot(lambda text: story if text == "late" else [Delta("Yes?")])
    async with SlackServer() as slack:
        platform = Slack(SlackSettings(base_url=f"{slack.base_url}/api/"), EVENTS_API)
        platform.traits = replace(Slack.traits, draft=0.01)
        channel = Messenger(platform)
        async with webhooks(bot, channel) as address:
            slack.delivery.webhook = f"{address}/webhooks/slack"
            ann = slack.person("Ann")
            ann.says("early")
            await slack.until(lambda: slack.delivery.answers)
            serving = asyncio.create_task(bot.serve(channel))
            await slack.called("auth.test", 2)
            ann.says("late")
            await slack.shown("Once upon a time …")
            serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await channel.close()


async def test_slack_is_answered_its_challenge(tmp_path: Path) -> None:
    async with called(tmp_path) as bot:
        body = b'{"token": "t", "challenge": "3eZbrw1aB", "type": "url_verification"}'
        headers = {**bot.slack.delivery.sign(body), "Content-Type": "application/json"}
        status, text = await post(bot, body, headers)
        assert (status, "3eZbrw1aB" in text) == (200, True)


BODY = b'{"type": "event_callback", "event": {"type": "message"}}'


async def test_who_has_not_the_secret_is_refused_and_counted(tmp_path: Path) -> None:
    async with called(tmp_path) as bot:
        sign = bot.slack.delivery.sign
        headers = sign(BODY)
        timestamp = {"X-Slack-Request-Timestamp": headers["X-Slack-Request-Timestamp"]}
        forged: list[tuple[bytes, dict[str, str]]] = [
            (BODY, {}),
            (BODY, timestamp),
            (BODY, {**timestamp, "X-Slack-Signature": "v0=0"}),
            (BODY, {**timestamp, "X-Slack-Signature": "v0=\u00e4".encode().decode("latin-1")}),
            (BODY + b" ", headers),
            (BODY, sign(BODY, late=301)),
            (BODY, sign(BODY, late=-302)),
            (BODY, {**headers, "X-Slack-Request-Timestamp": "soon"}),
            (BODY, {**headers, "X-Slack-Request-Timestamp": "9" * 5000}),
            (b"\xff", headers),
            (b"ssl_check=1", {"Content-Type": "application/x-www-form-urlencoded"}),
        ]
        for body, given in forged:
            assert (await post(bot, body, given))[0] == 401, given
        assert bot.channel.health.forged == len(forged)
        assert not bot.model.requests


async def test_what_slack_signs_and_nobody_can_read_breaks_nothing(tmp_path: Path) -> None:
    async with called(tmp_path) as bot:
        for body in [b"", b"{", b"[]", b"null", b"7", b"\xff", b"[" * 9_000, b"{}"]:
            headers = {**bot.slack.delivery.sign(body), "Content-Type": "application/json"}
            status, _ = await post(bot, body, headers)
            assert status < 500, body
        bot.ann.says("Hi")
        await bot.slack.shown("re: Hi")


async def test_a_clock_that_is_wrong_is_named_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with called(tmp_path) as bot:
        bot.slack.delivery.skew = 3_600
        bot.ann.says("Hi")
        await bot.slack.until(lambda: len(bot.slack.delivery.answers) == 4)
        assert bot.slack.delivery.answers == [401] * 4
        assert "is the clock of this machine right?" in caplog.text


async def test_a_wrong_token_is_a_sentence_for_the_owner(tmp_path: Path) -> None:
    async with SlackServer() as slack:
        slack.bot_token = "xoxb-another"
        async with at_slack(tmp_path, slack=slack) as bot:
            await until_down(bot)
            assert "install the app again" in bot.channel.health.reason
