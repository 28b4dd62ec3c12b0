"""A whole bot at Slack: the real SDK in front of a strict Slack on this machine.

async with at_slack(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.slack.shown("Hello!")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from channels.kit.messenger import Messenger
from channels.slack import SlackSettings
from channels.slack.platform import Slack
from tests.fakes.openai_server import OpenAIServer, Script
from tests.fakes.slack_people import SlackPerson
from tests.fakes.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackServer
from tests.whole.messenger_testbot import MessengerTestBot, running_at

SOCKET_MODE = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
EVENTS_API = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_SIGNING_SECRET": SIGNING_SECRET}


@dataclass(kw_only=True)
class SlackTestBot(MessengerTestBot):
    """The bot, Slack, and Ann, who owns the bot."""

    slack: SlackServer
    ann: SlackPerson
    channel: Messenger = field(init=False)

    async def is_idle(self) -> None:
        """Wait until the bot is idle, and Slack's events are acknowledged."""
        delivery = self.slack.delivery
        await self.slack.until(lambda: not delivery.waiting)
        await super().is_idle()


@asynccontextmanager
async def at_slack(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    slack: SlackServer | None = None,
    secrets: Mapping[str, str] = SOCKET_MODE,
) -> AsyncIterator[SlackTestBot]:
    """Run a bot on `folder`; `slack` may be one that another bot has used."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIServer(script))
        if slack is None:
            slack = await stack.enter_async_context(SlackServer())
        ann = next(iter(slack.people.values()), None) or slack.person("Ann")
        bot = SlackTestBot(slack=slack, model=model, ann=ann)
        own: dict[str, Any] = {"owners": [f"slack/{ann.id}"], **(settings or {})}
        slack_settings = SlackSettings(base_url=f"{slack.base_url}/api/", **own.pop("slack", {}))
        platform = Slack(slack_settings, secrets)
        platform.traits = replace(
            Slack.traits, draft=0.01, group_draft=0.01, typing=0.05, overall=1_000.0
        )
        bot.channel = Messenger(platform, bot.sleep)
        await stack.enter_async_context(running_at(bot.channel, bot, folder, own))
        yield bot
