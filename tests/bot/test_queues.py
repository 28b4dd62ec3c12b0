"""Keyed queues, and replies in several parts: in order within one queue, and independent of the
others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.message import Action, Outbound, Reply
from memory.tasks import Job, KeyedQueues
from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.testbot import TestBot, running

plans = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["at once", "later", "raises", "adds"])),
    max_size=30,
)


@given(plans)
def test_each_lane_keeps_its_order_whatever_its_jobs_do(plan: list[tuple[str, str]]) -> None:
    done: list[tuple[str, int]] = []
    added: list[str] = []

    async def execute() -> None:
        queues = KeyedQueues("test")

        def job(queue: str, number: int, kind: str) -> Job:
            async def run() -> None:
                if kind == "later":
                    await asyncio.sleep(0)
                if kind == "adds":
                    queues.put(queue, job(queue, 100 + number, "at once"))
                    added.append(queue)
                done.append((queue, number))
                if kind == "raises":
                    raise ValueError(number)

            return run

        for number, (queue, kind) in enumerate(plan):
            queues.put(queue, job(queue, number, kind))
        await queues.idle()
        assert (queues.running, queues.waiting, queues.depth("a")) == (0, 0, 0)

    logging.getLogger("memory.tasks").disabled = True  # hundreds of tracebacks would be noise
    try:
        asyncio.run(execute())
    finally:
        logging.getLogger("memory.tasks").disabled = False
    for queue in "abc":
        first = [number for own, number in done if own == queue and number < 100]
        assert first == [number for number, (own, _) in enumerate(plan) if own == queue]
    assert len(done) == len(plan) + len(added)


async def test_a_lane_that_waits_holds_up_no_other() -> None:
    queues, gate, quick, seen = KeyedQueues("test"), asyncio.Event(), asyncio.Event(), []

    async def wait() -> None:
        await gate.wait()
        seen.append("slow")

    async def see() -> None:
        seen.append("quick")
        quick.set()

    queues.put("slow", wait)
    queues.put("slow", see)
    queues.put("quick", see)
    await quick.wait()
    assert seen == ["quick"]
    assert (queues.running, queues.waiting, queues.depth("slow")) == (1, 1, 2)
    gate.set()
    await queues.idle()
    assert seen == ["quick", "slow", "quick"]


async def test_a_job_that_raises_is_logged_and_the_next_one_runs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queues, seen = KeyedQueues("test"), []

    async def fail() -> None:
        raise ValueError("no luck")

    async def see() -> None:
        seen.append(1)

    queues.put("a", fail)
    queues.put("a", see)
    await queues.idle()
    assert seen == [1]
    assert caplog.messages == ["a job of test a failed"]


async def test_a_job_whose_own_work_was_cancelled_holds_up_nothing() -> None:
    queues, seen = KeyedQueues("test"), []

    async def lose_a_task() -> None:
        task = asyncio.create_task(asyncio.Event().wait())
        task.cancel()
        await task

    async def see() -> None:
        seen.append(1)

    queues.put("a", lose_a_task)
    queues.put("a", see)
    await queues.idle()
    assert seen == [1]


async def test_idle_waits_for_a_job_that_another_lane_adds_at_the_last_moment() -> None:
    queues, seen = KeyedQueues("test"), []

    async def add(left: int) -> None:
        await asyncio.sleep(0)
        seen.append(left)
        if left:
            queues.put(left - 1, lambda: add(left - 1))

    queues.put(5, lambda: add(5))
    await queues.idle()
    assert seen == [5, 4, 3, 2, 1, 0]


async def test_room_is_there_as_soon_as_a_job_is_done() -> None:
    queues, gates = KeyedQueues("test"), [asyncio.Event() for _ in range(3)]
    for gate in gates:
        queues.put("a", gate.wait)  # type: ignore[arg-type]
    await queues.wait_for_capacity("b", 1)
    waiting = [asyncio.create_task(queues.wait_for_capacity("a", depth)) for depth in (2, 3)]
    gates[0].set()
    await waiting[1]
    assert not waiting[0].done()
    gates[1].set()
    await waiting[0]
    gates[2].set()
    await queues.idle()


async def test_close_ends_what_runs_and_forgets_what_waits() -> None:
    queues, seen = KeyedQueues("test"), []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    async def see() -> None:
        seen.append("never")

    queues.put("a", hang)
    queues.put("a", see)
    await asyncio.sleep(0)
    await queues.close()
    assert seen == ["ended"]
    assert (queues.running, queues.waiting) == (0, 0)


@dataclass
class LineByLine(TestBot):
    """A platform that accepts one line at a time, and fails at one of them."""

    fails_at: str = "never"

    longest: int = 10

    def parts(self, reply: Reply) -> Sequence[Reply]:
        *first, last = reply.text.split("\n")
        return [*map(Reply, first), Reply(last, actions=reply.actions)]

    async def send(self, outbound: Outbound) -> None:
        if outbound.reply.text == self.fails_at:
            raise ConnectionError("the platform is down")
        await super().send(outbound)


@asynccontextmanager
async def at_platform(
    folder: Path, text: str, fails_at: str = "never"
) -> AsyncIterator[LineByLine]:
    async with OpenAIServer([Say(text)] if text else []) as endpoint:
        bot = LineByLine(fails_at=fails_at)
        bot.server = endpoint
        environ = {"OPENAI_BASE_URL": endpoint.base_url, "OPENAI_API_KEY": "test-key"}
        async with running(folder, bot, {}, environ):
            yield bot


def sent(bot: TestBot) -> list[tuple[str, int, bool]]:
    return [(one.reply.text, one.part, one.is_resent) for one in bot.sent]


async def test_parts_arrive_in_order_each_by_itself(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "one\ntwo\nthree") as bot:
        await bot.says("Count")
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("one", 0, False), ("two", 1, False), ("three", 2, False)]


async def test_only_what_was_not_sent_is_sent_again(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "one\ntwo\nthree", fails_at="two") as bot:
        await bot.says("Count")
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("one", 0, False)], "what follows a part that failed waits with it"
    async with at_platform(tmp_path, "") as bot:
        await bot.app.delivery.queues.idle()
    assert sent(bot) == [("two", 1, True), ("three", 2, True)]


async def test_the_last_part_has_the_buttons(tmp_path: Path) -> None:
    async with at_platform(tmp_path, "Hi") as bot:
        await bot.says("Hello")
        await bot.says("/context")
        await bot.app.delivery.queues.idle()
    *first, last = [one.reply for one in bot.sent][1:]
    assert all(not part.actions for part in first)
    assert Action("Map", "/context map") in last.actions
