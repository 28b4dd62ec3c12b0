"""Tests of reminders and jobs in combination with other features, by the whole bot: links,
branches, `/new`, `/stop`, limits, retention, people without access, clocks and zones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import time_machine
from time_machine import Coordinates

from plugins.jobs import record as jobs
from plugins.jobs.firing import Jobs
from plugins.jobs.record import JobRow, RunRow
from tests.fakes.openai_server import Received, Say
from tests.jobs.test_jobs import other_channel, tick_at, unasked
from tests.links.test_link import two_channels
from tests.waiting import until
from tests.whole.testbot import TestBot, run_bot

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
SETTINGS = {"timezone": "UTC"}
BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def clock() -> Iterator[Coordinates]:
    with time_machine.travel(NOON, tick=True) as traveller:
        yield traveller


def answer(request: Received) -> Say:
    """Answer "All quiet." to a job, and "Hello." to anything else."""
    last = str(request.body["messages"][-1]["content"])
    return Say("All quiet." if last.startswith("[Job") else "Hello.")


async def find_job(bot: TestBot, number: int = 1) -> JobRow:
    job = await bot.app.store.read(lambda db: jobs.find(db, number))
    assert job is not None
    return job


async def runs_of(bot: TestBot, number: int = 1) -> list[RunRow]:
    return await bot.app.store.read(lambda db: jobs.list_runs(db, number))


async def test_what_is_set_for_later_outlives_the_conversation_that_retention_deletes(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"session_retention_days": 5}
    async with run_bot(tmp_path, answer, settings) as bot:
        await bot.says("Hi")
        await bot.says("/remind 2026-12-20 9:00 Call Mom")
        await bot.says("/jobs add 2026-12-20 10:00 Look")
        for days in range(1, 26, 4):  # so that the clock counts as valid
            clock.move_to(NOON + timedelta(days=days), tick=True)
            await bot.app.schedule.due()
            await bot.app.schedule.idle()
        key = bot.app.turns.resolve(bot.sent[0].address)
        assert not await (await bot.app.conversations.get(key)).context.turns([1]), "deleted"
        await tick_at(bot, clock, datetime(2026, 12, 20, 10, 0, 1, tzinfo=UTC))
        told = [text for text in unasked(bot) if "Call Mom" in text or "All quiet" in text]
        assert len(told) == 2


async def test_retention_leaves_a_job_the_branch_of_its_own(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"session_retention_days": 5}
    async with run_bot(tmp_path, answer, settings) as bot:
        await bot.says("Hi")
        await bot.says("/fork Watch")
        await bot.says("More")
        await bot.says("/branches 1")
        await bot.says("/jobs add --branch 2 2026-12-20 10:00 Look")
        for days in range(1, 26, 4):  # so that the clock counts as valid
            clock.move_to(NOON + timedelta(days=days), tick=True)
            await bot.app.schedule.due()
            await bot.app.schedule.idle()
        await tick_at(bot, clock, datetime(2026, 12, 20, 10, 0, 1, tzinfo=UTC))
        assert [text for text in unasked(bot) if "All quiet" in text]
        await bot.says("/jobs delete 1")
        for days in (29, 33, 37):
            clock.move_to(NOON + timedelta(days=days), tick=True)
            await bot.app.schedule.due()
            await bot.app.schedule.idle()
        assert "Watch" not in (await bot.says("/branches")).text


async def test_a_job_of_a_linked_chat_runs_in_the_shared_conversation_and_is_told_where_it_was_made(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with two_channels(tmp_path, timezone="UTC") as bot:
        await bot.from_afar("mine")
        await bot.here.says("shared")
        await bot.links()
        assert "is set" in await bot.from_afar("/jobs add tomorrow 9:00 Look")
        assert "Look" in (await bot.here.says("/jobs")).text
        clock.move_to(NOON + timedelta(hours=21, seconds=1), tick=True)
        await bot.app.features.service(Jobs).tick()
        await bot.app.idle()
        told = bot.afar.sent[-1].reply.text
        assert told.startswith("2: [Job 1")
        assert not [o for o in bot.here.sent if "[Job 1" in o.reply.text]


async def test_a_job_made_while_linked_goes_on_in_the_chat_s_own_conversation_after_unlink(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with two_channels(tmp_path, timezone="UTC") as bot:
        await bot.from_afar("mine")
        await bot.links()
        await bot.from_afar("/jobs add tomorrow 9:00 Look")
        await bot.from_afar("/unlink")
        assert "No reminders or jobs" in (await bot.here.says("/jobs")).text
        assert "Look" in await bot.from_afar("/jobs")
        clock.move_to(NOON + timedelta(hours=21, seconds=1), tick=True)
        await bot.app.features.service(Jobs).tick()
        await bot.app.idle()
        assert bot.afar.sent[-1].reply.text.startswith("2: [Job 1")  # after the reply to "mine"
        assert "is deleted" in await bot.from_afar("/jobs delete 1")


async def test_a_job_begins_afresh_after_new(tmp_path: Path, clock: Coordinates) -> None:
    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await bot.says("A secret plan")
        await bot.says("/jobs add tomorrow 9:00 Look")
        await bot.says("/new")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        # The conversation that /new closed is summarised meanwhile, with a separate request.
        all_said = [
            [str(message["content"]) for message in request.body["messages"]]
            for request in bot.server.requests
        ]
        (said,) = [one for one in all_said if one[-1].startswith("[Job")]
        assert not any("secret plan" in text for text in said)
        assert unasked(bot)[0].startswith("All quiet.")


async def test_a_job_whose_branch_is_gone_is_run_by_no_command_either(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, [Say("Hello."), Say("Two.")], SETTINGS) as bot:
        await bot.says("Hi")
        await bot.says("/fork Watch")
        await bot.says("In two")
        await bot.says("/jobs add --branch 2 every day 9:00 Look")
        await bot.says("/jobs pause 1")
        await bot.says("/forget chat yes")
        for word in ("run", "resume"):
            said = (await bot.says(f"/jobs {word} 1")).text
            assert said == "Job 1 can't run: its branch is gone. `/jobs delete 1` deletes it."
        await bot.app.idle()
        assert len(bot.server.requests) == 2


async def test_a_run_that_waits_when_its_branch_is_deleted_runs_nowhere_else(
    tmp_path: Path, clock: Coordinates
) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, [Say("Hello."), Say("Two.", gate=gate)], SETTINGS) as bot:
        await bot.says("Hi")
        await bot.says("/fork Watch")
        await bot.says("/jobs add --branch 2 every day 9:00 Look")
        await bot.writes("In two", id="two")
        await bot.says("/jobs run 1")
        await bot.says("/forget chat yes")
        gate.set()
        await bot.app.idle()
        assert len(bot.server.requests) <= 2
        assert "was deleted before its turn came" in unasked(bot)[-1]
        bot.server.answers.clear()


async def test_a_job_whose_branch_is_gone_rests_and_runs_nowhere_else(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, answer, SETTINGS) as bot:
        await bot.says("Hi")
        await bot.says("/fork Watch")
        await bot.says("/branches 1")
        await bot.says("/jobs add --branch 2 every day 9:00 Look")
        await bot.says("/branches 2")
        await bot.says("More")
        await bot.says("/forget chat yes")
        await bot.says("/branches 1")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        assert unasked(bot) == []
        job = await find_job(bot)
        assert (job.state, job.why) == ("paused", "its branch is gone")
        assert "its branch is gone" in (await bot.says("/jobs")).text


async def test_who_writes_interrupts_a_job_where_that_is_set_and_it_is_done_afterwards(
    tmp_path: Path, clock: Coordinates
) -> None:
    gate = asyncio.Event()
    script = [Say("Never said.", gate=gate), Say("To you."), Say("Done at last.")]
    async with run_bot(tmp_path, script, SETTINGS | {"when_busy": "interrupt"}) as bot:
        await bot.says("/jobs add tomorrow 9:00 Look")
        clock.move_to(NOON + timedelta(hours=21), tick=True)
        await bot.app.features.service(Jobs).tick()
        await until(lambda: bot.server.requests)
        assert (await bot.says("I need you now")).text == "To you."
        gate.set()
        await bot.app.idle()
        assert "tried again" in unasked(bot)[0]
        await tick_at(bot, clock, NOON + timedelta(hours=21, minutes=6))
        assert unasked(bot)[-1].startswith("Done at last.")


async def test_stop_ends_a_job_s_run_and_it_is_not_tried_again_before_its_time(
    tmp_path: Path, clock: Coordinates
) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, [Say("Never said.", gate=gate), Say("Next.")], SETTINGS) as bot:
        await bot.says("/jobs add every day 9:00 Look")
        clock.move_to(NOON + timedelta(hours=21), tick=True)
        await bot.app.features.service(Jobs).tick()
        await until(lambda: bot.server.requests)
        await bot.says("/stop")
        gate.set()
        await bot.app.idle()
        assert [run.outcome for run in await runs_of(bot)] == ["stopped"]
        await tick_at(bot, clock, NOON + timedelta(hours=22))
        assert len(bot.server.requests) == 1
        await tick_at(bot, clock, NOON + timedelta(hours=45))
        assert unasked(bot)[-1].startswith("Next.")
        assert (await find_job(bot)).failures == 0


async def test_a_spending_limit_holds_for_jobs_and_holds_back_no_reminder(
    tmp_path: Path, clock: Coordinates
) -> None:
    settings = SETTINGS | {"model": "gpt-5", "spend_limit_chat": 0.0001}
    async with run_bot(tmp_path, [Say("Hello.")], settings) as bot:
        await bot.says("Hi " + "there " * 200)
        await bot.says("/jobs add every day 9:00 Look")
        await bot.says("/remind tomorrow 9:00 Call Mom")
        await tick_at(bot, clock, NOON + timedelta(hours=21))
        assert len(bot.server.requests) == 1
        assert any("limit" in text for text in unasked(bot))
        assert any("Call Mom" in text for text in unasked(bot))
        assert [run.outcome for run in await runs_of(bot)] == ["refused"]
        assert (await find_job(bot)).retry_at == 0
        await bot.says("/usage lift")
        bot.server.answers.append(Say("All quiet."))
        await tick_at(bot, clock, NOON + timedelta(hours=45))
        assert unasked(bot)[-1].startswith("All quiet.")


async def test_whoever_is_let_in_no_more_has_nothing_run_for_them(
    tmp_path: Path, clock: Coordinates
) -> None:
    """Revoke a person's access: due jobs rest, and queued ones are refused."""
    gate = asyncio.Event()
    settings = SETTINGS | {"owners": ["other/bob"]}
    async with other_channel(tmp_path, settings) as bot:
        code = (await bot.says("Hello", "ann", "ann")).text.split("`/pair ")[-1][:9]
        await bot.says(f"/pair {code}", "bob", "bob")
        bot.server.answers.extend([Say("First.", gate=gate)])
        await bot.says("/jobs add every day 9:00 Look", "ann", "ann")
        await bot.writes("One", "ann", "ann")
        await until(lambda: bot.server.requests)
        clock.move_to(NOON + timedelta(hours=21), tick=True)
        await bot.app.features.service(Jobs).tick()  # it waits for the current turn
        await bot.says("/revoke other/ann", "bob", "bob")
        gate.set()
        await bot.app.idle()
        assert len(bot.server.requests) == 1
        assert [run.outcome for run in await runs_of(bot)] == ["refused"]
        await tick_at(bot, clock, NOON + timedelta(hours=45))
        assert len(bot.server.requests) == 1
        assert (await find_job(bot)).state == "paused"


