"""A restart forgets nothing by itself, and what it sets aside is said (point 28)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.fakes.telegram_server import TelegramServer
from tests.points.wire import answered, data, heard, settle, texts
from tests.web.site import serving
from tests.whole.telegram_testbot import at_telegram
from tests.whole.testbot import TestBot, run_bot

RECENT = {"restore": "recent"}
SET_ASIDE = re.compile(r"(?s)(?=.*t1 to t8\b)(?=.*t9 to t11\b)(?=.*/context undo)")
"""Three of eleven turns go on, and how the others come back."""


def echo(request: Received) -> Answer:
    if "tools" not in request.body:
        return Say("They talked.")
    last = request.body["messages"][-1]
    if last["role"] == "user" and str(last["content"]).startswith("reckon"):
        return Say("Let me see.", calls=(Call("calculate", '{"expression": "6*7"}', "c"),))
    said = str(last["content"]).rpartition("\n")[2]
    return Say(f"re: {said}")


async def talk(bot: TestBot, count: int, start: int = 1, word: str = "question") -> None:
    for number in range(start, start + count):
        await bot.says(f"{word} {number}")
        await settle(bot)


async def test_a_restart_forgets_nothing_by_default(tmp_path: Path) -> None:
    """Point 28: under `trim` too, `exact` is the default."""
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, 11)
    async with run_bot(tmp_path, echo) as bot:
        restored = await data(bot, "/config restore")
        await talk(bot, 1, start=12)
        sent = texts(answered(bot)[-1])
    assert restored["value"] == "exact"
    assert restored["default"] == "exact"
    assert [text for text in sent if text.startswith("question")] == [
        f"question {number}" for number in range(1, 13)
    ]


@pytest.mark.parametrize("strategy", ["full", "slim", "truncate", "structured"])
async def test_the_other_strategies_forget_nothing_either(tmp_path: Path, strategy: str) -> None:
    """Point 28: the request after a restart begins as the one before it."""
    settings = {"context": {"strategy": strategy}}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 5)
        before = answered(bot)[-1]["messages"]
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 1, start=6)
        after = answered(bot)[-1]["messages"]
    common = 2 if strategy == "slim" else len(before)  # its log is one line longer
    assert after[:1] == before[:1]
    assert strategy == "slim" or after[:common] == before


async def test_recent_restores_cowagents_formula_as_question_and_reply(tmp_path: Path) -> None:
    """Point 28: max(3, 30 // 6) turns; the user's text and the final reply, no tool calls."""
    settings = {**RECENT, "agent_max_context_turns": 30}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 8, word="reckon")
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 1, start=9)
        sent = texts(answered(bot)[-1])
    assert [text.rpartition("\n\n")[2] for text in sent] == [
        *(text for n in range(4, 9) for text in (f"reckon {n}", "re: 42")),
        "question 9",
    ]


async def test_what_a_restart_set_aside_is_said_with_the_first_answer_and_once(
    tmp_path: Path,
) -> None:
    """Point 28: what goes on, what does not, and how it comes back."""
    async with run_bot(tmp_path, echo, RECENT) as bot:
        await talk(bot, 11)
    async with run_bot(tmp_path, echo, RECENT) as bot:
        await talk(bot, 1, start=12)
        first = heard(bot)
        await talk(bot, 1, start=13)
        both = heard(bot)
    assert SET_ASIDE.match(first)
    assert both.count("t1 to t8") == 1


async def test_a_restart_that_set_nothing_aside_speaks_of_nothing_that_is_gone(
    tmp_path: Path,
) -> None:
    """Point 28."""
    async with run_bot(tmp_path, echo, RECENT) as bot:
        await talk(bot, 2)
    async with run_bot(tmp_path, echo, RECENT) as bot:
        await talk(bot, 1, start=3)
        assert "/context undo" not in heard(bot)


async def test_what_a_restart_set_aside_is_said_over_the_web(tmp_path: Path) -> None:
    """Point 28: in every channel, at the first message."""
    async with serving(tmp_path, echo, RECENT) as site:
        for number in range(1, 12):
            await site.says(f"question {number}")
        await site.app.conversations.settle()
    async with serving(tmp_path, echo, RECENT) as site, site.streams("And now?") as events:
        told = [str(event.data) async for event in events]
    assert SET_ASIDE.match("\n".join(told))


async def test_what_a_restart_set_aside_is_said_at_telegram(tmp_path: Path) -> None:
    """Point 28: in every channel, at the first message."""
    async with TelegramServer() as telegram:
        async with at_telegram(tmp_path, echo, RECENT, telegram) as bot:
            for number in range(1, 12):
                bot.ann.says(f"question {number}")
                await telegram.shown(f"re: question {number}")
            await bot.app.conversations.settle()
        async with at_telegram(tmp_path, echo, RECENT, telegram) as bot:
            bot.ann.says("And now?")
            await telegram.shown("re: And now?")
            await bot.is_idle()
        told = "\n".join(telegram.texts[11:])
    assert SET_ASIDE.match(told)


def test_the_docs_say_where_recent_comes_from() -> None:
    """Point 28."""
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text()
    (line,) = (line for line in page.splitlines() if line.startswith("| `restore` |"))
    assert "`exact`" in line.split("|")[2]
    assert "CowAgent" in line
