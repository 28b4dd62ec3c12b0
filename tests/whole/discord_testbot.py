"""A whole bot at Discord: the real SDK in front of a strict gateway and API on this machine.

async with at_discord(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.discord.shown("Hello!")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from channels.discord import DiscordSettings
from channels.discord.client import DiscordClient
from channels.discord.platform import Discord
from channels.kit.messenger import Messenger
from tests.fakes.discord_people import DiscordPerson
from tests.fakes.discord_server import GENERAL, TOKEN, DiscordServer
from tests.fakes.openai_server import OpenAIServer, Script
from tests.whole.messenger_testbot import MessengerTestBot, running_at


@dataclass(kw_only=True)
class DiscordTestBot(MessengerTestBot):
    """The bot, Discord, and Ann, who owns the bot."""

    discord: DiscordServer
    channel: Messenger = field(init=False)

    def __post_init__(self) -> None:
        if 42 not in self.discord.people:
            self.discord.person("Ann", 42)
        self.ann = DiscordPerson(self.discord, 42, self.discord.directs[42])
        self.ann_in_general = self.ann.at(GENERAL)

    @property
    def state(self) -> str:
        return self.channel.health.state


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
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIServer(script))
        if discord is None:
            discord = await stack.enter_async_context(DiscordServer())
        bot = DiscordTestBot(discord=discord, model=model)
        platform = Discord(token, DiscordSettings(base_url=discord.base_url, **own))
        platform.traits = replace(platform.traits, draft=0.01, group_draft=0.01, overall=1_000)
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(DiscordClient, "pause", 0.0)
        bot.channel = Messenger(platform, bot.sleep)
        more = {"owners": ["discord/42"], **(settings or {})}
        await stack.enter_async_context(running_at(bot.channel, bot, folder, more))
        await discord.gateway.is_connected(bot.running)
        yield bot
