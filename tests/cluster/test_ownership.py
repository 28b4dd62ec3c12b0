"""Tests of ownership over a real RabbitMQ: one owner at a time, and a fair share for each."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import aio_pika
import pytest

from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from plugins.cluster.ownership import Ownership
from plugins.cluster.rabbit import BrokerListener, RabbitMQ
from plugins.cluster.wire import BrokerError, OwnerCall
from tests.cluster.cluster_testbot import small_and_quick
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.waiting import PATIENCE, until

NAMES = [f"slice.{number}" for number in range(8)]
BEAT = 0.2  # seconds between two heartbeats


class Process(BrokerListener):
    """A process with its connection, in this one; `log` has the events of all of them."""

    def __init__(self, url: str, me: str, kin: str, log: list[str]) -> None:
        self.broker = RabbitMQ(url, me, kin)
        self.broker.listener = self
        self.ownership = Ownership(self.broker, self, NAMES, lost_after=1.0)
        self.log, self.hold = log, asyncio.Event()
        self.hold.set()
        self.is_unable = False
        self.fails_to_lose = False
        self.patience, self.attempts = PATIENCE, Counter[str]()
        self._beating: asyncio.Task[None] | None = None
        self._over = asyncio.Event()

    def disconnected(self) -> None:
        self.ownership.disconnected()

    async def reconnected(self) -> None:
        await self.ownership.reconnected()

    def handle_message(self, topic: str, body: bytes) -> None:
        if topic == "beat":
            self.ownership.record_heartbeat(body.decode())

    async def start(self) -> None:
        await self.broker.start()
        await self.broker.listen("beat")
        await self.ownership.start()
        self._beating = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            with suppress(BrokerError):
                await self.broker.broadcast("beat", self.broker.me.encode())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), BEAT)

    async def stop(self) -> None:
        """Stop it cleanly."""
        if self._beating is not None:
            await cancel_and_wait(self._beating)
        await self.ownership.close()
        await self.broker.close()

    async def die(self) -> None:
        """Kill it: the connection breaks, without an announcement."""
        if self._beating is not None:
            await cancel_and_wait(self._beating)
        await self.broker.close()

    async def gain(self, name: str) -> None:
        self.attempts[name] += 1
        if self.is_unable:
            raise BrokerError("not now")
        self.log.append(f"{self.broker.me} gains {name}")

    async def finish(self, name: str, calls: Collection[asyncio.Task[None]]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.patience):
                await self.hold.wait()
                if calls:
                    await asyncio.wait(calls)

    async def lose(self, name: str) -> None:
        if self.fails_to_lose:
            raise StoreError("The database can't be reached.")
        self.log.append(f"{self.broker.me} loses {name}")

    async def list_orphans(
        self, names: Sequence[str], alive: Collection[str] | None = None
    ) -> list[str]:
        return [*names]

    async def handle(self, name: str, call: OwnerCall) -> None:
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.log.append(f"{self.broker.me} cuts {call.body.decode()}")
            raise
        again = " again" if call.is_again else ""
        self.log.append(f"{self.broker.me} does {call.body.decode()}{again}")
        await call.answer(b"half", False)
        await call.answer(f"{self.broker.me}: {call.body.decode()}".encode(), True)

    async def asks(self, name: str, text: str) -> str:
        pieces = [piece async for piece in self.broker.call(name, text.encode(), PATIENCE)]
        assert pieces[:-1] == [b"half"]
        return pieces[-1].decode()


class Cluster:
    def __init__(self, url: str, stack: AsyncExitStack) -> None:
        self.url, self.kin, self.log = url, uuid4().hex[:8], list[str]()
        self.alive: dict[str, Process] = {}
        self._stack = stack

    async def add(self, me: str, is_unable: bool = False) -> Process:
        one = self.alive[me] = Process(self.url, me, self.kin, self.log)
        one.is_unable = is_unable
        self._stack.push_async_callback(self._end, me)
        await one.start()
        return one

    async def add_caller(self) -> Process:
        """Start a process that owns nothing, and never will."""
        caller = Process(self.url, "caller", self.kin, self.log)
        await caller.broker.start()
        self._stack.push_async_callback(caller.broker.close)
        return caller

    async def _end(self, me: str) -> None:
        if one := self.alive.pop(me, None):
            one.hold.set()
            await one.stop()

    async def stop(self, me: str) -> None:
        """Stop one cleanly, which announces its end to the others."""
        stopping = self.alive.pop(me)
        for one in self.alive.values():
            one.ownership.record_end(me)
        await stopping.stop()

    async def kill(self, me: str) -> None:
        await self.alive.pop(me).die()

    async def shares(self, *counts: int) -> None:
        """Wait until those alive own this many each, and everything is owned."""

        def are_so() -> bool:
            return sorted(len(one.ownership.held) for one in self.alive.values()) == sorted(counts)

        await until(are_so, lambda: str({m: o.ownership.held for m, o in self.alive.items()}))


@asynccontextmanager
async def run_bot(server: RabbitMQServer, is_patient: bool = True) -> AsyncIterator[Cluster]:
    async with AsyncExitStack() as stack:
        if is_patient:
            stack.enter_context(small_and_quick())
        cluster = Cluster(server.url, stack)
        server.kins.add(cluster.kin)
        yield cluster


@pytest.fixture
async def cluster(broker: RabbitMQServer) -> AsyncIterator[Cluster]:
    async with run_bot(broker) as cluster:
        yield cluster


async def test_a_call_reaches_the_owner_and_its_answer_the_caller(cluster: Cluster) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    assert await one.asks("slice.3", "hello") == "one: hello"


async def test_what_is_owned_is_shared_evenly_as_processes_come_and_go(cluster: Cluster) -> None:
    await cluster.add("one")
    await cluster.shares(8)
    await cluster.add("two")
    await cluster.shares(4, 4)
    await cluster.add("three")
    await cluster.shares(3, 3, 2)
    await cluster.stop("one")
    await cluster.shares(4, 4)
    owner: dict[str, str] = {}
    for line in cluster.log:
        me, what, name = line.split()
        if what == "gains":
            assert name not in owner, "nothing is owned by two"
            owner[name] = me
        else:
            assert owner.pop(name) == me
    await cluster.kill("three")
    await cluster.shares(8)
    gained = [line for line in cluster.log if "gains" in line]
    assert len(gained) <= 8 + 4 + 6 + 6 + 6, "nothing moves to and fro"


async def test_the_last_one_says_farewell_and_hears_it_itself(cluster: Cluster) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    one.ownership.record_end("one")
    await one.ownership._move()
    assert len(one.ownership.held) == 8


async def test_a_call_that_a_dead_process_began_with_reaches_the_next_owner(
    cluster: Cluster,
) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    caller = await cluster.add_caller()
    one.hold.clear()
    asking = asyncio.create_task(caller.asks("slice.0", "hello"))
    await until(lambda: any(owned.running for owned in one.ownership._owned.values()))
    await cluster.add("two")
    await cluster.kill("one")
    assert await asking == "two: hello"
    assert "two does hello again" in cluster.log


async def test_calls_are_begun_in_order_also_those_that_wait_for_an_owner(
    cluster: Cluster,
) -> None:
    caller = await cluster.add("caller", is_unable=True)
    asking = [asyncio.create_task(caller.asks("slice.0", f"{number:02}")) for number in range(30)]
    await asyncio.sleep(0)
    await cluster.add("one")
    await asyncio.gather(*asking)
    done = [line.split()[2] for line in cluster.log if " does " in line]
    assert done == sorted(done)
    assert len(done) == 30


async def test_who_can_not_take_something_over_lets_the_next_in_line_try(
    cluster: Cluster,
) -> None:
    await cluster.add("unable", is_unable=True)
    await cluster.add("able")
    await until(lambda: len(cluster.alive["able"].ownership.held) == 8)


async def test_what_nobody_owns_is_said_to_the_caller(cluster: Cluster) -> None:
    one = await cluster.add("one", is_unable=True)
    with pytest.raises(BrokerError, match=r"took too long"):
        await anext(one.broker.call("slice.0", b"x", 0.3))


async def test_a_second_token_makes_no_second_owner(cluster: Cluster) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    for _ in range(3):
        await one.broker.put_token("slice.0")
    assert await one.asks("slice.0", "after") == "one: after"
    assert cluster.log.count("one gains slice.0") == 1


async def test_a_broker_that_was_killed_and_comes_back_finds_the_owners_it_left(
    own_broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plugins.cluster.ownership.COURTESY", PATIENCE)
    async with run_bot(own_broker, is_patient=False) as cluster:
        one, two = await cluster.add("one"), await cluster.add("two")
        await cluster.shares(4, 4)
        before = {me: sorted(process.ownership.held) for me, process in cluster.alive.items()}
        await asyncio.to_thread(own_broker.restart)
        answers = [await one.asks(name, name) for name in NAMES]
        assert answers == [f"{'one' if name in before['one'] else 'two'}: {name}" for name in NAMES]
        assert {"one": sorted(one.ownership.held), "two": sorted(two.ownership.held)} == before
        assert not any("loses" in line for line in cluster.log[-8:])


async def test_what_is_under_way_is_over_before_another_process_owns_it(cluster: Cluster) -> None:
    """Wait for its files on disk, which exist when the next owner looks for them."""
    one = await cluster.add("one")
    await cluster.shares(8)
    caller = await cluster.add_caller()
    one.hold.clear()
    one.patience = 0.1
    asking = asyncio.create_task(caller.asks("slice.0", "hello"))
    await until(lambda: any(owned.running for owned in one.ownership._owned.values()))
    await one.ownership._release(one.ownership._owned["slice.0"])
    log = cluster.log
    assert log.index("one cuts hello") < log.index("one loses slice.0"), log
    one.hold.set()
    assert await asking == "one: hello"
    assert "one does hello again" in log


async def test_what_can_not_be_given_up_in_good_order_is_taken_over_nevertheless(
    cluster: Cluster,
) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    one.fails_to_lose = True
    await cluster.add("two")
    await cluster.shares(4, 4)


async def test_a_client_that_cancels_what_it_was_asked_for_ends_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same happens when a connection breaks."""
    consume, asked = aio_pika.Queue.consume, list[str]()

    async def cancel_once(queue: aio_pika.Queue, *arguments: Any, **others: Any) -> Any:
        if ".slice." in queue.name:
            asked.append(queue.name)
            if len(asked) == 1:
                raise asyncio.CancelledError
        return await consume(queue, *arguments, **others)

    monkeypatch.setattr(aio_pika.Queue, "consume", cancel_once)
    await cluster.add("one")
    await cluster.shares(8)


