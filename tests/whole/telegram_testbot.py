"""A whole bot at Telegram: the real SDK in front of a strict Bot API on this machine.

async with at_telegram(tmp_path, [Say("Hello!")]) as bot:
    bot.ann.says("Hi")
    await bot.telegram.shown("Hello!")
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.telegram import Rhythm, telegram_channel
from tests.channels.clock import quick_sleep
from tests.fakes.openai_server import OpenAIServer, Script
from tests.fakes.telegram_server import TOKEN, Person, TelegramServer
from tests.waiting import PATIENCE


@dataclass
class TelegramTestBot:
    """A bot that runs, the model's endpoint, Telegram, and Ann, who owns the bot. `slept` are the
    seconds that the bot waited because Telegram said so or did not answer."""

    telegram: TelegramServer
    model: OpenAIServer
    slept: list[float] = field(default_factory=list)
    is_hurried: bool = False
    app: App = field(init=False)
    running: asyncio.Task[None] = field(init=False)

    def __post_init__(self) -> None:
        self.ann: Person = self.telegram.person("Ann", 42)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await quick_sleep(seconds)

    def sent_to_model(self, index: int = -1) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.model.requests[index].body["messages"]
        return messages

    async def is_idle(self) -> None:
        """Wait until nothing is under way in the bot."""
        app = self.app
        for lanes in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
            await asyncio.wait_for(lanes.idle(), PATIENCE)

    async def is_over(self) -> None:
        """Wait until the bot has ended by itself."""
        await asyncio.wait({self.running}, timeout=PATIENCE)

    def rhythm(self) -> Rhythm:
        """No time at all, or hardly any."""
        return Rhythm(0.01, 0.01, 0.05, 0.02, 1, overall=1_000, per_group=1_000, sleep=self.sleep)


@asynccontextmanager
async def at_telegram(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    telegram: TelegramServer | None = None,
    token: str = TOKEN,
) -> AsyncIterator[TelegramTestBot]:
    """A bot on `folder`; `telegram` may be one that another bot has talked to."""
    async with OpenAIServer(script) as endpoint:
        if telegram is not None:
            async with _running(
                folder, TelegramTestBot(telegram, endpoint), settings, token
            ) as bot:
                yield bot
            return
        async with (
            TelegramServer() as server,
            _running(folder, TelegramTestBot(server, endpoint), settings, token) as bot,
        ):
            yield bot


@asynccontextmanager
async def _running(
    folder: Path, bot: TelegramTestBot, settings: Mapping[str, Any] | None, token: str
) -> AsyncIterator[TelegramTestBot]:
    config = folder / "config.json"
    more: dict[str, Any] = {"model": "gpt-4o-mini", "owners": ["telegram/42"], **(settings or {})}
    more["telegram"] = {"base_url": bot.telegram.base_url, **more.get("telegram", {})}
    config.write_text(json.dumps(more))
    surroundings = {"OPENAI_BASE_URL": bot.model.base_url, "OPENAI_API_KEY": "test-key"}
    channel = telegram_channel(
        token, lambda: bot.app.config.book.effective().telegram, bot.rhythm()
    )
    bot.app = await assemble(load_layers(config, surroundings), folder / "data", [channel])
    bot.running = asyncio.create_task(bot.app.run())
    try:
        yield bot
    finally:
        if bot.is_hurried:
            await bot.app.turns.queues.close()  # as at a kill: what runs is cut short
        for task in asyncio.all_tasks():
            if task.get_name() == "listen telegram":
                task.cancel()
        await asyncio.wait_for(bot.running, PATIENCE)
