"""`/memory nightly` in a whole bot: new sections are distilled each night, silently."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from time_machine import Coordinates

from memory.record import daily
from memory.record.daily import Section
from plugins.jobs import record as jobs
from plugins.jobs.record import JobRow, RunRow
from tests.fakes.openai_server import Fail
from tests.jobs.test_jobs import tick_at
from tests.whole.distilling import HERE, add, distilled_to, remembered
from tests.whole.testbot import TestBot, run_bot

NOON = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
NIGHT = datetime(2026, 11, 24, 3, 30, tzinfo=UTC)
SETTINGS = {"timezone": "UTC", "jobs": {"quiet_hours": "22:00-07:00"}}


@pytest.fixture(autouse=True)
def clock() -> Iterator[Coordinates]:
    with time_machine.travel(NOON, tick=True) as traveller:
        yield traveller


def write_day(folder: Path, text: str, job: int) -> None:
    daily.append(folder / "data", Section(HERE, NOON, "t1 to t3", text, job))


async def find_job(bot: TestBot) -> tuple[JobRow, list[RunRow]]:
    """Return the job, and its runs, newest first."""
    (job,) = await bot.app.store.read(jobs.list_all)
    return job, await bot.app.store.read(lambda db: jobs.list_runs(db, job.id))


async def test_a_night_proposes_what_is_new_and_says_nothing(
    tmp_path: Path, clock: Coordinates
) -> None:
    write_day(tmp_path, "Ann lives in Lisbon.", job=1)
    async with run_bot(tmp_path, distilled_to([add("Ann lives in Lisbon.")]), SETTINGS) as bot:
        made = (await bot.says("/memory nightly on")).text
        assert "next on Tue 24 Nov 2026, 03:30 (UTC)" in made
        assert "$0.25 at most" in made
        assert "already" in (await bot.says("/memory nightly on")).text
        said = len(bot.sent)
        await tick_at(bot, clock, NIGHT)
        assert len(bot.sent) == said, "in quiet hours, and nobody is told anything"
        assert len(bot.server.distillations) == 1
        assert remembered(tmp_path) == "", "nothing is in force before a yes"
        assert "Lisbon" in (await bot.says("/memory diff")).text
        job, (run,) = await find_job(bot)
        assert run.outcome == "done"
        assert "1 of 1 section" in run.why
        assert job.next_at == (NIGHT + timedelta(days=1)).timestamp()


async def test_a_night_without_anything_new_asks_no_model(
    tmp_path: Path, clock: Coordinates
) -> None:
    async with run_bot(tmp_path, distilled_to(), SETTINGS) as bot:
        await bot.says("/memory nightly on 2:15")
        for days in range(3):
            await tick_at(bot, clock, NIGHT + timedelta(days=days))
        assert not bot.server.requests
        _, runs = await find_job(bot)
        assert [run.outcome for run in runs] == ["done"] * 3
        assert "nothing new" in runs[0].why
        assert "not distilled by itself" in (await bot.says("/memory nightly off")).text
        assert await bot.app.store.read(jobs.list_all) == []
        assert "only when somebody asks" in (await bot.says("/memory nightly")).text


async def test_a_night_costs_no_more_than_its_budget_and_goes_on_the_next(
    tmp_path: Path, clock: Coordinates
) -> None:
    """Each piece is a call; once the budget is reached, the others wait."""
    for job in range(1, 100):
        write_day(tmp_path, f"Ann said {job}: " + "many words " * 40, job)
    settings = SETTINGS | {"model": "gpt-5", "jobs": {"run_budget": 0.001}}
    async with run_bot(tmp_path, distilled_to([], [], []), settings) as bot:
        await bot.says("/memory nightly on")
        await tick_at(bot, clock, NIGHT)
        assert len(bot.server.requests) == 1
        _, (run,) = await find_job(bot)
        assert run.cost > 0
        assert "budget is used up" in run.why
        await tick_at(bot, clock, NIGHT + timedelta(days=1))
        assert len(bot.server.requests) == 2


async def test_a_night_that_fails_is_tried_again_and_then_an_owner_hears(
    tmp_path: Path, clock: Coordinates
) -> None:
    write_day(tmp_path, "Ann lives in Lisbon.", job=1)
    async with run_bot(tmp_path, [Fail(401, "no")] * 3, SETTINGS) as bot:
        await bot.says("/memory nightly on")
        for minutes in (0, 6, 22):
            await tick_at(bot, clock, NIGHT + timedelta(minutes=minutes))
        job, runs = await find_job(bot)
        assert [run.outcome for run in runs] == ["failed"] * 3
        assert (job.failures, job.retry_at) == (1, 0.0)
        assert "refused the API key" in bot.sent[-1].reply.text


async def test_a_night_that_was_missed_is_left_out(tmp_path: Path, clock: Coordinates) -> None:
    write_day(tmp_path, "Ann lives in Lisbon.", job=1)
    async with run_bot(tmp_path, distilled_to(), SETTINGS) as bot:
        await bot.says("/memory nightly on")
        said = len(bot.sent)
        await tick_at(bot, clock, NIGHT + timedelta(days=3, hours=5))
        assert not bot.server.requests
        assert len(bot.sent) == said
        job, _ = await find_job(bot)
        assert job.next_at == (NIGHT + timedelta(days=4)).timestamp()
