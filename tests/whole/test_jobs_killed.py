"""kill -9 while a reminder is told and a job runs: each is told and run once, in a real process."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.fakes.openai_server import Hang, OpenAIServer, Say
from tests.whole.process import talking

ONE_RUN = """SELECT count(*) FROM message WHERE role = 'user'
    AND inbox IN (SELECT inbox FROM job_run WHERE inbox > 0)"""


def execute(folder: Path, statement: str) -> list[tuple[object, ...]]:
    """What a statement finds in the database of a bot that does not run."""
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
            await bot.until(lambda: endpoint.requests)
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
