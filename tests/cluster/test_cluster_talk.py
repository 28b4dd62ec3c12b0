"""A gateway and workers are one bot: what is said reaches the owner, and the answer comes back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from channels.base import Activity, Delta, Done, TurnStarted
from channels.message import Address
from plugins.cluster import gateway
from tests.cluster.cluster_testbot import channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.cluster.test_handing_over import owner
from tests.fakes.openai_server import OpenAIServer, Say
from tests.waiting import until


async def test_messages_commands_and_transcripts_go_to_the_owner(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with (
        OpenAIServer([Say("Hello!"), Say("And again.")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        assert (await bot.says("Hi")).text == "Hello!"
        assert (await bot.says("Hi again")).text == "And again."
        api = await bot.api()
        reply = await api.command(Address("pipe", "main"), "/context")
        assert "2" in reply.text
        said = await api.transcript(Address("pipe", "main"))
        assert [one.text for one in said] == ["Hi", "Hello!", "Hi again", "And again."]
        assert [one.chat for one in await api.sessions("pipe")] == ["main"]


async def test_who_watches_sees_the_turn_when_its_owner_is_another_by_now(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "RENEWAL", 3600)
    async with (
        OpenAIServer([Say("Hello!"), Say("Hello again!")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        events: list[Activity] = []
        watching = await bot.watches(events)
        assert (await bot.says("Hi")).text == "Hello!"
        await until(lambda: isinstance(events[-1], Done))
        kinds = [type(event) for event in events]
        assert kinds.index(TurnStarted) < kinds.index(Delta) < kinds.index(Done)
        leaving = owner(cluster)
        await cluster.stop(leaving)
        (staying,) = (worker for worker in cluster.workers if worker is not leaving)
        await until(lambda: staying.app.bus.is_watched("pipe/main"))
        assert (await bot.says("Hi again")).text == "Hello again!"
        await until(lambda: sum(isinstance(one, Done) for one in events) == 2)
        watching.cancel()
        assert "".join(e.text for e in events if isinstance(e, Delta)) == "Hello!Hello again!"


async def test_who_comes_in_the_middle_of_a_turn_sees_it_from_its_beginning(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    gate = asyncio.Event()
    async with (
        OpenAIServer([Say("It begins here, and ends.", gate=gate)]) as endpoint,
        clustered(tmp_path, broker, endpoint, workers=1) as cluster,
    ):
        first, second = channel(), channel("afar")
        await cluster.add_gateway(first)
        await cluster.add_gateway(second)
        await first.writes("Hi", id="long")
        worker = owner(cluster)
        await until(lambda: any(isinstance(e, Delta) for e in worker.app.bus.so_far("pipe/main")))
        events: list[Activity] = []
        watching = await second.watches(events, channel="pipe")
        await until(lambda: any(isinstance(one, Delta) for one in events))
        gate.set()
        assert (await first.reply_to("long")).reply.text == "It begins here, and ends."
        await until(lambda: isinstance(events[-1], Done))
        watching.cancel()
        assert [type(one) for one in events].count(TurnStarted) == 1
        assert (
            "".join(e.text for e in events if isinstance(e, Delta)) == "It begins here, and ends."
        )
