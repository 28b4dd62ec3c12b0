"""`/status` and `/metrics` of a bot of several processes: the owners, and the work of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from bot.app import VERSION
from channels.message import Address, Reply
from memory.tasks import cancel_and_wait
from plugins.cluster import record
from plugins.cluster.node import FORGOTTEN
from plugins.cluster.rabbit import RabbitMQ
from tests.cluster.cluster_processes import cluster_of
from tests.cluster.cluster_testbot import SLICES, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say
from tests.metrics.test_metrics import free_port, named, parse, scrape
from tests.waiting import PATIENCE, until
from tests.whole.testbot import TestChannel

NAMES = ("slice.0", "slice.1")


def of(reply: Reply) -> dict[str, Any]:
    data = reply.data
    assert isinstance(data, dict)
    found = data["cluster"]
    assert isinstance(found, dict)
    return found


async def status_where(bot: TestChannel, is_so: Callable[[dict[str, Any]], bool]) -> Reply:
    """Wait until /status has this text, and return it."""

    async def found() -> Reply | None:
        reply = await bot.says("/status")
        return reply if is_so(of(reply)) else None

    shown = await until(found)
    assert shown is not None
    return shown


def silent(shown: dict[str, Any]) -> list[str]:
    return [one["name"] for one in shown["processes"] if not one["is_heard"]]


async def test_status_shows_owners_every_process_its_slices_and_what_waits(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with OpenAIServer([]) as endpoint, clustered(tmp_path, broker, endpoint) as run_bot:
        bot = TestChannel("pipe")
        gateway = await run_bot.add_gateway(bot)
        reply = await bot.says("/status")
        shown = of(reply)
        assert {one["name"]: one["slices"] for one in shown["processes"]} == {
            gateway.node.me: 0,
            **{one.node.me: SLICES // 2 for one in run_bot.workers},
        }
        assert {one["version"] for one in shown["processes"]} == {VERSION}
        assert silent(shown) == []
        assert (shown["unowned"], shown["queued"], shown["longest"]) == (0, 0, 0)
        assert (shown["unanswered"], shown["unsent"]) == (1, 0), "this command alone"
        assert 0 <= shown["lag"] < PATIENCE
        assert f"All run Parley {VERSION}." in reply.text
        assert "| process | up | slices |" in reply.text
        assert "Not answered yet: 1 message, the oldest for" in reply.text

        gone = "worker-long-gone-1-abc"
        store = run_bot.workers[0].app.store
        await store.write(lambda db: record.join(db, gone, "worker", VERSION))
        reply = await status_where(bot, lambda shown: silent(shown) == [gone])
        assert "| worker-long-gone-1 | silent | 0 |" in reply.text

        node = run_bot.workers[0].node
        await node.forget_silent()
        assert silent(of(await bot.says("/status"))) == [gone], "it may come back"
        node._begun -= FORGOTTEN
        await node.forget_silent()
        shown = of(await bot.says("/status"))
        assert {one["name"] for one in shown["processes"]} == {
            *(one.node.me for one in (gateway, *run_bot.workers))
        }
        assert shown["unowned"] == 0


async def test_status_tells_a_user_nothing_of_the_processes(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer([]) as endpoint,
        clustered(tmp_path, broker, endpoint, workers=1) as run_bot,
    ):
        bot = TestChannel("pipe")
        await run_bot.add_gateway(bot)
        lee = Address("pipe", "lee", user="lee")
        app = run_bot.workers[0].app
        assert await app.processes.status() is not None
        await app.access.open_chat(lee, "pipe/main")
        reply = await (await bot.api()).command(lee, "/status")
        assert "Up for" in reply.text
        assert "slices" not in reply.text
        assert isinstance(reply.data, dict)
        assert "cluster" not in reply.data


async def test_calls_that_wait_for_an_owner_are_counted_and_tokens_are_not(
    broker: RabbitMQServer,
) -> None:
    broker.kins.add(kin := uuid4().hex)
    server = RabbitMQ(broker.url, "one", kin)
    await server.start()
    try:
        assert server.version.split(".")[0].isdigit()
        assert await server.count_waiting(NAMES) == {}, "nothing is there yet"
        await server.declare(NAMES)
        await asyncio.gather(*map(server.put_token, NAMES))  # as the first owners do
        calling = asyncio.create_task(anext(server.call(NAMES[1], b"{}", PATIENCE)))

        async def is_there() -> bool:
            return await server.count_waiting(NAMES) == {NAMES[0]: 0, NAMES[1]: 1}

        await until(is_there)
        assert not calling.done()
        await cancel_and_wait(calling)
    finally:
        await server.close()


async def test_a_worker_has_the_turns_and_a_gateway_the_replies(
    tmp_path: Path, servers: Mapping[str, Any]
) -> None:
    settings = {**servers, "metrics": {"enabled": True}}
    ports = {"worker": free_port(), "gateway": free_port()}
    async with (
        OpenAIServer([Say("Hello.")]) as endpoint,
        cluster_of(tmp_path, endpoint, settings, workers=0) as processes,
    ):
        roles = {"worker": ("--role", "worker"), "gateway": ("--role", "gateway", "--jsonl")}
        started = {
            role: await processes.start(
                *arguments, environ={"PARLEY_METRICS__PORT": str(ports[role])}
            )
            for role, arguments in roles.items()
        }
        assert (await started["gateway"].says("Hi"))["text"] == "Hello."
        found = {role: parse((await scrape(port))[1]) for role, port in ports.items()}
    turn = named("parley_turns_total", channel="pipe", outcome="answered")
    reply = named("parley_replies_total", channel="pipe")
    assert found["worker"][turn] == 1
    assert turn not in found["gateway"]
    assert found["gateway"][reply] == 1
    assert reply not in found["worker"]
