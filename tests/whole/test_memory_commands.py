"""`/memory`: a day, a search, and sizes; never those of another audience."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from channels.language import format_date, format_weekday
from memory.keys import ConversationKey
from memory.record import daily
from memory.record.daily import Section
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.testbot import TestBot, run_bot

UTC_TIMES = {"timezone": "UTC"}
NOW = datetime.now(UTC)
HERE = ConversationKey("pipe/main", "pipe-main")


def echo(request: Received) -> Answer:
    return Say(f"You said: {request.body['messages'][-1]['content']}")


def write(folder: Path, text: str, back: int = 0, key: ConversationKey = HERE) -> str:
    """Put a section into a daily file, this many days ago; return the day."""
    at = NOW - timedelta(days=back)
    daily.append(folder / "data", Section(key, at, "t1 to t3", text, job=back + 1))
    return f"{at:%Y-%m-%d}"


async def reads(bot: TestBot, line: str, chat: str = "main") -> str:
    return (await bot.says(line, chat=chat)).text


async def test_without_a_word_it_shows_today(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, UTC_TIMES) as bot:
        nothing = await bot.says("/memory")
        assert nothing.text.startswith("Nothing was written to the memory today.")
        today = write(tmp_path, "Ann lives in **Lisbon**.")
        shown = await bot.says("/memory")
        for line in ("/memory foo", "/memory 2026-02-30", "/memory tomorrow"):
            assert "it takes a day like `20" in await reads(bot, line)
        assert "needs words" in await reads(bot, "/memory search  ")
        assert "Nothing was written" in await reads(bot, "/memory", "other")
        assert "0 daily files" in await reads(bot, "/memory status", "other")
        assert "Nothing in the memory" in await reads(bot, "/memory search lisbon", "other")
    assert shown.text.startswith(f"**Notes of {format_weekday(NOW)}**")
    heading = f"**{NOW:%H:%M}** · this conversation · t1 to t3"
    assert f"{heading}\n\nAnn lives in **Lisbon**." in shown.text
    assert "<!--" not in shown.text
    assert shown.data == {
        "day": today,
        "sections": [
            {
                "at": f"{NOW:%H:%M}",
                "conversation": "pipe/main",
                "turns": "t1 to t3",
                "text": "Ann lives in **Lisbon**.",
            }
        ],
        "days": [today],
    }


async def test_a_day_is_named_by_date_and_leads_to_its_neighbours(tmp_path: Path) -> None:
    days = [write(tmp_path, f"It was {back} days ago.", back) for back in (0, 1, 5)]
    async with run_bot(tmp_path, echo, UTC_TIMES) as bot:
        yesterday = await bot.says("/memory yesterday")
        assert "1 days ago" in yesterday.text
        assert [action.command for action in yesterday.actions] == [
            f"/memory {days[2]}",
            f"/memory {days[0]}",
            "/memory list",
        ]
        assert "5 days ago" in await reads(bot, f"/memory {days[2]}")
        empty = await reads(bot, f"/memory {NOW - timedelta(days=3):%Y-%m-%d}")
    assert f"The last day before it is /memory {days[2]}" in empty


async def test_a_long_day_is_shown_from_its_end(tmp_path: Path) -> None:
    write(tmp_path, "\n".join(f"line {n}" for n in range(3_000)))
    async with run_bot(tmp_path, echo, UTC_TIMES) as bot:
        text = await reads(bot, "/memory today")
    assert len(text) < 7_000
    assert "line 2999" in text
    assert re.search(r"\(… [\d,]+ characters before this are in the file\.\)\n\nline \d+\n", text)


async def test_search_finds_words_in_the_files_and_in_all_that_was_said(tmp_path: Path) -> None:
    day = write(tmp_path, f"{'x ' * 900}Ann wants a hotel in LISSABON near the sea.", 40)
    async with run_bot(tmp_path, echo, UTC_TIMES) as bot:
        await bot.says(f"{'words ' * 400} the hotel Straße 9 in Lissabon {'more ' * 400}")
        await bot.says("/context clear")
        found = await bot.says("/memory search lissabon STRASSE")
        assert f"**{format_date(date.fromisoformat(day))}**" in found.text
        assert "**LISSABON** near the sea" in found.text
        assert "hotel **Straße** 9 in **Lissabon**" in found.text, "the matching part is shown"
        assert re.search(r"\*\*t1\*\* user, [\w ]+, [\d:]+ \(cleared\)", found.text)
        assert len(found.text) < 2_000
        assert found.data is not None
        assert found.data["total"] == 3
        assert "Nothing in the memory contains" in await reads(bot, "/memory search bicycles")


async def test_many_hits_are_counted_and_the_best_are_shown(tmp_path: Path) -> None:
    async with run_bot(tmp_path, lambda _: Say("Hm."), UTC_TIMES) as bot:
        for number in range(14):
            await bot.says(f"Tea number {number}{' with milk' if number == 2 else ''}")
        found = await reads(bot, "/memory search tea milk")
    assert "(14 hits, the best 10)" in found
    hits = [line for line in found.splitlines() if line.startswith("- **")]
    assert len(hits) == 10
    assert hits[0].startswith("- **t3** user"), "the word that is rare counts for more"


async def test_status_says_how_much_there_is_and_how_long_it_is_kept(tmp_path: Path) -> None:
    days = [write(tmp_path, "Something.", back) for back in (3, 0)]
    async with run_bot(tmp_path, echo, UTC_TIMES) as bot:
        await bot.says("Hi")
        text = await reads(bot, "/memory status")
        assert text.startswith(f"2 daily files, {days[0]} to {days[1]}, 0.2 kB, in `")
        assert "1 conversation can be searched; no summary is being written" in text
        assert "30 days" in text
        await bot.says("/config session_retention_days 0")
        assert "never deleted" in await reads(bot, "/memory status")
