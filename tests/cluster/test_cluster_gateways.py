"""Several gateways, and what all processes of a cluster have in common."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.cluster import gateway, wire
from bot.cluster.node import topic_of
from bot.cluster.rabbit import UNANSWERED
from bot.sending import dump_reply
from channels.base import Delta, KeyHolder
from channels.message import (
    Address,
    Attachment,
    Completed,
    CompletionRequest,
    Given,
    NotCompleted,
    Outbound,
    Reply,
)
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, OutboxRow
from tests.cluster.cluster_house import Cluster, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.cluster.test_ownership import until
from tests.fakes.openai_server import Fail, OpenAIServer, Say, Script
from tests.whole.house import Hands

_UNTOLD = dump_reply(Reply("Untold."))


class Everywhere(Hands):
    """A channel that every gateway may have."""

    is_everywhere = True


@asynccontextmanager
async def living(
    folder: Path, broker: RabbitMQServer, script: Script, settings: dict[str, Any] | None = None
) -> AsyncIterator[Cluster]:
    async with (
        OpenAIServer(script) as endpoint,
        clustered(folder, broker, endpoint, settings) as cluster,
    ):
        yield cluster


async def test_a_channel_that_is_everywhere_shows_each_reply_on_every_gateway(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, [Say("Hello!")]) as cluster:
        here, there = Everywhere("pipe"), Everywhere("pipe")
        for one in (here, there):
            await cluster.add_gateway(one)
            await one.bot()
        await here.writes("Hi", id="m1")
        assert (await here.reply_to("m1")).reply.text == "Hello!"
        assert (await there.reply_to("m1")).reply.text == "Hello!"
        assert [len(here.sent), len(there.sent)] == [1, 1]


async def test_any_other_channel_runs_on_one_gateway_and_another_takes_it_over(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, [Say("Hello!"), Say("Here I am.")]) as cluster:
        first, second = Hands("pipe"), Hands("pipe")
        gateway = await cluster.add_gateway(first)
        assert (await first.says("Hi")).text == "Hello!"
        await cluster.add_gateway(second)
        await cluster.stop(gateway)
        await second.writes("Are you there?", id="m7")
        assert (await second.reply_to("m7")).reply.text == "Here I am."
        assert [out.reply_to for out in (*first.sent, *second.sent)] == ["m1", "m7"]


async def test_what_is_told_twice_is_sent_once(tmp_path: Path, broker: RabbitMQServer) -> None:
    async with living(tmp_path, broker, [Say("Hello!"), Say("Again.")]) as cluster:
        house = Hands("pipe")
        gateway = await cluster.add_gateway(house)
        await house.says("Hi")
        again: Outbound = house.sent[0]
        for _ in range(3):
            topic = topic_of("pipe")
            await gateway.node.broker.tell(topic, wire.dump({"outbound": again}))
        assert (await house.says("Hi again")).text == "Again."
        assert [out.reply.text for out in house.sent] == ["Hello!", "Again."]


async def test_a_reply_that_nobody_was_told_of_goes_before_the_next_in_its_chat(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, [Say("Hello!"), Say("Again.")]) as cluster:
        house = Hands("pipe")
        await cluster.add_gateway(house)
        await house.says("Hi")
        row = OutboxRow(AddressColumns("pipe", "main", "", ""), "lost", None, _UNTOLD)
        await cluster.workers[0].app.store.write(lambda db: mailbox.put_out(db, row))
        assert (await house.says("Hi again")).text == "Again."
        assert [out.reply.text for out in house.sent] == ["Hello!", "Untold.", "Again."]


async def test_a_setting_holds_in_all_processes_and_so_does_who_is_let_in(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, []) as cluster:
        house = Hands("pipe")
        gateway = await cluster.add_gateway(house)
        await house.says("/config agent_max_steps 7")
        apps = [member.app for member in (*cluster.workers, gateway)]

        await until(lambda: all(app.config.book.effective().agent_max_steps == 7 for app in apps))
        stranger = Address("pipe", "lee", user="lee")
        bot = await house.bot()
        assert not bot.admits(stranger)
        await house.writes("Let me in", "lee", "lee", id="knock")
        said = (await house.reply_to("knock")).reply.text
        code = said.split("`/pair ")[1].split("`")[0]
        await house.says(f"/pair {code}")
        await until(lambda: bot.admits(stranger))


async def test_a_request_in_openais_protocol_streams_through_a_gateway(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    script: Script = [Say("Hello!"), Fail(400, {"message": "no such thing"})]
    async with living(tmp_path, broker, script) as cluster:
        house = Hands("pipe")
        await cluster.add_gateway(house)
        bot = await house.bot()
        request = CompletionRequest([Given("user", {"role": "user", "content": "Hi"}, "Hi")], ())
        async with aclosing(bot.complete(KeyHolder(), request)) as events:
            heard = [event async for event in events]
        assert "".join(event.text for event in heard if isinstance(event, Delta)) == "Hello!"
        assert isinstance(heard[-1], Completed)
        assert heard[-1].text == "Hello!"
        with pytest.raises(NotCompleted, match="no such thing"):
            async with aclosing(bot.complete(KeyHolder(), request)) as events:
                [event async for event in events]


async def test_broken_unicode_reaches_the_owner_mended(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, [Say("Hello!"), Say("Read.")]) as cluster:
        house = Hands("pipe")
        await cluster.add_gateway(house)
        assert (await house.says("half \ud83d of it")).text == "Hello!"
        file = Attachment("caf\udce9.txt", "text/plain", b"what a file says")
        assert (await house.says("Look", files=(file,))).text == "Read."
        bot = await house.bot()
        said = await bot.transcript(Address("pipe", "main"))
        assert said[0].text == "half ? of it"
        found = await bot.command(Address("pipe", "main"), "/context search half\udce9")
        assert "half?" in found.text


async def test_a_file_that_came_to_a_gateway_reaches_the_worker_and_leaves_no_trace_on_its_way(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with living(tmp_path, broker, [Say("A nice file.")]) as cluster:
        house = Hands("pipe")
        await cluster.add_gateway(house)
        file = Attachment("notes.txt", "text/plain", b"what a file says")
        reply = await house.says("Look", files=(file,))
        assert reply.text == "A nice file."
        kept = [path for path in (tmp_path / "data" / "audiences").rglob("*") if path.is_file()]
        assert b"what a file says" in {path.read_bytes() for path in kept}
        assert not [*(tmp_path / "data" / wire.SPOOL).iterdir()]


async def test_files_that_a_killed_gateway_left_on_their_way_are_deleted_after_a_day(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    spool = tmp_path / "data" / wire.SPOOL
    async with living(tmp_path, broker, []) as cluster:
        spool.mkdir(parents=True)
        for name, age in (("old", wire.STALE + 60), ("new", wire.STALE - 600)):
            (spool / name).write_bytes(b"a file")
            os.utime(spool / name, (time.time() - age,) * 2)
        house = Hands("pipe")
        await cluster.add_gateway(house)
        await house.bot()
        assert [file.name for file in spool.iterdir()] == ["new"]


async def test_without_a_worker_a_message_waits_and_is_refused_with_a_sentence_in_the_end(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with living(tmp_path, broker, [Say("Here I am.")]) as cluster:
        house = Hands("pipe")
        await cluster.add_gateway(house)
        for worker in cluster.workers:
            await cluster.stop(worker)
        waiting = asyncio.create_task(house.writes("Who is there?", id="m1"))
        await cluster.add_worker()
        assert await waiting is not None, "a worker came before the patience ended"
        assert (await house.reply_to("m1")).reply.text == "Here I am."
        await cluster.stop(cluster.workers[-1])
        monkeypatch.setattr(gateway, "PATIENCE", 0.3)
        assert await house.writes("And now?", id="m2") is None
        said = (await house.reply_to("m2")).reply
        assert (said.text, said.problem) == (UNANSWERED, "unavailable")
