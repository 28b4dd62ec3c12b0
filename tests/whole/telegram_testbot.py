"""A whole bot at Telegram: the real SDK in front of a strict Bot API on this machine.

async with at_telegram(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.telegram.shown("Hello!")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from channels.telegram import Intervals, telegram_channel
from tests.fakes.openai_server import OpenAIServer, Script
from tests.fakes.telegram_server import TOKEN, Person, TelegramServer
from tests.whole.messenger_testbot import MessengerTestBot, running_at


@dataclass(kw_only=True)
class TelegramTestBot(MessengerTestBot):
    """The bot, Telegram, and Ann, who owns the bot."""

    telegram: TelegramServer

    def __post_init__(self) -> None:
        self.ann: Person = self.telegram.person("Ann", 42)

    def rhythm(self) -> Intervals:
        """Return after no time, or hardly any."""
        return Intervals(
            0.01, 0.01, 0.05, 0.02, 1, overall=1_000, per_group=1_000, sleep=self.sleep
        )


@asynccontextmanager
async def at_telegram(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    telegram: TelegramServer | None = None,
    token: str = TOKEN,
) -> AsyncIterator[TelegramTestBot]:
    """Run a bot on `folder`; `telegram` may be one that another bot has used."""
    async with AsyncExitStack() as stack:
        model = await stack.enter_async_context(OpenAIServer(script))
        if telegram is None:
            telegram = await stack.enter_async_context(TelegramServer())
        bot = TelegramTestBot(telegram=telegram, model=model)
        more: dict[str, Any] = {"owners": ["telegram/42"], **(settings or {})}
        more["telegram"] = {"base_url": telegram.base_url, **more.get("telegram", {})}
        channel = telegram_channel(
            token, lambda: bot.app.config.book.effective().telegram, bot.rhythm()
        )
        await stack.enter_async_context(running_at(channel, bot, folder, more))
        yield bot
