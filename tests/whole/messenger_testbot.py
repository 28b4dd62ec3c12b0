"""Common parts of the whole bots at Telegram, Discord and Slack."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Channel, ChannelError
from tests.channels.clock import quick_sleep
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import PATIENCE


@dataclass(kw_only=True)
class MessengerTestBot:
    """A running bot, and the model's endpoint. `slept` are the seconds that the bot waited because
    its platform asked for it or did not answer; a bot that `is_hurried` is ended as by a kill."""

    model: OpenAIServer
    slept: list[float] = field(default_factory=list)
    is_hurried: bool = False
    app: App = field(init=False)
    running: asyncio.Task[None] = field(init=False)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await quick_sleep(seconds)

    def sent_to_model(self, index: int = -1) -> list[dict[str, Any]]:
        """Return the messages of a request made by a turn."""
        messages: list[dict[str, Any]] = self.model.turns[index].body["messages"]
        return messages

    async def is_idle(self) -> None:
        """Wait until the bot is idle."""
        app = self.app
        for queues in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
            await asyncio.wait_for(queues.idle(), PATIENCE)

    async def is_over(self) -> None:
        """Wait until the bot has ended by itself."""
        await asyncio.wait({self.running}, timeout=PATIENCE)


@asynccontextmanager
async def running_at(
    channel: Channel, bot: MessengerTestBot, folder: Path, settings: Mapping[str, Any]
) -> AsyncIterator[None]:
    """Run a bot on `folder` at one channel, and stop it cleanly. If the channel fails for good, it
    has ended before: `bot.running` holds its error."""
    config = folder / "config.json"
    config.write_text(json.dumps({"model": "gpt-4o-mini", **settings}))
    environ = {"OPENAI_BASE_URL": bot.model.base_url, "OPENAI_API_KEY": "test-key"}
    bot.app = await assemble(load_layers(config, environ), folder / "data", [channel])
    bot.running = asyncio.create_task(bot.app.run())
    try:
        yield
    finally:
        if bot.is_hurried:
            await bot.app.turns.queues.close()  # as after a kill: running work is interrupted
        for task in asyncio.all_tasks():
            if task.get_name() == f"listen {channel.name}":
                task.cancel()
        with suppress(ChannelError):
            await asyncio.wait_for(bot.running, PATIENCE)