async def test_a_call_that_is_in_hand_twice_is_settled_twice(cluster: Cluster) -> None:
    one = await cluster.add("one")
    await cluster.shares(8)
    one.hold.clear()
    caller = await cluster.add_caller()
    message = aio_pika.Message(b"hello", type="call", correlation_id="the same")
    for _ in range(2):
        await caller.broker._publish("slice.0", message, PATIENCE)
    asking = asyncio.create_task(caller.asks("slice.0", "sentinel"))
    await until(lambda: len(one.ownership._owned["slice.0"].running) == 2)
    one.hold.set()
    assert await asking == "one: sentinel"
    await until(lambda: not one.ownership._owned["slice.0"].running)
    await cluster.kill("one")
    two = await cluster.add("two")
    assert await two.asks("slice.0", "after") == "two: after"
    assert [line for line in cluster.log if "hello" in line] == ["one does hello"]


async def test_a_token_that_the_broker_threw_away_is_replaced(
    cluster: Cluster, broker: RabbitMQServer
) -> None:
    """RabbitMQ can be configured to discard messages that return too often, and newer versions do
    so by default."""
    await asyncio.to_thread(broker.set_policy, "limit", rf"^{cluster.kin}\.", {"delivery-limit": 1})
    one = await cluster.add("one", is_unable=True)
    await until(lambda: one.attempts["slice.0"] == 2)
    one.is_unable = False
    await cluster.shares(8)
