"""A bot that starts, dies, and starts again: in one process (`parley`), or in several
(`clustered_over`). The tests of delivery use only the interface in this module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web

from channels.message import Outbound
from tests.cluster.cluster_testbot import Cluster, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes import openai_server
from tests.fakes.openai_server import Fail, OpenAIServer, Received, Say
from tests.whole.testbot import TestBot, running

USER = "ann"


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply as the platform received it. `reply_to` is the platform's id of the message."""

    reply_to: str
    chat: str
    text: str
    is_resent: bool


Think = Callable[[str], Awaitable[str]]
"""The function that answers a message; it may be slow, or raise."""

Take = Callable[[Heard], Awaitable[None]]
"""The function with which the platform accepts a reply: it returns on acceptance, may be slow, or
raise."""


class Life(Protocol):
    """A bot between its start and its end."""

    async def says(self, message: str, text: str, chat: str = "main") -> bool:
        """Send a message with the platform's id; return whether it was confirmed."""
        ...

    async def hears(self, message: str) -> Heard:
        """Wait for the first reply to a message that the platform accepts, and return it."""
        ...

    @property
    def heard(self) -> list[Heard]:
        """Return all replies that the platform accepted in this life, in order."""
        ...

    async def dies(self) -> None:
        """Kill the process at this moment; nothing more is stored or sent."""
        ...


Lives = Callable[[Path, Think, Take], AbstractAsyncContextManager[Life]]
"""The function that runs a bot on a folder, possibly with data of an earlier one; leaving the
context is an orderly stop."""


class _Thinking(OpenAIServer):
    """An endpoint whose answers are the results of `think` for the last message."""

    def __init__(self, think: Think) -> None:
        super().__init__()
        self._think = think

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        text = received.body["messages"][-1]["content"].removeprefix(f"{USER}: ")
        try:
            answer: Say | Fail = Say(await self._think(text))
        except ValueError as error:
            answer = Fail(400, {"message": str(error)})
        return await openai_server._act(request, received, answer, (1, 0))


class _Platform(TestBot):
    """A remote channel that accepts replies as the test defines."""

    take: Take

    async def send(self, outbound: Outbound) -> None:
        await self.take(_heard(outbound))
        await super().send(outbound)


def _heard(outbound: Outbound) -> Heard:
    text = outbound.reply.text
    return Heard(outbound.reply_to, outbound.address.chat, text, outbound.is_resent)


@dataclass(frozen=True, slots=True)
class _Parley:
    platform: _Platform

    async def says(self, message: str, text: str, chat: str = "main") -> bool:
        return await self.platform.writes(text, chat, USER, message) is not None

    async def hears(self, message: str) -> Heard:
        return _heard(await self.platform.reply_to(message))

    @property
    def heard(self) -> list[Heard]:
        return [_heard(outbound) for outbound in self.platform.sent]

    async def dies(self) -> None:
        app = self.platform.app
        for lanes in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
            await lanes.close()


@asynccontextmanager
async def parley(folder: Path, think: Think, take: Take) -> AsyncIterator[Life]:
    """Run this project's complete bot in this process."""
    async with _Thinking(think) as endpoint:
        platform = _Platform("afar")
        platform.take, platform.server = take, endpoint
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        settings = {"owners": [f"afar/{USER}"], "restore": "exact", "shutdown_timeout": 30}
        async with running(folder, platform, settings, environ):
            yield _Parley(platform)


@dataclass(frozen=True, slots=True)
class _ClusterLife(_Parley):
    """The same with a cluster, whose processes all die at once."""

    cluster: Cluster

    async def dies(self) -> None:
        await self.cluster.kill_all()


def clustered_over(broker: RabbitMQServer) -> Lives:
    """Return a function that runs a gateway and two workers, with a broker, in this process."""

    @asynccontextmanager
    async def parley_in_parts(folder: Path, think: Think, take: Take) -> AsyncIterator[Life]:
        async with _Thinking(think) as endpoint:
            platform = _Platform("afar")
            platform.take, platform.server = take, endpoint
            settings = {"owners": [f"afar/{USER}"], "restore": "exact", "shutdown_timeout": 30}
            async with clustered(folder, broker, endpoint, settings) as cluster:
                await cluster.add_gateway(platform)
                await platform.api()
                yield _ClusterLife(platform, cluster)

    return parley_in_parts
