"""Point 3: what leaves is in the daily memory before anything may delete it, under every strategy
and after every emergency."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Fail, Received, Say, openai_overflow
from tests.points.scene import (
    answering,
    content,
    daily,
    events,
    has_results,
    last_asked,
    looks,
    put_file,
    state,
    summaries,
    talk,
    whole,
)
from tests.points.wire import settle
from tests.whole.testbot import TestBot, run_bot

SMALL: dict[str, Any] = {"max_tokens": 10_000, "output_reserved": 500, "keep_recent": 4}
STRATEGIES = ["trim", "slim", "full", "truncate", "summarize", "structured", "stubs"]
PADDING = "and so on " * 120


def fact(number: int) -> str:
    return f"locker{number:02d}"


def told(number: int) -> str:
    return f"The key is in {fact(number)}. {PADDING}"


def noted(request: Received) -> Answer:
    return Say(f"Noted: {last_asked(request)[:23].split()[-1].strip('.')} replied.")


def missing(text: str, numbers: list[int]) -> list[int]:
    """The turns of whose facts nothing stands in a text."""
    return [number for number in numbers if fact(number) not in text]


async def departed(bot: TestBot) -> list[int]:
    """The numbers of the turns that have left for good, by the events."""
    left = {turn for event in await events(bot) for turn in event["turns"]}
    return sorted(int(turn[1:]) for turn in left)


async def test_under_truncate_each_turn_that_left_is_in_the_daily_memory(tmp_path: Path) -> None:
    settings = {"context": SMALL | {"strategy": "truncate"}}
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 23)))
        left = await departed(bot)
    assert len(left) > 10
    assert missing(daily(tmp_path), left) == []


def at_length(request: Received) -> Answer:
    return Say("x " * 200 + f"answer of {last_asked(request)[:20].split()[0]}")


def not_kept(text: str, numbers: list[int]) -> list[int]:
    """The turns of whose question or reply the end is missing, after some 410 characters."""
    ends = {n: (f"end{n}.", f"answer of q{n}.") for n in numbers}
    return [n for n, (asked, said) in ends.items() if asked not in text or said not in text]


LONG_QUESTIONS = [f"q{number}. " + "y " * 200 + f"end{number}." for number in range(1, 8)]


async def test_under_truncate_500_characters_of_question_and_reply_are_kept(
    tmp_path: Path,
) -> None:
    settings = {"context": SMALL | {"strategy": "truncate", "keep_recent": 2}}
    async with run_bot(tmp_path, answering(at_length), settings) as bot:
        await talk(bot, *LONG_QUESTIONS, "/context free")
        left = await departed(bot)
    assert left == [1, 2, 3, 4, 5]
    assert not_kept(daily(tmp_path), left) == []


@pytest.mark.parametrize("strategy", ["trim", "summarize", "structured", "stubs"])
async def test_where_the_summary_fails_500_characters_of_question_and_reply_are_kept(
    tmp_path: Path, strategy: str
) -> None:
    script = answering(at_length, lambda request: Fail(400, {"message": "no summaries"}))
    async with run_bot(tmp_path, script, {"context": SMALL | {"strategy": strategy}}) as bot:
        await talk(bot, *LONG_QUESTIONS, "/context free")
        left = await departed(bot)
    assert left == [1, 2, 3, 4, 5]
    assert not_kept(daily(tmp_path), left) == []


async def test_what_came_from_outside_leaves_for_the_quarantine(tmp_path: Path) -> None:
    def reply(request: Received) -> Answer:
        is_first = last_asked(request).startswith("look") and not has_results(request)
        return looks(request, "letter.txt") if is_first else Say("The letter says hello.")

    put_file(tmp_path, "letter.txt", "hello")
    settings = {"context": SMALL | {"strategy": "truncate"}}
    async with run_bot(tmp_path, answering(reply), settings) as bot:
        await talk(bot, "look at the letter", "two", "three", "four", "/context free")
    (waiting,) = (tmp_path / "data" / "quarantine").rglob("memory/*.md")
    assert "The letter says hello." in waiting.read_text()
    assert list((tmp_path / "data" / "audiences").rglob("memory/*.md")) == []


async def test_beside_what_came_from_outside_the_rest_is_remembered_at_once(tmp_path: Path) -> None:
    settings = {"context": SMALL | {"strategy": "truncate", "keep_recent": 2}}

    def reply(request: Received) -> Answer:
        is_first = last_asked(request).startswith("look") and not has_results(request)
        return looks(request, "letter.txt") if is_first else Say("Yes.")

    put_file(tmp_path, "letter.txt", "hello")
    async with run_bot(tmp_path, answering(reply), settings) as bot:
        await talk(bot, told(1), "look at the letter", "three", "four", "/context free")
        (waiting,) = (tmp_path / "data" / "quarantine").rglob("memory/*.md")
        (known,) = (tmp_path / "data" / "audiences").rglob("memory/*.md")
        assert fact(1) in known.read_text()
        assert "look at the letter" not in known.read_text()
        assert "look at the letter" in waiting.read_text()
        assert doubted(tmp_path) > 0
        for action in (await bot.says("/memory pending")).actions[::2]:
            await bot.says(action.command)
        assert doubted(tmp_path) == 0, "the recap in the context was made of what was let in"


def doubted(tmp_path: Path) -> int:
    """How many summaries taint what is said with them in view."""
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM summary WHERE is_untrusted").fetchone()
    return int(count)


async def test_what_left_is_in_the_daily_memory_once(tmp_path: Path) -> None:
    """An emergency sends what stays, too; when that leaves, it is not told again."""
    settings = {"context": SMALL | {"strategy": "truncate"}}
    async with run_bot(tmp_path, answering(refused_once), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 9)), "the last word")
        await talk(bot, *(told(number) for number in range(10, 26)), "/context free")
        left = await departed(bot)
    assert len(left) > 15
    assert {daily(tmp_path).count(fact(n)) for n in left if n != 9} == {2}, "question and reply"


def with_diary(request: Received) -> Answer:
    """A summary that says what is new in it, where it continues another."""
    is_continued = "=== Diary ===" in content(request.body["messages"][0])
    return Say("They talked.\n=== Diary ===\nThey went on." if is_continued else "They talked.")


def spans(text: str) -> list[set[int]]:
    """The turns that each section of the daily memory is headed with."""
    found = re.findall(r"^## .*· t(\d+)(?: to t(\d+))? <!--", text, re.MULTILINE)
    return [set(range(int(first), int(last or first) + 1)) for first, last in found]


async def test_what_an_emergency_wrote_down_goes_when_a_summary_tells_of_it(
    tmp_path: Path,
) -> None:
    """DESIGN.md 8: the summary, and excerpts of the turns that none covers; not both."""
    script = answering(refused_once, with_diary)
    async with run_bot(tmp_path, script, {"context": SMALL | {"strategy": "trim"}}) as bot:
        await talk(bot, *(told(number) for number in range(1, 9)), "the last word")
        await settle(bot)
        assert missing(daily(tmp_path), [8]) == [], "the emergency wrote down what stayed"
        await talk(bot, "one more", "/context compact")
        await settle(bot)
        found = spans(daily(tmp_path))
        told_twice = [n for n in range(1, 10) if sum(n in span for span in found) != 1]
        assert not told_twice, found


async def retired(tmp_path: Path, settings: dict[str, Any]) -> str:
    """A night, long after 17 turns were said: what was asked of a model in all that time, and what
    the daily files hold when the transcript is gone."""
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 18)))
        asked = "\n".join(whole(r.body["messages"]) for r in summaries(bot))
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database, database:
        database.execute("UPDATE conversation SET active_at = 1, created_at = 1")
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await bot.app.schedule.due()
        await bot.app.schedule.idle()
        assert (await state(bot))["stored_messages"] == 0, "it is retired"
        asked += "\n".join(whole(r.body["messages"]) for r in summaries(bot))
    return asked + daily(tmp_path)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_retention_deletes_nothing_that_did_not_go_to_memory(
    tmp_path: Path, strategy: str
) -> None:
    kept = await retired(tmp_path, {"context": SMALL | {"strategy": strategy}})
    assert missing(kept, list(range(1, 18))) == []


def refused_once(request: Received) -> Answer:
    """The request of the turn that asks for "the last" is refused as long as it holds much."""
    if last_asked(request).startswith("the last") and len(request.raw) > 14_000:
        return openai_overflow(10_500, 10_000)
    return noted(request)


async def after_an_emergency(tmp_path: Path, strategy: str) -> tuple[list[int], str]:
    """Eight turns and an overflow: the turns that left, and all that is on its way to memory: what
    a model was asked to summarise, and the daily files."""
    settings = {"context": SMALL | {"strategy": strategy, "full_turns": 10}}
    async with run_bot(tmp_path, answering(refused_once), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 9)), "the last word")
        left = await departed(bot)
        asked = "\n".join(whole(r.body["messages"]) for r in summaries(bot))
    return left, asked + daily(tmp_path)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_what_left_by_an_emergency_is_on_its_way_to_memory(
    tmp_path: Path, strategy: str
) -> None:
    left, kept = await after_an_emergency(tmp_path, strategy)
    assert left
    assert missing(kept, left) == []


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_an_emergency_sends_all_messages_on_their_way_to_memory(
    tmp_path: Path, strategy: str
) -> None:
    left, kept = await after_an_emergency(tmp_path, strategy)
    assert left
    assert missing(kept, list(range(1, 9))) == []


async def test_after_an_emergency_under_summarize_no_departed_fact_is_in_no_file(
    tmp_path: Path,
) -> None:
    settings = {"context": {"strategy": "summarize", "max_tokens": 20_000, "auto_compact": False}}
    async with run_bot(tmp_path, answering(refused_once), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 23)), "the last word")
        left = await departed(bot)
        asked = "\n".join(whole(r.body["messages"]) for r in summaries(bot))
    assert len(left) >= 18
    assert missing(asked + daily(tmp_path), left) == []
