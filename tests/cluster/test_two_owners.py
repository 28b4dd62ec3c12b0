"""A wake-up that arrives twice or in the wrong order, and an owner that does not know that another
has taken over: with a real broker."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from bot.sending import dump_reply
from channels.base import Activity, Delta
from channels.message import Address, Inbound, Outbound, Reply
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, OutboxRow
from plugins.cluster import record as record_of_owners
from plugins.cluster import wire
from plugins.cluster.node import topic_of
from plugins.cluster.wire import name_of_slice, slice_of
from plugins.cluster.worker import GROUP
from tests.cluster.cluster_testbot import SLICES, Cluster, Member, channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Say, echo
from tests.servers.link import Link
from tests.waiting import PATIENCE, until

MAIN = AddressColumns("pipe", "main", "", "")


async def test_a_duplicate_and_a_reordered_wake_up_of_replies_change_nothing(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    """Gateways are notified of replies in any order, and any number of times: each is sent once,
    and in the order in which they were written."""
    async with (
        OpenAIServer(echo) as endpoint,
        clustered(tmp_path, broker, endpoint, workers=1) as cluster,
    ):
        bot = channel()
        gateway = await cluster.add_gateway(bot)
        await bot.says("Hi")
        rows = [OutboxRow(MAIN, f"told-{n}", None, dump_reply(Reply(f"{n}"))) for n in range(4)]
        store = cluster.workers[0].app.store
        ids = await store.write(lambda db: [mailbox.enqueue_reply(db, row) for row in rows])
        told = [
            Outbound(number, Address("pipe", "main"), Reply(f"{n}"), f"told-{n}")
            for n, number in enumerate(ids)
        ]
        for outbound in (told[2], told[0], told[3], told[2], told[1], told[0], told[3]):
            body = wire.dump({"outbound": outbound})
            await gateway.node.broker.broadcast(topic_of("pipe"), body)
        assert (await bot.says("Last")).text == "re: Last"
        assert [one.reply.text for one in bot.sent] == ["re: Hi", "0", "1", "2", "3", "re: Last"]
        assert not any(one.is_resent for one in bot.sent)


async def test_a_duplicate_and_a_reordered_wake_up_of_an_owner_change_nothing(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    """An owner gets calls again that it has answered, after later ones, and any number of times:
    none is answered twice."""
    async with (
        OpenAIServer(echo) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        gateway = await cluster.add_gateway(bot)
        for text in ("one", "two", "three"):
            await bot.writes(text, id=text)
        for text in ("one", "two", "three"):
            assert (await bot.reply_to(text)).reply.text == f"re: {text}"
        name = name_of_slice(slice_of("pipe/main"))
        for text in ("three", "one", "two", "one"):
            inbound = Inbound(text, Address("pipe", "main"), text)
            body = wire.dump({"do": "submit", **wire.spool(tmp_path / "data", inbound)})
            (said,) = [piece async for piece in gateway.node.broker.call(name, body, 30)]
            assert wire.parse(said)["value"] == {"id": text, "is_new": False}
        assert (await bot.says("Last")).text == "re: Last"
        asked = [request.body["messages"][-1]["content"] for request in endpoint.requests]
        assert asked == ["one", "two", "three", "Last"]
        assert len(bot.sent) == 4


async def test_of_two_owners_the_one_that_was_passed_over_writes_nothing_and_reaches_nobody(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    """It still considers itself the owner of the slice, and continues with an echo, when it is
    connected again."""
    gate = asyncio.Event()
    script = [Say("I am the first of two.", gate=gate), Say("I am the second.")]
    async with (
        OpenAIServer(script) as endpoint,
        clustered(tmp_path, broker, endpoint, workers=1) as cluster,
        Link(broker.port) as link,
    ):
        zombie = await add_worker_over(cluster, link)
        chat = chat_of(zombie)
        bot = channel()
        await cluster.add_gateway(bot)
        events: list[Activity] = []
        watching = await bot.watches(events, chat)
        await bot.writes("Who are you?", chat, id="asked")
        await until(lambda: any(isinstance(event, Delta) for event in events))

        link.take_down()
        assert (await bot.reply_to("asked")).reply.text == "I am the second."
        assert not zombie.task.done()
        link.mend()
        await until(lambda: zombie.node.broker.is_up or zombie.node.is_fenced)
        gate.set()
        assert not await zombie.task, "it has to begin anew"
        cluster.workers.remove(zombie)
        assert (await bot.says("/context", chat)).text
        watching.cancel()
        said = "".join(event.text for event in events if isinstance(event, Delta))
        assert "two" not in said, "the rest of what the first of them said"
        assert [one.reply_to for one in bot.sent].count("asked") == 1
        api = await bot.api()
        texts = [one.text for one in await api.transcript(Address("pipe", chat))]
        assert texts[:2] == ["Who are you?", "I am the second."]


class Linked(RabbitMQServer):
    """The broker, at the other end of a link."""

    def __init__(self, link: Link) -> None:
        super().__init__(Path())
        self.port = link.port


def chat_of(worker: Member) -> str:
    """Return a chat that this worker owns."""
    held = worker.node.ownerships[GROUP].held
    names = (f"chat{number}" for number in itertools.count())
    return next(name for name in names if name_of_slice(slice_of(f"pipe/{name}")) in held)


async def add_worker_over(cluster: Cluster, link: Link) -> Member:
    """Start a worker that reaches the broker over this link, with its share."""
    direct, cluster.broker = cluster.broker, Linked(link)
    worker = await cluster.add_worker()
    cluster.broker = direct
    await cluster.until_shared()
    return worker


async def test_a_message_that_an_owner_gets_who_was_shut_out_is_the_next_ones(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped, and learns from this message that it has lost the slice; a call that it can't
    store must not be acknowledged, however long it takes to leave the broker."""
    async with (
        OpenAIServer(echo) as endpoint,
        clustered(tmp_path, broker, endpoint, workers=1) as cluster,
    ):
        bot = channel()
        gateway = await cluster.add_gateway(bot)
        await bot.api()
        names = [name_of_slice(number) for number in range(SLICES)]
        await gateway.app.store.write(
            lambda db: [record_of_owners.take(db, name, "a-worker-that-died") for name in names]
        )
        zombie, may_leave = cluster.workers[0], asyncio.Event()
        abandon = zombie.node.abandon

        async def abandon_late() -> None:
            await may_leave.wait()
            await abandon()

        monkeypatch.setattr(zombie.node, "abandon", abandon_late)
        saying = asyncio.create_task(bot.writes("Hi", id="m1"))
        await zombie.node.fenced.wait()
        await asyncio.wait((saying,), timeout=1)  # it would be done, had it been acknowledged
        may_leave.set()
        await asyncio.wait_for(zombie.task, PATIENCE)
        await cluster.add_worker()
        assert (await bot.reply_to("m1")).reply.text == "re: Hi"
        await saying
        assert len(bot.sent) == 1
