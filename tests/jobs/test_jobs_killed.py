"""Tests of kill -9 during a reminder and a job: each is sent and run once, in a real process."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from tests.fakes.openai_server import Hang, OpenAIServer, Say
from tests.waiting import PATIENCE
from tests.whole.distilling import write
from tests.whole.process import BotProcess, run_command, talking

pytestmark = pytest.mark.usefixtures("processes")

ONE_RUN = """SELECT count(*) FROM message WHERE role = 'user'
    AND inbox IN (SELECT inbox FROM job_run WHERE inbox > 0)"""


def execute(folder: Path, statement: str) -> list[tuple[object, ...]]:
    """Return the rows of a statement in the database of a stopped bot."""
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database, database:
        return database.execute(statement).fetchall()


async def test_a_killed_bot_tells_a_reminder_once_and_goes_on_with_a_job(tmp_path: Path) -> None:
    async with OpenAIServer([Hang(), Say("All quiet.")]) as endpoint:
        async with talking(tmp_path, endpoint) as bot:
            await bot.says("/remind tomorrow 9:00 Call Mom")
            await bot.says("/jobs add tomorrow 9:00 Look")
            await bot.kill()
        execute(tmp_path, f"UPDATE scheduled_job SET next_at = {time.time() - 30}")
        async with talking(tmp_path, endpoint) as bot:
            await bot.line(lambda line: "Call Mom" in str(line.get("text")))
            await until_asked(bot, endpoint, 1)
            await bot.kill()
        async with talking(tmp_path, endpoint) as bot:
            answer = await bot.line(lambda line: "All quiet." in str(line.get("text")))
            assert "Job 2, once" in answer["text"]
            listed = (await bot.says("/jobs"))["text"]
            assert "done" in listed
            await bot.kill()
    assert execute(tmp_path, ONE_RUN) == [(1,)]
    reminders = "SELECT count(*) FROM outbox WHERE reply LIKE '%Reminder:%Call Mom%'"
    assert execute(tmp_path, reminders) == [(1,)]
    assert execute(tmp_path, "SELECT outcome FROM job_run ORDER BY job") == [("told",), ("done",)]


async def test_a_backup_that_a_script_restores_lets_jobs_rest_and_says_so(tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.tar.gz")
    async with OpenAIServer([]) as endpoint:
        async with talking(tmp_path, endpoint, {"tools": {"web_fetch": True}}) as bot:
            await bot.says("/jobs add --allow web_fetch tomorrow 9:00 Look")
            await bot.says("/remind tomorrow 9:00 Call Mom")
            assert await bot.ended() == 0
        assert run_command(tmp_path, "backup", saved).returncode == 0

        done = run_command(tmp_path, "restore", saved)

        assert done.returncode == 0
        assert "Its jobs (1) are paused" in done.stdout
        assert "restore everything with: " in done.stdout
        async with talking(tmp_path, endpoint) as bot:
            assert "paused: it came with a backup" in (await bot.says("/jobs"))["text"]
            assert "goes on" in (await bot.says("/jobs resume 1"))["text"]
            assert "may use no tool" in (await bot.says("/jobs 1"))["text"]
            assert await bot.ended() == 0
        done = run_command(tmp_path, "restore", saved, "--with-code")
        assert "rest, and may" not in done.stdout
        async with talking(tmp_path, endpoint) as bot:
            assert "may use web_fetch" in (await bot.says("/jobs 1"))["text"]


async def until_asked(bot: BotProcess, endpoint: OpenAIServer, count: int) -> None:
    """Wait until the model has received that many requests, which cause no output."""
    async with asyncio.timeout(PATIENCE):
        while len(endpoint.requests) < count:
            await bot.says("/version", id=uuid4().hex)


async def test_a_night_that_a_kill_cut_short_is_done_again(tmp_path: Path) -> None:
    day = tmp_path / "data" / "audiences" / "pipe-main" / "memory"
    async with OpenAIServer([Hang(), Say('{"operations": []}')]) as endpoint:
        async with talking(tmp_path, endpoint, {"timezone": "UTC"}) as bot:
            await bot.says("/memory nightly on")
            await bot.kill()
        write(tmp_path, "Ann lives in Lisbon.", job=1)
        assert list(day.glob("*.md"))
        execute(tmp_path, f"UPDATE scheduled_job SET next_at = {time.time() - 30}")
        async with talking(tmp_path, endpoint) as bot:
            await until_asked(bot, endpoint, 1)
            await bot.kill()
        async with talking(tmp_path, endpoint) as bot:
            assert "tried again" in (await bot.says("/jobs"))["text"]
            await bot.kill()
        execute(tmp_path, f"UPDATE scheduled_job SET retry_at = {time.time() - 30}")
        async with talking(tmp_path, endpoint) as bot:
            await until_asked(bot, endpoint, 2)
            await bot.ended()
    outcomes = execute(tmp_path, "SELECT outcome FROM job_run ORDER BY id")
    assert outcomes == [("failed",), ("done",)]
