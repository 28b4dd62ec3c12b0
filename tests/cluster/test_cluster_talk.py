"""A gateway and workers are one bot: messages reach the owner, and the answers come back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiormq.abc import TaskWrapper
from aiormq.exceptions import AMQPConnectionError

from bot.delivery import columns_of
from bot.recent import RecentActivity
from bot.sending import dump_reply
from channels.base import Activity, Delta, Done, TurnStarted
from channels.message import Address, Outbound, Reply
from memory.record import mailbox
from memory.record.database import Database
from memory.record.mailbox import OutboxRow
from memory.record.store import Store, StoreError
from plugins.cluster import gateway
from plugins.cluster.node import ClusterSender
from plugins.cluster.rabbit import RabbitMQ
from plugins.cluster.wire import BrokerError
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


class Breaking:
    """An exchange of the client, whose connection breaks during a publish."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.under_way: TaskWrapper

    async def publish(self, *_: object, **__: object) -> None:
        self.under_way = TaskWrapper(asyncio.create_task(asyncio.Event().wait()))
        self.asked.set()
        await self.under_way

    def breaks(self) -> None:
        """Break it as `aiormq` does."""
        self.under_way.throw(AMQPConnectionError("gone"))


async def tell_over_a_breaking_connection(is_cancelled: bool) -> asyncio.Task[None]:
    """Return the task that publishes, which is done; it may be cancelled at that moment."""
    broker, exchange = RabbitMQ("amqp://nowhere", "me"), Breaking()
    broker._link = SimpleNamespace(told=exchange)  # type: ignore[assignment]
    broker._is_up.set()
    telling = asyncio.create_task(broker.broadcast("topic", b""))
    await exchange.asked.wait()
    exchange.breaks()
    if is_cancelled:
        telling.cancel()
    await asyncio.wait({telling})
    return telling


async def test_who_is_cancelled_just_when_the_connection_breaks_is_over() -> None:
    """The client then reports only that the connection broke; a loop would continue, and a caller
    that waits for its end would wait for ever."""
    assert (await tell_over_a_breaking_connection(is_cancelled=True)).cancelled()
    broken = await tell_over_a_breaking_connection(is_cancelled=False)
    assert isinstance(broken.exception(), BrokerError)


HOME = Address("pipe", "home")


async def test_a_reply_that_could_not_be_marked_as_sent_is_marked_later_and_sent_once(
    tmp_path: Path,
) -> None:
    """A gateway waits for its mark when it ends."""
    store, sent, is_down = await Store.open(tmp_path / "parley.db"), list[Outbound](), False

    class Pipe:
        name = "pipe"

        async def send(self, outbound: Outbound) -> None:
            nonlocal is_down
            sent.append(outbound)
            is_down = True

    def check(db: Database) -> None:
        if is_down:
            raise StoreError("the database is being restarted")

    store.fence(check)
    sender = ClusterSender(store, {"pipe": Pipe()}, tmp_path, RecentActivity())  # type: ignore[dict-item]
    sender.node = SimpleNamespace(me="gateway")  # type: ignore[assignment]
    try:
        row = OutboxRow(columns_of(HOME), "m1", None, dump_reply(Reply("Hello!")))
        outbox = await store.write(lambda db: mailbox.enqueue_reply(db, row))
        for _ in range(3):  # announced, and found in the outbox, repeatedly
            sender.deliver(Outbound(outbox, HOME, Reply("Hello!"), "m1"))
            await sender.queues.idle()
        assert await store.read(lambda db: mailbox.is_waiting(db, ["pipe"], ()))
        is_down = False
        sender.deliver(Outbound(outbox, HOME, Reply("Hello!"), "m1"))
        await sender.queues.idle()
        assert not await store.read(lambda db: mailbox.is_waiting(db, ["pipe"], ()))
        assert len(sent) == 1
    finally:
        await store.close()
