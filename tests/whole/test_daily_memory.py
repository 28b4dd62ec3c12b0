"""Tests that turns removed from the context are in the daily memory before they may be deleted."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Fail, Received, Say, openai_overflow
from tests.whole.requests import (
    answering,
    asked_to_summarise,
    content,
    daily,
    events,
    has_results,
    last_asked,
    looks,
    memories,
    put_file,
    settle,
    state,
    steps,
    talk,
    texts,
)
from tests.whole.testbot import TestBot, run_bot

SMALL: dict[str, Any] = {"max_tokens": 10_000, "output_reserved": 500, "keep_recent": 4}
FEW_TURNS = {"agent_max_context_turns": 4}
PADDING = "and so on " * 120


def fact(number: int) -> str:
    return f"locker{number:02d}"


def told(number: int) -> str:
    return f"The key is in {fact(number)}. {PADDING}"


def noted(request: Received) -> Answer:
    return Say(f"Noted: {last_asked(request)[:23].split()[-1].strip('.')} replied.")


def missing(text: str, numbers: list[int]) -> list[int]:
    """Return the turns without any of their facts in a text."""
    return [number for number in numbers if fact(number) not in text]


async def departed(bot: TestBot) -> list[int]:
    """Return the numbers of the removed turns, by the events."""
    left = {turn for event in await events(bot) for turn in event["turns"]}
    return sorted(int(turn[1:]) for turn in left)


def refused_once(request: Received) -> Answer:
    """Refuse the request of the turn that asks for "the last" while it is long."""
    if last_asked(request).startswith("the last") and len(request.raw) > 14_000:
        return openai_overflow(10_500, 10_000)
    return noted(request)


def no_summaries(request: Received) -> Answer:
    return Fail(400, {"message": "no summaries"})


@pytest.mark.parametrize(("strategy", "is_summarised"), [("truncate", True), ("trim", False)])
async def test_without_a_summary_500_characters_of_question_and_reply_are_kept(
    tmp_path: Path, strategy: str, is_summarised: bool
) -> None:
    def at_length(request: Received) -> Answer:
        return Say("x " * 200 + f"answer of {last_asked(request)[:20].split()[0]}")

    script = answering(at_length, "They talked." if is_summarised else no_summaries)
    async with run_bot(tmp_path, script, {"context": SMALL | {"strategy": strategy}}) as bot:
        questions = [f"q{number}. " + "y " * 200 + f"end{number}." for number in range(1, 8)]
        await talk(bot, *questions, "/context free")
        assert await departed(bot) == [1, 2, 3, 4, 5]
    kept = daily(tmp_path)
    for number in range(1, 6):
        assert f"end{number}." in kept
        assert f"answer of q{number}." in kept


async def test_what_came_from_outside_leaves_for_the_quarantine_and_the_rest_is_remembered_at_once(
    tmp_path: Path,
) -> None:
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
        assert tainted_summaries(tmp_path) > 0
        for action in (await bot.says("/memory pending")).actions[::2]:
            await bot.says(action.command)
        assert tainted_summaries(tmp_path) == 0, "the recap was made of what was let in"


def tainted_summaries(tmp_path: Path) -> int:
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database:
        (count,) = database.execute("SELECT COUNT(*) FROM summary WHERE is_untrusted").fetchone()
    return int(count)


def with_diary(request: Received) -> Answer:
    """Return a summary that names what is new in it, if it continues another."""
    is_continued = "=== Diary ===" in content(request.body["messages"][0])
    return Say("They talked.\n=== Diary ===\nThey went on." if is_continued else "They talked.")


def spans(text: str) -> list[set[int]]:
    """Return the turns in the heading of each section of the daily memory."""
    found = re.findall(r"^## .*· t(\d+)(?: to t(\d+))?", text, re.MULTILINE)
    return [set(range(int(first), int(last or first) + 1)) for first, last in found]


async def test_what_an_emergency_wrote_down_goes_when_a_summary_tells_of_it(
    tmp_path: Path,
) -> None:
    """The daily memory has the summary, and excerpts of the turns without one; never both for a
    turn."""
    script = answering(refused_once, with_diary)
    async with run_bot(tmp_path, script, {"context": SMALL | {"strategy": "trim"}}) as bot:
        await talk(bot, *(told(number) for number in range(1, 9)), "the last word")
        await settle(bot)
        assert missing(daily(tmp_path), [8]) == [], "the emergency wrote down what stayed"
        await talk(bot, "one more", "/context compact")
        await settle(bot)
    found = spans(daily(tmp_path))
    assert not [n for n in range(1, 10) if sum(n in span for span in found) != 1], found


@pytest.mark.parametrize("strategy", ["trim", "slim"])
async def test_retention_deletes_nothing_that_did_not_go_to_memory_but_what_was_taken_away(
    tmp_path: Path, strategy: str
) -> None:
    settings = {"context": SMALL | {"strategy": strategy}}
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await talk(bot, *(told(number) for number in range(1, 10)), told(99), "/undo")
        kept = asked_to_summarise(bot)
    with closing(sqlite3.connect(tmp_path / "data" / "parley.db")) as database, database:
        database.execute("UPDATE conversation SET active_at = 1, created_at = 1")
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await bot.app.schedule.due()
        await bot.app.schedule.idle()
        assert (await state(bot))["stored_messages"] == 0, "it is retired"
        kept += asked_to_summarise(bot) + daily(tmp_path)
    assert missing(kept, list(range(1, 10))) == []
    assert fact(99) not in kept


async def test_a_section_is_dated_by_when_things_were_said(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"timezone": "UTC"}
    async with run_bot(tmp_path, answering(noted), settings) as bot:
        await talk(bot, "one", "two", "three")
        said_at = datetime.fromisoformat(await first_message_at(bot))
        await bot.app.store.write(
            lambda db: db.execute_sql("UPDATE message SET at = at - ?", (3 * 86_400,))
        )
    async with run_bot(tmp_path, answering(noted), settings | FEW_TURNS) as bot:
        await talk(bot, "four", "five", "six", "/context compact")
    days = [file.stem for file in memories(tmp_path)]
    assert str((said_at - timedelta(days=3)).date()) in days


async def first_message_at(bot: TestBot) -> str:
    (row,) = await bot.app.store.read(
        lambda db: db.execute_sql("SELECT datetime(min(at), 'unixepoch') FROM message").fetchall()
    )
    return str(row[0])


def facts_in(text: str) -> list[str]:
    return list(dict.fromkeys(re.findall(r"fact-\d+", text)))


def remembering(request: Received) -> Answer:
    """Summaries name all facts of their source, as a good summary does."""
    return Say(f"Known: {', '.join(facts_in(request.raw.decode()))}.")


def diarist(request: Received) -> Answer:
    """Summaries name what is new in them, as requested."""
    task, material = (content(message) for message in request.body["messages"])
    mark = re.search(r"=== .* ===", task)
    new = facts_in(material.rpartition("What followed:")[2])
    diary = f"\n{mark[0]}\nSaid: {', '.join(new)}." if mark else ""
    return Say(f"Known: {', '.join(facts_in(material))}.{diary}")


@pytest.mark.parametrize("model", [remembering, diarist, no_summaries])
async def test_a_section_does_not_retell_the_earlier_ones(tmp_path: Path, model: Any) -> None:
    """Compare sections: below the heading of t3 to t4 is the content of t3 and t4; the context's
    own summary continues the previous one. fact-7 is in t7."""
    script = answering(lambda _: Say("I see."), model)
    async with run_bot(tmp_path, script, FEW_TURNS) as bot:
        await talk(bot, *(f"Keep fact-{number}." for number in range(1, 12)))
        front = texts(steps(bot)[-1])[0]
        assert len(bot.server.summaries) > 2
    (file,) = memories(tmp_path)
    sections = re.split(r"^(?=## )", file.read_text(), flags=re.MULTILINE)[1:]
    assert len(sections) > 2
    assert "fact-1" in sections[0]
    assert "fact-1" in front, "the context still knows it"
    assert "===" not in front
    if model is diarist:
        assert all("Said:" in section for section in sections[1:]), "in the model's own words"
    for section in sections:
        numbers = {int(number) for number in re.findall(r"fact-(\d+)", section)}
        assert numbers <= spans(section)[0], "what is there is of other turns"
