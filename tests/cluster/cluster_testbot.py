"""A cluster for a test: a gateway and workers in this process, with a real broker.

It has few slices, which move quickly, and long timeouts for a busy machine.

async with clustered(tmp_path, broker, endpoint, workers=2) as cluster:
    assert (await cluster.bot.says("Hi")).text == "Hello!"
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bot.app import App
from bot.assembly import assemble
from bot.settings import load_layers
from channels.base import Channel
from memory.tasks import cancel_and_wait
from plugins.cluster import gateway, node, ownership, rabbit, record, wire, worker
from plugins.cluster.gateway import Gateway
from plugins.cluster.node import ClusterSender, Node, name_process
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.run import RemoteChannel
from plugins.cluster.worker import GROUP, Worker
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer
from tests.waiting import PATIENCE, until
from tests.whole.testbot import TestChannel

SLICES = 8


@contextmanager
def small_and_quick() -> Iterator[None]:
    """Give a cluster few SLICES, each of which is a queue on the broker's disk; compute shares
    often, and keep a connection alive even if the machine is busy."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (record, gateway, wire, worker):
            patch.setattr(module, "SLICES", SLICES)
        patch.setattr(record, "SLICE_NAMES", record.SLICE_NAMES[:SLICES])
        for module in (node, ownership, worker):
            patch.setattr(module, "BEAT", 0.2)
        patch.setattr(ownership, "SILENCE", PATIENCE)
        patch.setattr(rabbit, "ATTEMPTS", 12)
        for name in ("HEARTBEAT", "PATIENCE"):
            patch.setattr(rabbit, name, int(PATIENCE))
        yield


@dataclass
class Member:
    """A process of the cluster that runs as a task in this one."""

    app: App
    node: Node
    task: asyncio.Task[bool]


@dataclass
class Cluster:
    """The bot as its users see it (`bot`), and its parts."""

    folder: Path
    broker: RabbitMQServer
    environ: Mapping[str, str]
    kin: str
    gateways: list[Member] = field(default_factory=list)
    workers: list[Member] = field(default_factory=list)

    async def add_gateway(self, *channels: Channel, until: str = "") -> Member:
        app, node = await self._assemble("gateway", list(channels))
        gateway = Gateway(app, node)
        member = Member(app, node, asyncio.create_task(gateway.run(until)))
        self.gateways.append(member)
        return member

    async def add_worker(self) -> Member:
        app, node = await self._assemble("worker", [RemoteChannel("pipe"), RemoteChannel("afar")])
        worker = Worker(app, node)
        member = Member(app, node, asyncio.create_task(worker.run()))
        self.workers.append(member)
        return member

    async def _assemble(self, role: str, channels: list[Channel]) -> tuple[App, Node]:
        layers = load_layers(self.folder / "config.json", self.environ)
        app = await assemble(layers, self.folder / "data", channels, ClusterSender)
        broker = RabbitMQ(self.broker.url, name_process(role), self.kin)
        return app, Node(app, broker, role, asyncio.Event())

    async def until_shared(self) -> None:
        """Wait until every worker has its share of the slices."""

        def is_shared() -> bool:
            for one in self.workers:
                assert not one.task.done() or one.task.result(), "it takes part no more"
            held = [len(one.node.ownerships[GROUP].held) for one in self.workers]
            return sum(held) == SLICES and max(held) - min(held) <= 1

        await until(is_shared)

    async def kill_all(self) -> None:
        """Wait until none of them stores or sends anything."""
        for member in (*self.gateways, *self.workers):
            app = member.app
            for queues in (app.bot.commands.queues, app.turns.queues, app.delivery.queues):
                await queues.close()
            await member.node.broker.close()
            await cancel_and_wait(member.task)
            await app.config.models.close()
            await app.store.close()

    async def stop(self, member: Member) -> None:
        """Stop cleanly, as after SIGTERM."""
        member.node.stopping.set()
        await asyncio.wait_for(member.task, PATIENCE)


@asynccontextmanager
async def clustered(
    folder: Path,
    broker: RabbitMQServer,
    endpoint: OpenAIServer,
    settings: Mapping[str, Any] | None = None,
    workers: int = 2,
) -> AsyncIterator[Cluster]:
    """Start workers without a gateway."""
    config = {"model": "gpt-4o-mini", **(settings or {})}
    (folder / "config.json").write_text(json.dumps(config))
    environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
    # A later one on the same folder is the same bot.
    kin = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
    cluster = Cluster(folder, broker, environ, kin)
    broker.kins.add(kin)
    async with AsyncExitStack() as stack:
        stack.enter_context(small_and_quick())
        stack.push_async_callback(_stop, cluster)
        for _ in range(workers):
            await cluster.add_worker()
        await cluster.until_shared()
        yield cluster


async def _stop(cluster: Cluster) -> None:
    for member in (*cluster.gateways, *cluster.workers):
        if not member.task.done():
            await cluster.stop(member)
        if not member.task.cancelled():
            member.task.result()


def channel(name: str = "pipe") -> TestChannel:
    return TestChannel(name)