@pytest.mark.parametrize(
    ("day", "due"),
    [
        (datetime(2027, 3, 27, 12, tzinfo=BERLIN), datetime(2027, 3, 28, 1, 0, tzinfo=UTC)),
        (datetime(2027, 10, 30, 12, tzinfo=BERLIN), datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
    ],
    ids=["the hour is left out", "the hour comes twice"],
)
async def test_a_time_of_the_day_happens_once_on_days_when_the_clock_is_changed(
    tmp_path: Path, clock: Coordinates, day: datetime, due: datetime
) -> None:
    """2:30 in Berlin: right after the jump, or the first of the two."""
    clock.move_to(day, tick=True)
    async with run_bot(tmp_path, settings={"timezone": "Europe/Berlin"}) as bot:
        await bot.says("/remind every day 2:30 Tea")
        await tick_at(bot, clock, due - timedelta(seconds=20))
        assert unasked(bot) == []
        for minutes in range(0, 180, 15):
            await tick_at(bot, clock, due + timedelta(minutes=minutes, seconds=1))
        assert unasked(bot) == ["**Reminder:** Tea"]
        after = datetime.fromtimestamp((await find_job(bot)).next_at, BERLIN)
        assert (after.hour, after.minute) == (2, 30)
        assert after.date() == due.astimezone(BERLIN).date() + timedelta(days=1)


async def test_every_so_many_hours_counts_hours_that_pass_when_the_clock_is_changed(
    tmp_path: Path, clock: Coordinates
) -> None:
    start = datetime(2027, 10, 30, 23, 0, tzinfo=BERLIN)
    clock.move_to(start, tick=True)
    async with run_bot(tmp_path, settings={"timezone": "Europe/Berlin"}) as bot:
        await bot.says("/remind every 2 hours Tea")
        for hours in range(2, 9, 2):
            await tick_at(bot, clock, start.astimezone(UTC) + timedelta(hours=hours, seconds=5))
        assert unasked(bot) == ["**Reminder:** Tea"] * 4


async def test_a_job_keeps_the_zone_in_which_it_was_made(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, settings={"timezone": "Europe/Berlin"}) as bot:
        await bot.says("/remind every day 9:00 Tea")
        await bot.says("/config timezone Asia/Tokyo")
        await bot.says("/remind every day 9:00 Sushi")
        await tick_at(bot, clock, datetime(2026, 11, 24, 0, 0, 5, tzinfo=UTC))
        assert unasked(bot) == ["**Reminder:** Sushi"]
        await tick_at(bot, clock, datetime(2026, 11, 24, 8, 0, 5, tzinfo=UTC))
        assert unasked(bot) == ["**Reminder:** Sushi", "**Reminder:** Tea"]
        assert "Wed 25 Nov 2026, 09:00 (Europe/Berlin)" in (await bot.says("/jobs")).text
