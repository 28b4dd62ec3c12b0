"""A whole bot at Slack: the real SDK in front of a strict Slack on this machine.

async with at_slack(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.slack.shown("Hello!")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import ChannelError
from channels.kit.messenger import Messenger
from channels.slack.platform import Slack
from channels.slack.settings import SlackSettings
from tests.channels.clock import quick_sleep
from tests.fakes.openai_server import OpenAIServer, Script
from tests.fakes.slack_people import SlackPerson
from tests.fakes.slack_server import APP_TOKEN, BOT_TOKEN, SIGNING_SECRET, SlackServer
from tests.waiting import PATIENCE

SOCKET_MODE = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_APP_TOKEN": APP_TOKEN}
EVENTS_API = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_SIGNING_SECRET": SIGNING_SECRET}


@dataclass
class SlackTestBot:
    """A bot that runs, the model's endpoint, Slack, and Ann, who owns the bot. `slept` are the
    seconds that the bot waited because Slack said so or did not answer."""

    slack: SlackServer
    model: OpenAIServer
    channel: Messenger
    ann: SlackPerson
    slept: list[float] = field(default_factory=list)
    is_hurried: bool = False
    app: App = field(init=False)
    running: asyncio.Task[None] = field(init=False)

    def sent_to_model(self, index: int = -1) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.model.requests[index].body["messages"]
        return messages

    async def is_idle(self) -> None:
        """Wait until nothing is under way in the bot, and Slack's events are acknowledged."""
        delivery, app = self.slack.delivery, self.app
        await self.slack.until(lambda: not delivery.waiting)
        for lanes in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
            await asyncio.wait_for(lanes.idle(), PATIENCE)


@asynccontextmanager
async def at_slack(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    slack: SlackServer | None = None,
    secrets: Mapping[str, str] = SOCKET_MODE,
) -> AsyncIterator[SlackTestBot]:
    """A bot on `folder`; `slack` may be one that another bot has talked to."""
    async with OpenAIServer(script) as endpoint:
        if slack is None:
            async with (
                SlackServer() as slack,
                _running(folder, endpoint, slack, settings, secrets) as bot,
            ):
                yield bot
            return
        async with _running(folder, endpoint, slack, settings, secrets) as bot:
            yield bot


@asynccontextmanager
async def _running(
    folder: Path,
    model: OpenAIServer,
    slack: SlackServer,
    settings: Mapping[str, Any] | None,
    secrets: Mapping[str, str],
) -> AsyncIterator[SlackTestBot]:
    ann = next(iter(slack.people.values()), None) or slack.person("Ann")
    own: dict[str, Any] = {
        "model": "gpt-4o-mini",
        "owners": [f"slack/{ann.id}"],
        **(settings or {}),
    }
    slack_settings = SlackSettings(base_url=f"{slack.url}/api/", **own.pop("slack", {}))
    config = folder / "config.json"
    config.write_text(json.dumps(own))
    surroundings = {"OPENAI_BASE_URL": model.base_url, "OPENAI_API_KEY": "test-key"}
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        await quick_sleep(seconds)

    platform = Slack(slack_settings, secrets)
    platform.traits = replace(
        Slack.traits, draft=0.01, group_draft=0.01, typing=0.05, overall=1_000.0
    )
    bot = SlackTestBot(slack, model, Messenger(platform, sleep), ann, slept)
    layers = load_layers(config, surroundings)
    bot.app = await assemble(layers, folder / "data", [bot.channel])
    bot.running = asyncio.create_task(bot.app.run())
    try:
        yield bot
    finally:
        if bot.is_hurried:
            await bot.app.turns.queues.close()  # as at a kill: what runs is cut short
        for task in asyncio.all_tasks():
            if task.get_name() == "listen slack":
                task.cancel()
        with suppress(ChannelError):  # it has ended before, and its health says so
            await asyncio.wait_for(bot.running, PATIENCE)
