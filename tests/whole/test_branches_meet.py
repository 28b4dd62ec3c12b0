"""Branches together with retention, quarantine and groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.bot.test_schedule import retain, rows
from tests.fakes.openai_server import Received, Say
from tests.whole import test_untrusted as outside
from tests.whole.requests import with_plugin
from tests.whole.test_forget import MARK, found_in
from tests.whole.testbot import TestBot, run_bot

OWNER: dict[str, Any] = {"owners": ["pipe/ann"], **outside.NEVER}


async def says(bot: TestBot, *lines: str) -> str:
    """Send this in a group; return the last answer."""
    answers = [(await bot.says(line, "group", "ann")).text for line in lines]
    return answers[-1]


async def let_be_idle(bot: TestBot, key: str) -> None:
    await bot.app.store.write(
        lambda db: db.execute_sql(
            "UPDATE conversation SET active_at = 0, created_at = 0 WHERE key LIKE ?", (key,)
        )
    )


def sections(folder: Path, place: str = "audiences") -> list[str]:
    """Return the turns of each section of the daily files, in order."""
    days = sorted((folder / "data" / place).rglob("????-??-??.md"))
    text = "".join(day.read_text() for day in days)
    return re.findall(r"^## \d\d:\d\d · \S+ · (.*?) (?:<|$)", text, re.MULTILINE)


def script(request: Received) -> Any:
    """A model that fetches pages on request, and writes diaries."""
    answer = outside.script(request)
    if "=== Diary ===" in str(request.body["messages"][0]["content"]) and isinstance(answer, Say):
        return Say(f"{answer.text}\n=== Diary ===\nOf {len(str(request.body))}.")
    return answer


@pytest.fixture(autouse=True)
def web(tmp_path: Path) -> None:
    with_plugin(tmp_path, outside.WEB, "web")


async def test_idle_branches_tell_once_of_what_they_share(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, OWNER) as bot:
        await says(bot, "Hello.", "And you?", "/fork t1", "Go on.", "/fork t1", "Well.")
        await let_be_idle(bot, "%")
        await retain(bot, days=1)
        assert await rows(bot, "message") == 0
    assert sorted(sections(tmp_path)) == ["t1 to t2", "t2", "t2"], "of each its own, and t1 once"


async def test_what_a_branch_that_is_gone_has_told_is_not_told_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, OWNER) as bot:
        await says(bot, f"I live in {MARK}. " * 50, "And you?", "/fork t2", "/context compact t1")
        await bot.app.conversations.flush()
        assert sections(tmp_path) == ["t1"]
        await says(bot, "/branches 1", "Hm.")
        await let_be_idle(bot, "pipe/group//2")
        await retain(bot, days=1)
        assert await rows(bot, "branch") == 0
        await says(bot, "/context compact t1")
        await bot.app.conversations.flush()
        assert sections(tmp_path) == ["t1"], "the branch has told of it"
        await says(bot, "/forget t1 yes")
        assert sections(tmp_path) == []
    assert found_in(tmp_path) == []


async def test_what_came_from_outside_waits_once_for_all_branches(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, OWNER) as bot:
        await says(bot, "Please look", "Hello", "/fork", "Hm")
        await says(bot, "/context compact t1-t2", "/branches 1", "/context compact t1-t2")
        await bot.app.conversations.flush()
        assert (sections(tmp_path), sections(tmp_path, "quarantine")) == ([], ["t1 to t2"])
        waiting = await says(bot, "/memory pending")
        assert waiting.count("bitcoin") == 1
        await says(bot, "/branches 2", "/memory approve 1", "/branches 1")
        assert (await says(bot, "/memory pending")).startswith("Nothing is waiting")
        assert (sections(tmp_path), sections(tmp_path, "quarantine")) == (["t1 to t2"], [])


async def test_what_waits_of_a_branch_that_is_gone_is_still_reviewed(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, OWNER) as bot:
        await says(bot, "Please look", "Hello", "/fork", "Hm", "/context compact t1-t2")
        await bot.app.conversations.flush()
        await says(bot, "/branches 1", "Well.")
        await let_be_idle(bot, "pipe/group//2")
        await retain(bot, days=1)
        assert await rows(bot, "branch") == 0
        assert (await says(bot, "/memory pending")).count("bitcoin") == 1
        assert await says(bot, "/memory approve 1") == "It is in the memory now."
        assert "t1 to t2" in sections(tmp_path)


async def test_what_waits_is_forgotten_with_the_turn_that_branches_share(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, OWNER) as bot:
        await says(bot, "Please look", "Hello", "/fork", "Hm", "/context compact t1-t2")
        await bot.app.conversations.flush()
        assert sections(tmp_path, "quarantine") == ["t1 to t2"]
        await says(bot, "/branches 1", "/forget t1 yes")
        await bot.app.conversations.flush()
        assert (await says(bot, "/memory pending")).count("bitcoin") == 0
        assert "t1 to t2" not in sections(tmp_path, "quarantine")
