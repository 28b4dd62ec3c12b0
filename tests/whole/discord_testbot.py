"""A whole bot at Discord: the real SDK in front of a strict gateway and API on this machine.

async with at_discord(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.discord.shown("Hello!")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.discord import DiscordSettings
from channels.discord.client import DiscordClient
from channels.discord.platform import Discord
from channels.kit.messenger import Messenger
from tests.channels.clock import quick_sleep
from tests.fakes.discord_people import DiscordPerson
from tests.fakes.discord_server import GENERAL, TOKEN, DiscordServer
from tests.fakes.openai_server import OpenAIServer, Script
from tests.waiting import PATIENCE


@dataclass
class DiscordTestBot:
    """A bot that runs, the model's endpoint, Discord, and Ann, who owns the bot. `slept` are the
    seconds that the kit waited because Discord said so or did not answer."""

    discord: DiscordServer
    model: OpenAIServer
    slept: list[float] = field(default_factory=list)
    app: App = field(init=False)
    channel: Messenger = field(init=False)
    running: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        known = 42 in self.discord.people
        self.ann: DiscordPerson = (
            DiscordPerson(self.discord, 42, self.discord.directs[42])
            if known
            else self.discord.person("Ann", 42)
        )
        self.ann_in_general = self.ann.at(GENERAL)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await quick_sleep(seconds)

    def sent_to_model(self, index: int = -1) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.model.requests[index].body["messages"]
        return messages

    @property
    def state(self) -> str:
        return self.channel.health.state

    async def is_idle(self) -> None:
        """Wait until nothing is under way in the bot."""
        app = self.app
        for lanes in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
            await asyncio.wait_for(lanes.idle(), PATIENCE)

    async def is_over(self) -> None:
        """Wait until the bot has ended by itself."""
        await asyncio.wait({self.running}, timeout=PATIENCE)


@asynccontextmanager
async def at_discord(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    discord: DiscordServer | None = None,
    token: str = TOKEN,
    **own: Any,
) -> AsyncIterator[DiscordTestBot]:
    """A bot on `folder`; `discord` may be one that another bot has talked to. `own` are settings of
    the channel."""
    async with OpenAIServer(script) as endpoint:
        if discord is not None:
            bot = DiscordTestBot(discord, endpoint)
            async with _running(folder, bot, settings, token, own):
                yield bot
            return
        async with DiscordServer() as server:
            bot = DiscordTestBot(server, endpoint)
            async with _running(folder, bot, settings, token, own):
                yield bot


@asynccontextmanager
async def _running(
    folder: Path,
    bot: DiscordTestBot,
    settings: Mapping[str, Any] | None,
    token: str,
    own: Mapping[str, Any],
) -> AsyncIterator[None]:
    config = folder / "config.json"
    more = {"model": "gpt-4o-mini", "owners": ["discord/42"], **(settings or {})}
    config.write_text(json.dumps(more))
    surroundings = {"OPENAI_BASE_URL": bot.model.base_url, "OPENAI_API_KEY": "test-key"}
    platform = Discord(token, DiscordSettings(base_url=bot.discord.base_url, **own))
    pause, DiscordClient.pause = DiscordClient.pause, 0.0
    platform.traits = replace(platform.traits, draft=0.01, group_draft=0.01, overall=1_000)
    bot.channel = Messenger(platform, bot.sleep)
    bot.app = await assemble(load_layers(config, surroundings), folder / "data", [bot.channel])
    bot.running = asyncio.create_task(bot.app.run())
    try:
        await bot.discord.gateway.is_connected(bot.running)
        yield
    finally:
        for task in asyncio.all_tasks():
            if task.get_name() == "listen discord":
                task.cancel()
        await asyncio.wait({bot.running}, timeout=PATIENCE)
        await asyncio.gather(bot.running, return_exceptions=True)
        DiscordClient.pause = pause
