"""A whole bot on a platform."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bot.app import App
from bot.assembly import assemble
from bot.logs import set_up_logs
from bot.settings import load_layers
from channels.base import Channel, WithHealth, WithWebhook
from tests.channels.contract.stage import Stage
from tests.channels.webhook_server import webhooks
from tests.fakes.openai_server import OpenAIServer, Script
from tests.waiting import PATIENCE
from tests.whole.testbot import TestChannel


@dataclass
class PlatformTestBot:
    """A bot running on a platform, and its endpoint."""

    stage: Stage
    model: OpenAIServer
    app: App = field(init=False)
    channel: Channel = field(init=False)
    running: asyncio.Task[None] = field(init=False)

    def asked(self) -> list[str]:
        """Return the questions that reached the model, in order."""
        return [
            str(request.body["messages"][-1]["content"])
            for request in self.model.requests
            if request.body["messages"][-1]["role"] == "user"
        ]

    @property
    def state(self) -> str:
        """Return the state of the channel."""
        assert isinstance(self.channel, WithHealth)
        return self.channel.health.state

    async def is_idle(self) -> None:
        """Wait until the bot is idle."""
        app = self.app
        for part in (app.bot.commands, app.turns, app.delivery, app.sender):
            await asyncio.wait_for(part.queues.idle(), PATIENCE)


@asynccontextmanager
async def at_platform(
    stage: Stage,
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | None = None,
    beside: TestChannel | None = None,
) -> AsyncIterator[PlatformTestBot]:
    """Run a bot on `folder` with an open stage, until the block ends; Ann owns it. `beside` is
    another channel of the bot."""
    async with AsyncExitStack() as stack:
        endpoint = await stack.enter_async_context(OpenAIServer(script))
        bot = PlatformTestBot(stage, endpoint)
        config = folder / "config.json"
        told: dict[str, Any] = {
            "model": "gpt-4o-mini",
            "owners": [f"{stage.name}/{stage.owner}"],
            **stage.settings(),
            **(settings or {}),
        }
        config.write_text(json.dumps(told))
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        environ |= {f"{stage.name.upper()}_TOKEN_{n}": s for n, s in enumerate(stage.secrets)}
        layers = load_layers(config, environ)
        stack.callback(set_up_logs(folder / "logs", layers, is_quiet=True))
        bot.channel = stage.channel(lambda: bot.app.config.book.effective())
        bot.app = await assemble(
            layers, folder / "data", [bot.channel, *([beside] if beside else [])]
        )
        if isinstance(bot.channel, WithWebhook):
            called = webhooks(bot.app.bot, bot.channel)
            stage.address = await stack.enter_async_context(called)
        bot.running = asyncio.create_task(bot.app.run())
        try:
            yield bot
        finally:
            if beside:
                beside.leave()
            for task in asyncio.all_tasks():
                if task.get_name() == f"listen {stage.name}":
                    task.cancel()
            await asyncio.wait({bot.running}, timeout=PATIENCE)
            has_ended = bot.running.done()
            bot.running.cancel()
            await asyncio.gather(bot.running, return_exceptions=True)
            assert has_ended, "the bot did not end by itself"
