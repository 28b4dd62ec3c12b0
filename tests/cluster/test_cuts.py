"""The link between a worker and a server is cut at random moments, while people send messages."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiohttp import web

from tests.cluster.cluster_processes import (
    HASTY,
    Processes,
    answered,
    cluster_of,
    slice_of,
    until_shared,
)
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes import openai_server, payments
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.fakes.payments import PayingModel
from tests.servers.link import Link
from tests.servers.postgresql import PostgresqlServer
from tests.waiting import PATIENCE, until
from tests.whole.process import BotProcess

EACH, CHATS = 4, 4
"""Messages in each chat, and chats of each worker."""


@dataclass
class Cut:
    """A cluster with one worker whose connections to the servers use these links."""

    processes: Processes
    gateway: BotProcess
    links: Mapping[str, Link]
    mine: Sequence[str]
    """The chats of that worker."""
    theirs: Sequence[str]
    """The messages of the other."""

    def heard(self) -> int:
        return len({line["reply_to"] for line in self.gateway.replies})

    @property
    def all(self) -> int:
        return EACH * len((*self.mine, *self.theirs))

    async def until_heard(self, count: int) -> None:
        await self.gateway.until(lambda: self.heard() >= count)

    async def say_all(self, numbers: Iterable[int] = range(EACH)) -> None:
        """Send messages that name their chat, since a payment is found by its text."""
        for number in numbers:
            for chat in (*self.mine, *self.theirs):
                await self.gateway.tell(f"{chat}-{number}", chat=chat, id=f"{chat}-{number}")

    async def check(self) -> None:
        """Check that every message was answered, once and in order, and nothing was paid twice."""
        await self.until_heard(self.all)
        assert await self.gateway.ended() == 0, self.gateway.errors
        chats = dict.fromkeys((*self.mine, *self.theirs), EACH)
        expected = {chat: [f"re: {chat}-{n}" for n in range(EACH)] for chat in chats}
        assert answered(chats, self.gateway) == expected
        paid = Counter(payments.made(self.processes.folder))
        assert set(paid.values()) == {1}, paid
        for process in self.processes.workers:
            assert not process.is_over, process.errors
            assert "Traceback" not in process.errors
            assert "never retrieved" not in process.errors


@asynccontextmanager
async def run_bot(
    folder: Path,
    servers: Mapping[str, Any],
    broker: RabbitMQServer,
    postgresql: str,
    server: PostgresqlServer,
) -> AsyncIterator[Cut]:
    payments.install(folder)
    database = postgresql.partition("?")[0].rpartition("/")[2]
    async with (
        PayingModel(0.15) as endpoint,
        cluster_of(folder, endpoint, servers, workers=1) as processes,
        Link(broker.port) as to_broker,
        Link(f"{server.folder}/.s.PGSQL.5432") as to_database,
    ):
        urls = {
            "BROKER_URL": f"amqp://guest:guest@127.0.0.1:{to_broker.port}/",
            "DATABASE_URL": f"postgresql://parley@127.0.0.1:{to_database.port}/{database}"
            "?sslmode=disable",
        }
        victim = await processes.start("--role", "worker", change=HASTY, environ=urls)
        processes.workers.append(victim)
        gateway = await processes.add_gateway()
        owners = await until_shared(postgresql, 2)
        mine, theirs = list[str](), list[str]()
        for number in itertools.count():
            chat = f"chat{number}"
            is_mine = owners[slice_of(chat)] == victim.process.pid
            (mine if is_mine else theirs).append(chat)
            if min(len(mine), len(theirs)) == CHATS:
                break
        links = {"broker": to_broker, "database": to_database}
        yield Cut(processes, gateway, links, mine[:CHATS], theirs[:CHATS])


async def test_links_that_break_again_and_again_cost_a_delay(
    tmp_path: Path,
    servers: Mapping[str, Any],
    broker: RabbitMQServer,
    postgresql: str,
    postgresql_server: PostgresqlServer,
) -> None:
    chance = random.Random(14)
    async with run_bot(tmp_path, servers, broker, postgresql, postgresql_server) as cut:
        await cut.say_all()
        for number in range(8):
            reached = min(cut.heard() + chance.randrange(4), cut.all)
            await cut.until_heard(reached)
            cut.links[("broker", "database")[number % 2]].reset()
        await cut.check()


@pytest.mark.parametrize("server", ["broker", "database"])
async def test_over_a_link_that_swallows_all_the_other_worker_is_waited_for_and_goes_on(
    server: str,
    tmp_path: Path,
    servers: Mapping[str, Any],
    broker: RabbitMQServer,
    postgresql: str,
    postgresql_server: PostgresqlServer,
) -> None:
    """The broker reassigns the slices of a silent worker; if the database is silent, the worker
    itself gets no response, and releases them. Data that comes over the repaired link is too late.
    """
    async with run_bot(tmp_path, servers, broker, postgresql, postgresql_server) as cut:
        await cut.say_all(range(EACH - 1))
        await cut.until_heard(5)
        cut.links[server].swallow()
        await cut.say_all([EACH - 1])  # some of it to the worker without a connection
        await cut.until_heard(cut.all)
        cut.links[server].mend()
        await cut.check()


class Held(OpenAIServer):
    """A model that answers nothing until allowed."""

    def __init__(self) -> None:
        super().__init__()
        self.continue_summary = asyncio.Event()

    async def _respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        await self.continue_summary.wait()
        return await openai_server._act(request, received, Say("Here I am."), (1, 0))


async def test_a_worker_that_must_begin_anew_waits_until_it_reaches_the_broker_again(
    tmp_path: Path,
    servers: Mapping[str, Any],
    broker: RabbitMQServer,
    postgresql: str,
) -> None:
    async with (
        Held() as endpoint,
        cluster_of(tmp_path, endpoint, servers, workers=0) as processes,
        Link(broker.port) as link,
    ):
        url = f"amqp://guest:guest@127.0.0.1:{link.port}/"
        worker = await processes.start("--role", "worker", environ={"BROKER_URL": url})
        gateway = await processes.add_gateway()
        await gateway.tell("Are you there?", id="m1")
        async with asyncio.timeout(PATIENCE):
            await endpoint.reached.acquire()
        link.take_down()
        with psycopg.connect(postgresql) as connection:
            connection.execute("UPDATE process SET is_fenced = 1 WHERE role = 'worker'")
        endpoint.continue_summary.set()
        await until(lambda: worker.is_over or "can't begin anew yet" in worker.errors)
        assert not worker.is_over, worker.errors
        link.mend()
        assert (await gateway.reply_to("m1"))["text"] == "Here I am."
        assert "Traceback" not in worker.errors
        assert "never retrieved" not in worker.errors
