"""Several gateways, and the shared state of all processes of a cluster."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bot.sending import dump_reply
from channels.base import Bot, Delta, KeyHolder
from channels.message import (
    Address,
    Attachment,
    ClientMessage,
    Completed,
    CompletionRequest,
    NotCompleted,
    Reply,
)
from memory.record import mailbox
from memory.record.mailbox import AddressColumns, OutboxRow
from plugins.cluster import gateway, wire
from plugins.cluster.rabbit import UNANSWERED
from plugins.cluster.wire import allot
from tests.cluster.cluster_testbot import Cluster, Member, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import Fail, OpenAIServer, Say, Script
from tests.waiting import until
from tests.whole.testbot import TestChannel

_UNTOLD = dump_reply(Reply("Untold."))


class Everywhere(TestChannel):
    """A channel that every gateway may run."""

    is_everywhere = True


@asynccontextmanager
async def run_bot(
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
    async with run_bot(tmp_path, broker, [Say("Hello!")]) as cluster:
        here, there = Everywhere("pipe"), Everywhere("pipe")
        for one in (here, there):
            await cluster.add_gateway(one)
            await one.api()
        await here.writes("Hi", id="m1")
        assert (await here.reply_to("m1")).reply.text == "Hello!"
        assert (await there.reply_to("m1")).reply.text == "Hello!"
        assert [len(here.sent), len(there.sent)] == [1, 1]


async def test_any_other_channel_runs_on_one_gateway_and_another_takes_it_over(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with run_bot(tmp_path, broker, [Say("Hello!"), Say("Here I am.")]) as cluster:
        first, second = TestChannel("pipe"), TestChannel("pipe")
        gateway = await cluster.add_gateway(first)
        assert (await first.says("Hi")).text == "Hello!"
        await cluster.add_gateway(second)
        await cluster.stop(gateway)
        await second.writes("Are you there?", id="m7")
        assert (await second.reply_to("m7")).reply.text == "Here I am."
        assert [out.reply_to for out in (*first.sent, *second.sent)] == ["m1", "m7"]


class Returning(TestChannel):
    """A channel that a gateway may run more than once."""

    is_served = False

    async def listen(self, bot: Bot) -> None:
        if self._bot.done():
            self._bot = asyncio.get_running_loop().create_future()
        self.is_served = True
        try:
            await super().listen(bot)
        finally:
            self.is_served = False


async def test_a_gateway_that_hands_a_channel_over_stays_and_takes_it_back(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with run_bot(tmp_path, broker, [Say("One."), Say("Two.")]) as cluster:
        channels = [Returning("pipe")]
        first = await cluster.add_gateway(channels[0])
        await channels[0].api()
        while _owner_of_pipe(cluster.gateways) == first.node.me:  # by their names, which are random
            channels.append(Returning("pipe"))
            await cluster.add_gateway(channels[-1])
        owner = _owner_of_pipe(cluster.gateways)
        second = next(
            channel
            for channel, gateway in zip(channels, cluster.gateways, strict=True)
            if gateway.node.me == owner
        )
        # A gateway that was added meanwhile may run it for a moment.
        await until(lambda: [one for one in channels if one.is_served] == [second])
        await second.writes("one", id="m1")
        assert (await second.reply_to("m1")).reply.text == "One."
        assert not first.task.done()
        for gateway in cluster.gateways[1:]:
            await cluster.stop(gateway)
        await until(lambda: channels[0].is_served)
        await channels[0].writes("two", id="m2")
        assert (await channels[0].reply_to("m2")).reply.text == "Two."


def _owner_of_pipe(gateways: Sequence[Member]) -> str:
    """Return the gateway that should run the channel."""
    return allot(["channel.pipe"], [one.node.me for one in gateways])["channel.pipe"].owner


async def test_a_reply_that_nobody_was_told_of_goes_before_the_next_in_its_chat(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with run_bot(tmp_path, broker, [Say("Hello!"), Say("Again.")]) as cluster:
        bot = TestChannel("pipe")
        await cluster.add_gateway(bot)
        await bot.says("Hi")
        row = OutboxRow(AddressColumns("pipe", "main", "", ""), "lost", None, _UNTOLD)
        await cluster.workers[0].app.store.write(lambda db: mailbox.enqueue_reply(db, row))
        assert (await bot.says("Hi again")).text == "Again."
        assert [out.reply.text for out in bot.sent] == ["Hello!", "Untold.", "Again."]


async def test_a_setting_holds_in_all_processes_and_so_does_who_is_let_in(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with run_bot(tmp_path, broker, []) as cluster:
        bot = TestChannel("pipe")
        gateway = await cluster.add_gateway(bot)
        await bot.says("/config agent_max_steps 7")
        apps = [member.app for member in (*cluster.workers, gateway)]

        await until(lambda: all(app.config.book.effective().agent_max_steps == 7 for app in apps))
        stranger = Address("pipe", "lee", user="lee")
        api = await bot.api()
        assert not api.admits(stranger)
        await bot.writes("Let me in", "lee", "lee", id="knock")
        said = (await bot.reply_to("knock")).reply.text
        code = said.split("`/pair ")[1].split("`")[0]
        await bot.says(f"/pair {code}")
        await until(lambda: api.admits(stranger))


async def test_a_request_in_openais_protocol_streams_through_a_gateway(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    script: Script = [Say("Hello!"), Fail(400, {"message": "no such thing"})]
    async with run_bot(tmp_path, broker, script) as cluster:
        bot = TestChannel("pipe")
        await cluster.add_gateway(bot)
        api = await bot.api()
        request = CompletionRequest(
            [ClientMessage("user", {"role": "user", "content": "Hi"}, "Hi")], ()
        )
        async with aclosing(api.complete(KeyHolder(), request)) as events:
            heard = [event async for event in events]
        assert "".join(event.text for event in heard if isinstance(event, Delta)) == "Hello!"
        assert isinstance(heard[-1], Completed)
        assert heard[-1].text == "Hello!"
        with pytest.raises(NotCompleted, match="no such thing"):
            async with aclosing(api.complete(KeyHolder(), request)) as events:
                [event async for event in events]


async def test_broken_unicode_reaches_the_owner_mended(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    async with run_bot(tmp_path, broker, [Say("Hello!"), Say("Read.")]) as cluster:
        bot = TestChannel("pipe")
        await cluster.add_gateway(bot)
        assert (await bot.says("half \ud83d of it")).text == "Hello!"
        file = Attachment("caf\udce9.txt", "text/plain", b"what a file says")
        assert (await bot.says("Look", files=(file,))).text == "Read."
        api = await bot.api()
        said = await api.transcript(Address("pipe", "main"))
        assert said[0].text == "half ? of it"
        found = await api.command(Address("pipe", "main"), "/context search half\udce9")
        assert "half?" in found.text


async def test_a_file_reaches_the_worker_and_what_a_killed_gateway_left_is_deleted_after_a_day(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    spool = tmp_path / "data" / wire.SPOOL
    async with run_bot(tmp_path, broker, [Say("A nice file.")]) as cluster:
        spool.mkdir(parents=True)
        for name, age in (("old", wire.STALE + 60), ("new", wire.STALE - 600)):
            (spool / name).write_bytes(b"a file")
            os.utime(spool / name, (time.time() - age,) * 2)
        bot = TestChannel("pipe")
        await cluster.add_gateway(bot)
        file = Attachment("notes.txt", "text/plain", b"what a file says")
        assert (await bot.says("Look", files=(file,))).text == "A nice file."
        kept = [path for path in (tmp_path / "data" / "audiences").rglob("*") if path.is_file()]
        assert b"what a file says" in {path.read_bytes() for path in kept}
        assert [file.name for file in spool.iterdir()] == ["new"], "nothing else is on its way"


async def test_without_a_worker_a_message_waits_and_is_refused_with_a_sentence_in_the_end(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_bot(tmp_path, broker, [Say("Here I am.")]) as cluster:
        bot = TestChannel("pipe")
        await cluster.add_gateway(bot)
        for worker in cluster.workers:
            await cluster.stop(worker)
        waiting = asyncio.create_task(bot.writes("Who is there?", id="m1"))
        await cluster.add_worker()
        assert await waiting is not None, "a worker came before the patience ended"
        assert (await bot.reply_to("m1")).reply.text == "Here I am."
        await cluster.stop(cluster.workers[-1])
        monkeypatch.setattr(gateway, "PATIENCE", 0.3)
        assert await bot.writes("And now?", id="m2") is None
        said = (await bot.reply_to("m2")).reply
        assert (said.text, said.problem) == (UNANSWERED, "unavailable")
