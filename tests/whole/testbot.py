"""A whole bot for a test: real settings, store, agent and SDK; a fake endpoint.

async with run_bot(tmp_path, [Say("Hello!")]) as bot:
    assert (await bot.says("Hi")).text == "Hello!"
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
from channels.base import Accepted, Activity, Bot
from channels.message import Address, Attachment, Inbound, Outbound, Reply
from tests.fakes.openai_server import OpenAIServer, Script
from tests.waiting import PATIENCE, ended


@dataclass
class TestChannel:
    """A channel that submits a test's messages and keeps the bot's replies; `closed` are the
    questions that are over, and how each ended."""

    __test__ = False

    name: str = "pipe"
    sent: list[Outbound] = field(default_factory=list)
    closed: list[tuple[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bot: asyncio.Future[Bot] = asyncio.get_running_loop().create_future()
        self._leaving = asyncio.Event()
        self._arrived = asyncio.Condition()
        self.count, self.patience = 0, PATIENCE

    async def listen(self, bot: Bot) -> None:
        self._bot.set_result(bot)
        await self._leaving.wait()

    async def send(self, outbound: Outbound) -> None:
        async with self._arrived:
            self.sent.append(outbound)
            self._arrived.notify_all()

    async def close_question(self, address: Address, question: str, how: str) -> None:
        self.closed.append((question, how))

    def leave(self) -> None:
        self._leaving.set()

    async def api(self) -> Bot:
        return await asyncio.wait_for(asyncio.shield(self._bot), PATIENCE)

    async def writes(
        self,
        text: str,
        chat: str = "main",
        user: str = "",
        id: str = "",
        files: tuple[Attachment, ...] = (),
    ) -> Accepted | None:
        """Submit a message without waiting for its answer."""
        self.count += 1
        address = Address(self.name, chat, user=user)
        inbound = Inbound(id or f"m{self.count}", address, text, attachments=files)
        return await (await self.api()).submit(inbound)

    async def reply_to(self, message: str) -> Outbound:
        """Wait for the reply to a message, and return it."""

        def found() -> Outbound | None:
            return next((o for o in self.sent if o.reply_to == message), None)

        async with self._arrived:
            await asyncio.wait_for(self._arrived.wait_for(found), self.patience)
        outbound = found()
        assert outbound is not None
        return outbound

    async def says(
        self, text: str, chat: str = "main", user: str = "", files: tuple[Attachment, ...] = ()
    ) -> Reply:
        """Send a message and wait for its answer."""
        self.count += 1
        message = f"m{self.count}"
        await self.writes(text, chat, user, message, files)
        return (await self.reply_to(message)).reply

    async def watches(
        self, events: list[Activity], chat: str = "main", channel: str = ""
    ) -> asyncio.Task[None]:
        """Collect the events of a chat in `events` from now on; cancel the task to stop."""
        bot = await self.api()
        watching = asyncio.Event()

        async def watch() -> None:
            with bot.watch(Address(channel or self.name, chat)) as happening:
                watching.set()
                async for event in happening:
                    events.append(event)

        task = asyncio.create_task(watch())
        await watching.wait()
        return task


@dataclass
class TestBot(TestChannel):
    """A running bot with its endpoint, used over its own channel."""

    app: App = field(init=False)
    server: OpenAIServer = field(init=False)

    def sent_to_model(self, index: int = -1) -> list[dict[str, Any]]:
        """Return the messages of a request made by a turn."""
        messages: list[dict[str, Any]] = self.server.turns[index].body["messages"]
        return messages


@asynccontextmanager
async def run_bot(
    folder: Path,
    script: Script = (),
    settings: Mapping[str, Any] | str | None = None,
    environ: Mapping[str, str] | None = None,
    channel: str = "pipe",
    **server: Any,
) -> AsyncIterator[TestBot]:
    """Run a bot on `folder`, which may be one that another bot has used, with a scripted endpoint.
    `settings` given as a text are the configuration in YAML. People at the channel "afar" are
    remote."""
    async with OpenAIServer(script, **server) as endpoint:
        surroundings = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        bot = TestBot(channel)
        bot.server = endpoint
        async with running(folder, bot, settings, surroundings | dict(environ or {})):
            yield bot


@asynccontextmanager
async def running(
    folder: Path,
    bot: TestBot,
    settings: Mapping[str, Any] | str | None,
    environ: Mapping[str, str],
) -> AsyncIterator[None]:
    """Assemble, run, and stop the bot cleanly."""
    config = folder / ("config.yaml" if isinstance(settings, str) else "config.json")
    if not isinstance(settings, str):
        settings = json.dumps({"model": "gpt-4o-mini", **(settings or {})})
    config.write_text(settings)
    bot.app = await assemble(load_layers(config, environ), folder / "data", [bot])
    task = asyncio.create_task(bot.app.run())
    try:
        await bot.api()
        yield
    finally:
        bot.leave()
        await ended(task)
