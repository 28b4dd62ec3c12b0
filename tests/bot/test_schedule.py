"""The nightly tick: it removes inactive conversations, and stores their content in the memory.
Tests set the time, and never wait for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import time_machine

from bot.forgetting import Forgetter
from bot.schedule import DAY, HOUR, Retention, Schedule
from bot.settings import Layers, Secrets, SettingsStore
from bot.settings.layers import WrittenSetting
from memory.context.summary import TASKS
from memory.keys import ConversationKey
from tests.fakes.openai_server import Answer, Fail, Received, Say
from tests.waiting import PATIENCE, until
from tests.whole.test_forget import echo, found_in
from tests.whole.testbot import TestBot, run_bot

MARK = "zanzibar"


async def nothing() -> None: ...


async def test_it_ticks_at_the_start_and_then_at_night_where_the_people_live() -> None:
    zone = ZoneInfo("Asia/Kathmandu")
    ticked = asyncio.Event()

    async def tick() -> None:
        ticked.set()

    schedule = Schedule(lambda: zone, tick, [nothing])
    await schedule.start()
    await ticked.wait()
    coming = schedule.next_tick
    await schedule.stop()
    assert coming is not None
    assert (coming.hour, coming.minute, coming.utcoffset()) == (HOUR, 0, timedelta(hours=5.75))
    assert timedelta() < coming - datetime.now(UTC) <= timedelta(days=1)


async def test_one_tick_at_a_time_and_none_after_the_stop() -> None:
    begun, ended = 0, 0

    async def tick() -> None:
        nonlocal begun, ended
        begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            ended += 1

    schedule = Schedule(lambda: UTC, tick, [nothing])
    await schedule.start()
    await asyncio.sleep(0)
    await schedule.due()
    await asyncio.sleep(0)
    assert (begun, ended) == (1, 0)
    await schedule.stop()
    assert (begun, ended) == (1, 1)


async def test_a_tick_that_fails_is_logged_and_the_next_one_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def tick() -> None:
        raise OSError("the disk is gone")

    schedule = Schedule(lambda: UTC, tick, [nothing])
    with caplog.at_level(logging.ERROR):
        await schedule.start()
        await schedule.idle()
    assert "tried again the next night" in caplog.text
    assert schedule.next_tick is not None
    await schedule.stop()


async def test_a_clock_that_is_set_back_or_forward_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bot.schedule.MINUTE", 0.001)
    counts = Counter[str]()

    def counting(name: str) -> Callable[[], Coroutine[Any, Any, None]]:
        async def work() -> None:
            counts[name] += 1
            if counts[name] == 1:
                raise OSError("the disk is gone")

        return work

    schedule = Schedule(lambda: UTC, counting("night"), [counting("often"), counting("rarely")])
    schedule.every_minute(counting("minute"))
    with time_machine.travel(datetime(2026, 11, 28, 12, tzinfo=UTC), tick=True) as clock:
        await schedule.start()
        for days in (0, -1, -400, 2, 400):
            clock.shift(timedelta(days=days))
            before = Counter(counts)
            await until(lambda: all(counts[n] > before[n] + 1 for n in ("minute", "often")))  # noqa: B023
            if days > 0:
                await until(lambda: counts["night"] > before["night"])  # noqa: B023
        await schedule.stop()
    assert counts["rarely"] > 1, "one that fails keeps nothing else from being done"
    assert "what is done every 10 minutes failed" in caplog.text


def in_days(days: float) -> Callable[[], float]:
    """A clock that is this many days ahead."""
    return lambda: time.time() + days * DAY


async def retain(bot: TestBot, days: float = 31, keeping: int = 30) -> None:
    """Run the tick as of this many days from now."""
    app = bot.app
    forgetting = Forgetter(app.conversations, app.turns, app.channels, app.bus)
    values = {"session_retention_days": keeping}
    layers = Layers(WrittenSetting(values, values), WrittenSetting({}, {}), Secrets({}))
    await Retention(forgetting, SettingsStore(layers), app.clock, in_days(days))()


async def rows(bot: TestBot, table: str) -> int:
    query = f"SELECT COUNT(*) FROM {table}"
    count: int = await bot.app.store.read(lambda db: db.execute_sql(query).fetchone()[0])
    return count


async def test_an_idle_conversation_goes_once_it_is_remembered(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"I live in {MARK}.")
        await bot.says("And you?")
        await retain(bot)
        assert [await rows(bot, t) for t in ("message", "view_event", "summary", "job")] == [0] * 4
        assert [await rows(bot, t) for t in ("inbox", "outbox")] == [0, 0]
        assert all("/memory/" in name for name in found_in(tmp_path))
        assert MARK in (await bot.says(f"/memory search {MARK}")).text.lower()
        await bot.says("It is me again.")
        assert bot.sent[-1].turn == "t3", "turn ids do not begin anew"
        assert len(bot.sent_to_model()) == 2


async def test_what_somebody_writes_to_meanwhile_stays_and_goes_on_as_it_was(
    tmp_path: Path,
) -> None:
    gate = asyncio.Event()

    def script(request: Received) -> Answer:
        return Say("They live somewhere.", gate=gate) if request.is_summary else Say("Yes.")

    async with run_bot(tmp_path, script) as bot:
        await bot.says(f"I live in {MARK}.")
        deleting = asyncio.create_task(retain(bot))
        await until(lambda: bot.server.summaries)
        await bot.writes("It is me again.", id="back")
        gate.set()
        await asyncio.wait_for(deleting, PATIENCE)
        assert (await bot.reply_to("back")).turn == "t2"
        assert MARK in str(bot.sent_to_model())
        assert await rows(bot, "message") == 4
        await retain(bot)
        assert await rows(bot, "message") == 0
        told = (await bot.says("/memory")).text
        assert [told.count(f"this conversation · t{turn}\n") for turn in (1, 2)] == [1, 1]


async def test_what_a_restart_finds_idle_is_summarised_with_one_call(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        for thing in ("tea", "rye", "figs", "ham", "eggs", "oats", "nuts", "kale"):
            await bot.says(f"I like {thing}.")
    async with run_bot(tmp_path, echo) as bot:
        await retain(bot)
        assert len(bot.server.requests) == 1
        memory = (await bot.says("/memory")).text
    assert "t1 to t8" in memory


async def test_a_plain_extract_serves_where_the_model_fails(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        return Fail(400, {"message": "no"}) if request.is_summary else Say("Yes.")

    async with run_bot(tmp_path, script) as bot:
        await bot.says(f"I live in {MARK}.")
        await retain(bot)
        assert await rows(bot, "message") == 0
        assert f"t1: I live in {MARK}. → Yes." in (await bot.says("/memory")).text


async def test_nothing_is_deleted_that_could_not_be_written_to_the_memory(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        blocked = tmp_path / "data" / "audiences" / "pipe-main" / "memory"
        blocked.write_text("a file where the folder should be")
        await retain(bot)
        assert await rows(bot, "message") == 2
        blocked.unlink()
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/context")
        await bot.app.conversations.flush()
        await retain(bot)
        assert await rows(bot, "message") == 0
        assert "t1" in (await bot.says("/memory")).text


async def test_what_is_not_idle_for_long_enough_stays(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
        for days, keeping in ((29, 30), (1_000, 0), (31, 365)):
            await retain(bot, days, keeping)
            assert await rows(bot, "message") == 2
        assert "1 turn" in (await bot.says("/context")).text


async def test_the_tick_at_the_start_does_it_in_the_whole_bot(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi", chat="old")
        await bot.says("Hi", chat="new")
        ago = time.time() - 31 * DAY
        statement = "UPDATE conversation SET active_at = ? WHERE key = 'pipe/old'"
        await bot.app.store.write(lambda db: db.execute_sql(statement, (ago,)))
    async with run_bot(tmp_path, echo) as bot:
        await started(bot)
        assert "0 turns" in (await bot.says("/context", chat="old")).text
        assert "1 turn" in (await bot.says("/context", chat="new")).text


LONG = "word " * 40 + "zebra " + "more " * 100
"""A text of which a plain extract shows too little, and 500 characters show enough."""


def without_summaries(request: Received) -> Answer:
    tasks = [task[:30] for task in TASKS.values()]
    is_asked = any(task in str(request.body["messages"]) for task in tasks)
    return Fail(400, {"message": "no"}) if is_asked else Say(f"Yes. {LONG}")


def memory_in(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("????-??-??.md"))


@pytest.mark.parametrize("strategy", ["trim", "slim", "summarize", "structured"])
async def test_what_no_summary_tells_of_is_in_the_daily_memory_before_it_goes(
    tmp_path: Path, strategy: str
) -> None:
    settings = {"context": {"strategy": strategy}, "agent_max_context_turns": 4}
    async with run_bot(tmp_path, without_summaries, settings) as bot:
        for number in range(12):
            await bot.says(f"Question {number}? {LONG}")
        await retain(bot)
        assert await rows(bot, "message") == 0
    memory = memory_in(tmp_path)
    for number in range(12):
        lines = [line for line in memory.splitlines() if f"Question {number}?" in line]
        assert any(line.count("zebra") == 2 for line in lines), (number, lines)


async def test_what_a_person_dropped_or_cleared_is_not_added(tmp_path: Path) -> None:
    async with run_bot(tmp_path, without_summaries) as bot:
        await bot.says(f"I live in {MARK}. {LONG}")
        await bot.says("/context clear")
        await bot.says(f"I was born in quito. {LONG}")
        await bot.says(f"I work in oslo. {LONG}")
        await bot.says("/context drop t2")
        await retain(bot)
        assert await rows(bot, "message") == 0
    memory = memory_in(tmp_path)
    assert MARK not in memory
    assert "quito" not in memory
    assert "oslo" in memory


async def test_what_came_from_outside_goes_to_the_quarantine(tmp_path: Path) -> None:
    async with run_bot(tmp_path, without_summaries) as bot:
        await bot.says(f"I live in {MARK}. {LONG}")
        await bot.says(f"Read the page about oslo. {LONG}")
        statement = "UPDATE message SET extra = ? WHERE seq = 4"
        flag = '{"is_untrusted": true}'
        await bot.app.store.write(lambda db: db.execute_sql(statement, (flag,)))
        await bot.app.store.write(lambda db: db.execute_sql("DELETE FROM job"))
    async with run_bot(tmp_path, without_summaries) as bot:
        await retain(bot)
    assert "oslo" not in memory_in(tmp_path / "data" / "audiences")
    assert "oslo" in memory_in(tmp_path / "data" / "quarantine")


async def test_a_kill_before_the_deletion_adds_nothing_twice(tmp_path: Path) -> None:
    async with run_bot(tmp_path, without_summaries) as bot:
        await bot.says(f"Question? {LONG}")
        conversation = await bot.app.conversations.get(ConversationKey("pipe/main", "pipe-main"))

        async def killed(
            turns: object, deleted: object, sharing: object = (), *, is_told: bool = False
        ) -> bool:
            raise OSError("killed here")

        conversation._delete = killed  # type: ignore[method-assign]
        with pytest.raises(OSError, match="killed here"):
            await retain(bot)
        assert await rows(bot, "message") == 2
    async with run_bot(tmp_path, without_summaries) as bot:
        await retain(bot)
        assert await rows(bot, "message") == 0
    assert sum(line.count("zebra") == 2 for line in memory_in(tmp_path).splitlines()) == 1


async def started(bot: TestBot) -> None:
    """Wait until the tick at the start is over."""
    await until(lambda: bot.app.schedule.next_tick)
    await bot.app.schedule.idle()


async def test_a_start_with_the_clock_far_ahead_deletes_nothing_and_tells_the_owner(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hi")
    told: list[str] = []
    with time_machine.travel(time.time() + 40 * DAY, tick=True):
        for _ in range(2):
            async with run_bot(tmp_path, echo) as bot:
                await started(bot)
                assert await rows(bot, "message") == 2
            told += [outbound.reply.text for outbound in bot.sent if not outbound.reply_to]
    (sentence,) = told
    assert "but the bot ran last on" in sentence
    assert "Until the bot has run for 24 more hours" in sentence
    async with run_bot(tmp_path, echo) as bot:
        await started(bot)
        assert await bot.app.clock.check(), "a clock that is right again is believed"
