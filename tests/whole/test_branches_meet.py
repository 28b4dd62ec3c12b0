"""Branches, and what else decides what is kept: retention, quarantine, groups."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.bot.test_schedule import retain, rows
from tests.fakes.openai_server import Received, Say
from tests.points.wire import with_plugin
from tests.whole import test_untrusted as outside
from tests.whole.house import House, living
from tests.whole.test_branches import asked
from tests.whole.test_forget import MARK, found_in

OWNER: dict[str, Any] = {"owners": ["pipe/ann"], **outside.NEVER}


async def says(house: House, *lines: str) -> str:
    """Say this in a group; returns the last answer."""
    answers = [(await house.says(line, "group", "ann")).text for line in lines]
    return answers[-1]


async def let_be_idle(house: House, key: str) -> None:
    await house.app.store.write(
        lambda db: db.execute_sql(
            "UPDATE conversation SET active_at = 0, created_at = 0 WHERE key LIKE ?", (key,)
        )
    )


def sections(folder: Path, place: str = "audiences") -> list[str]:
    """The turns that each section of the daily files tells of, in order."""
    days = sorted((folder / "data" / place).rglob("????-??-??.md"))
    text = "".join(day.read_text() for day in days)
    return re.findall(r"^## \d\d:\d\d · \S+ · (.*?) (?:<|$)", text, re.MULTILINE)


def script(request: Received) -> Any:
    """A model that looks at pages when told to, and writes diaries."""
    answer = outside.script(request)
    if "=== Diary ===" in str(request.body["messages"][0]["content"]) and isinstance(answer, Say):
        return Say(f"{answer.text}\n=== Diary ===\nOf {len(str(request.body))}.")
    return answer


@pytest.fixture(autouse=True)
def web(tmp_path: Path) -> None:
    with_plugin(tmp_path, outside.WEB, "web")


async def test_in_a_group_what_a_living_branch_shares_outlives_its_idle_beginning(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, "Hello.", "And you?", "/fork t1", "Go on.")
        await let_be_idle(house, "pipe/group")
        await retain(house, days=1)
        await says(house, "Further.")
        assert asked(house) == [f"ann: {one}" for one in ("Hello.", "Go on.", "Further.")]
        await let_be_idle(house, "%")
        await retain(house, days=1)
        assert [await rows(house, table) for table in ("message", "branch")] == [0, 0]


async def test_branches_that_are_deleted_for_being_idle_tell_once_of_what_they_share(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, "Hello.", "And you?", "/fork t1", "Go on.", "/fork t1", "Well.")
        await let_be_idle(house, "%")
        await retain(house, days=1)
        assert await rows(house, "message") == 0
    assert sorted(sections(tmp_path)) == ["t1 to t2", "t2", "t2"], "of each its own, and t1 once"


async def test_what_a_branch_has_told_is_not_told_again_when_it_is_gone_and_is_still_forgotten(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, f"I live in {MARK}. " * 50, "And you?", "/fork t2", "/context compact t1")
        await house.app.conversations.settle()
        assert sections(tmp_path) == ["t1"]
        await says(house, "/branches 1", "Hm.")
        await let_be_idle(house, "pipe/group//2")
        await retain(house, days=1)
        assert await rows(house, "branch") == 0
        await says(house, "/context compact t1")
        await house.app.conversations.settle()
        assert sections(tmp_path) == ["t1"], "the branch has told of it"
        await says(house, "/forget t1 yes")
        assert sections(tmp_path) == []
    assert found_in(tmp_path) == []


async def test_what_came_from_outside_waits_once_for_all_branches_that_share_it(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, "Please look", "Hello", "/fork", "Hm")
        await says(house, "/context compact t1-t2", "/branches 1", "/context compact t1-t2")
        await house.app.conversations.settle()
        assert (sections(tmp_path), sections(tmp_path, "quarantine")) == ([], ["t1 to t2"])
        waiting = await says(house, "/memory pending")
        assert waiting.count("bitcoin") == 1
        await says(house, "/branches 2", "/memory approve 1", "/branches 1")
        assert (await says(house, "/memory pending")).startswith("Nothing is waiting")
        assert (sections(tmp_path), sections(tmp_path, "quarantine")) == (["t1 to t2"], [])


async def test_what_waits_of_a_branch_that_was_deleted_for_being_idle_is_still_looked_through(
    tmp_path: Path,
) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, "Please look", "Hello", "/fork", "Hm", "/context compact t1-t2")
        await house.app.conversations.settle()
        await says(house, "/branches 1", "Well.")
        await let_be_idle(house, "pipe/group//2")
        await retain(house, days=1)
        assert await rows(house, "branch") == 0
        assert (await says(house, "/memory pending")).count("bitcoin") == 1
        assert await says(house, "/memory approve 1") == "It is in the memory now."
        assert "t1 to t2" in sections(tmp_path)


async def test_what_waits_is_forgotten_with_the_turn_that_branches_share(tmp_path: Path) -> None:
    async with living(tmp_path, script, OWNER) as house:
        await says(house, "Please look", "Hello", "/fork", "Hm", "/context compact t1-t2")
        await house.app.conversations.settle()
        assert sections(tmp_path, "quarantine") == ["t1 to t2"]
        await says(house, "/branches 1", "/forget t1 yes")
        await house.app.conversations.settle()
        assert (await says(house, "/memory pending")).count("bitcoin") == 0
        assert "t1 to t2" not in sections(tmp_path, "quarantine")
