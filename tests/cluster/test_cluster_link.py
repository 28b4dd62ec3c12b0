"""`/link` where several processes are one bot: both chats come to the same owner."""

from __future__ import annotations

import re
from pathlib import Path

from channels.base import Activity, TurnStarted
from plugins.accounts.logins import PageLogins
from plugins.cluster.node import CHANGES, Node
from plugins.cluster.slices import slice_of
from tests.cluster.cluster_testbot import Cluster, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.cluster.test_cluster_gateways import Everywhere
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.waiting import until
from tests.whole.testbot import TestChannel

CODE = re.compile(r"`/link ([A-Z2-9]{4}-[A-Z2-9]{4})`")


def count(request: Received) -> Say:
    said = [m["content"] for m in request.body["messages"] if m["role"] == "user"]
    return Say(f"{len(said)}: {said[-1]}")


def chats_of_two_owners(cluster: Cluster) -> tuple[str, str]:
    """Two chats whose slices different workers own."""
    first = cluster.workers[0].app.conversations.is_ours
    names = [f"c{number}" for number in range(200)]
    here = next(name for name in names if first(f"pipe/{name}"))
    there = next(name for name in names if not first(f"afar/{name}"))
    return here, there


def make_deaf(node: Node) -> None:
    """It does not hear that chats were linked: what is told gets lost at times."""
    hear = node.broker.hear
    node.broker.hear = lambda topic, body: None if topic == CHANGES else hear(topic, body)


async def test_who_is_signed_out_on_one_gateway_is_out_on_all(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with OpenAIServer() as endpoint, clustered(tmp_path, broker, endpoint) as cluster:
        doors = [Everywhere("pipe"), Everywhere("pipe")]
        gateways = [await cluster.add_gateway(door) for door in doors]
        for door in doors:
            await door.api()
        here, there = (member.app.features.service(PageLogins) for member in gateways)
        code = await here.invite("ann", "user", "a test")
        secret = await here.join(code, "", "a browser")
        assert secret is not None
        login = await there.find(secret, "")
        assert login is not None
        assert login.user == "ann"
        told = there.changed
        await here.end(login.number)
        assert await there.find(secret, "") is None
        await until(told.is_set)


async def test_chats_of_two_owners_have_one_after_link_and_their_own_after_unlink(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    settings = {"owners": [f"afar/c{number}" for number in range(200)]}
    async with (
        OpenAIServer(count) as endpoint,
        clustered(tmp_path, broker, endpoint, settings) as cluster,
    ):
        pipe, afar = TestChannel("pipe"), TestChannel("afar")
        afar.count = 1000
        await cluster.add_gateway(pipe)
        other = await cluster.add_gateway(afar)
        make_deaf(other.node)
        here, there = chats_of_two_owners(cluster)
        assert slice_of(f"pipe/{here}") != slice_of(f"afar/{there}")
        assert (await pipe.says("one", here)).text == "1: one"
        assert (await afar.says("elsewhere", there, there)).text == "1: elsewhere"
        found = CODE.search((await pipe.says("/link", here)).text)
        assert found is not None

        events: list[Activity] = []
        watching = await pipe.watches(events, here)
        await afar.says(f"/link {found[1]}", there, there)
        assert "is linked" in (await pipe.says(f"/link yes afar/{there}", here)).text
        assert (await afar.says("two", there, there)).text == "2: two"
        assert (await pipe.says("three", here)).text == "3: three"
        await until(lambda: any(isinstance(one, TurnStarted) for one in events))
        watching.cancel()

        await cluster.stop(cluster.workers[0])  # the other one takes its slices up, and the link
        await cluster.add_worker()
        assert (await afar.says("four", there, there)).text == "4: four"
        await pipe.says("/unlink all", here)
        assert (await afar.says("five", there, there)).text == "2: five"
