"""A worker that stops cleanly hands over its slices: nothing is lost, or done twice."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.record.database import Database, StoreError
from plugins.cluster import record
from plugins.cluster.wire import SLICES, allot, slice_of
from plugins.cluster.worker import GROUP
from tests.cluster.cluster_testbot import Cluster, Member, channel, clustered
from tests.cluster.rabbitmq_server import RabbitMQServer
from tests.fakes.openai_server import OpenAIServer, Received, Say
from tests.waiting import until


def main_slice() -> str:
    """Return the slice of the chat, in this cluster."""
    return f"slice.{slice_of('pipe/main')}"


def owner(cluster: Cluster) -> Member:
    """Return the worker that owns the chat."""
    return next(one for one in cluster.workers if main_slice() in one.node.ownerships[GROUP].held)


async def test_what_is_taken_in_while_its_conversation_moves_is_answered_once(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    def answer(request: Received) -> Say:
        return Say(f"re: {request.body['messages'][-1]['content']}")

    async with (
        OpenAIServer(answer) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        assert (await bot.says("Hi")).text == "re: Hi"
        leaving = owner(cluster)
        with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database:
            database.execute("BEGIN IMMEDIATE")  # no other write ends before this does
            saying = asyncio.create_task(bot.writes("And now?", id="now"))
            await until(lambda: leaving.app.turns._coming)
            ownership = leaving.node.ownerships[GROUP]
            one = ownership._owned[main_slice()]
            moving = asyncio.create_task(ownership._release(one))
            await until(one.changing.locked)
            database.rollback()
        assert await saying is not None
        await moving
        assert (await bot.reply_to("now")).reply.text == "re: And now?"
        assert (await bot.says("Last")).text == "re: Last"
        asked = [one.body["messages"][-1]["content"] for one in endpoint.requests]
        assert asked == ["Hi", "And now?", "Last"]
        assert [one.reply_to for one in bot.sent].count("now") == 1


async def test_who_joins_takes_nothing_from_a_worker_that_finishes_what_it_does(
    tmp_path: Path, broker: RabbitMQServer
) -> None:
    gate = asyncio.Event()
    async with (
        OpenAIServer([Say("Done.", gate=gate)]) as endpoint,
        clustered(tmp_path, broker, endpoint, {"shutdown_timeout": 30}) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        await bot.writes("Take your time", id="long")
        await endpoint.reached.acquire()
        leaving = owner(cluster)
        stopping = asyncio.create_task(cluster.stop(leaving))
        await until(lambda: leaving.node.ownerships[GROUP]._owned[main_slice()].changing.locked())
        newcomer = await cluster.add_worker()
        await until(lambda: newcomer.node.ownerships[GROUP].held)
        gate.set()
        assert (await bot.reply_to("long")).reply.text == "Done."
        await stopping
        assert leaving.task.result(), "nobody took it for dead"
        assert len(endpoint.requests) == 1


async def test_a_reply_that_could_not_be_claimed_is_sent_when_the_database_answers_again(
    tmp_path: Path, broker: RabbitMQServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, asked = record.claim, list[int]()

    def fail_once(database: Database, outbox: int, process: str) -> str | None:
        asked.append(outbox)
        if len(asked) == 1:
            raise StoreError("The database can't be reached.")
        return claim(database, outbox, process)

    async with (
        OpenAIServer([Say("Hello!")]) as endpoint,
        clustered(tmp_path, broker, endpoint) as cluster,
    ):
        bot = channel()
        await cluster.add_gateway(bot)
        await bot.api()
        monkeypatch.setattr(record, "claim", fail_once)
        assert (await bot.says("Hi")).text == "Hello!"
        assert len(bot.sent) == 1


NAMES = [f"slice.{number}" for number in range(SLICES)]
WORKERS = st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=70)


@given(st.text(max_size=20), st.integers(2, 500))
def test_a_chat_its_threads_and_its_branches_are_in_one_slice(chat: str, number: int) -> None:
    home = f"telegram/{chat.replace('/', '%2F')}"
    for other in (f"{home}//{number}", f"{home}/7", f"{home}/7//{number}"):
        assert slice_of(other) == slice_of(home)
    assert 0 <= slice_of(home) < SLICES


def test_the_slice_of_a_conversation_is_the_same_in_every_release() -> None:
    assert [slice_of(f"telegram/{number}") for number in range(4)] == [35, 20, 32, 25]


@given(WORKERS)
def test_no_worker_has_more_than_one_slice_more_than_another(workers: set[str]) -> None:
    places = allot(NAMES, workers)
    counts = Counter(place.owner for place in places.values())
    assert len(places) == SLICES
    assert set(counts) <= workers
    each = [counts[worker] for worker in workers]
    assert max(each) - min(each) <= 1


@given(WORKERS)
def test_all_workers_work_out_the_same(workers: set[str]) -> None:
    assert allot(NAMES, sorted(workers)) == allot(NAMES, sorted(workers, reverse=True))


@given(WORKERS)
def test_whoever_stands_by_is_another_worker(workers: set[str]) -> None:
    for place in allot(NAMES, workers).values():
        assert place.standby != place.owner
        assert place.standby in workers or len(workers) == 1


@given(st.integers(1, 30))
def test_when_a_worker_comes_most_slices_stay_where_they_are(count: int) -> None:
    workers = [f"worker-{number}" for number in range(count)]
    before, after = allot(NAMES, workers), allot(NAMES, [*workers, "new"])
    moved = sum(before[name].owner != after[name].owner for name in NAMES)
    must = sum(place.owner == "new" for place in after.values())
    assert must <= moved <= must + SLICES // 2


def test_without_workers_nobody_has_a_slice() -> None:
    assert allot(NAMES, []) == {}
