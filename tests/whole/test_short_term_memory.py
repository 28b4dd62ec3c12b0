"""CowAgent's short-term memory, to the number, from wire to wire."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.requests import (
    content,
    has_results,
    heard,
    last_asked,
    looks,
    put_file,
    settled,
    steps,
)
from tests.whole.test_busy import busy, gate
from tests.whole.test_busy import script as busy_script
from tests.whole.testbot import TestBot, run_bot

SUMMARY = "<summary-of-earlier-turns>\nThey talked.\n</summary-of-earlier-turns>\n\n"


def echo(request: Received) -> Answer:
    """Summaries are one line, replies repeat the question's number."""
    if request.is_summary:
        return Say("They talked.")
    return Say(f"reply {str(request.body['messages'][-1]['content']).split()[-1]}")


def turns_sent(bot: TestBot) -> list[str]:
    """Return what the last request of a turn held, without the system prompt."""
    return [str(message["content"]) for message in bot.sent_to_model()[1:]]


async def talk(bot: TestBot, count: int, start: int = 1) -> None:
    for number in range(start, start + count):
        await bot.says(f"question {number}")
        await bot.app.conversations.settle()


async def test_a_squeeze_is_shown_as_a_squeeze(tmp_path: Path) -> None:
    """Nothing has left but what was between question and reply."""

    def script(request: Received) -> Answer:
        if last_asked(request) == "look" and not has_results(request):
            return looks(request, "long.txt")
        return Say("Seen.")

    put_file(tmp_path, "long.txt", "some words in a line\n" * 250)
    async with run_bot(tmp_path, script) as bot:
        for _ in range(3):
            await bot.says("look")
        assert sum(len(text) > 3_000 for text in turns_sent(bot)) == 3
        await bot.says("/config agent_max_context_tokens 4000")
        await bot.says("and now?")
        assert turns_sent(bot) == ["look", "Seen.", "look", "Seen.", "look", "Seen.", "and now?"]
        history = (await bot.says("/context history")).text.lower()
        assert "shorten" in (await bot.says("/context")).text.lower()
    assert "shorten" in history
    assert "compaction" not in history


async def test_a_restart_restores_three_turns_as_text_and_says_so_once_and_undo_brings_all_back(
    tmp_path: Path,
) -> None:
    settings = {"restore": "recent"}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 2)
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 8, start=3)
        assert "/context undo" not in heard(bot), "nothing was set aside"
    async with run_bot(tmp_path, echo, settings) as bot:
        await bot.says("/context")
        await bot.app.conversations.settle()
        await talk(bot, 1, start=11)
        told = bot.sent[-1].reply.text
        for words in ("t1 to t7", "t8 to t10", "/context undo"):
            assert words in told
        assert turns_sent(bot) == [
            f"{SUMMARY}question 8", "reply 8", "question 9", "reply 9", "question 10", "reply 10",
            "question 11",
        ]  # fmt: skip
        assert "restart" in (await bot.says("/context undo")).text
        await talk(bot, 1, start=12)
        assert len(turns_sent(bot)) == 23
        assert bot.sent[-1].reply.text == "reply 12", "it is said once"


@pytest.mark.parametrize(("when_busy", "restore"), [("collect", "recent"), ("steer", "exact")])
async def test_messages_that_were_joined_to_one_turn_survive_a_restart(
    tmp_path: Path, when_busy: str, restore: str
) -> None:
    settings = {"when_busy": when_busy, "restore": restore}
    async with busy(tmp_path, when_busy, restore=restore) as bot:
        await bot.writes("two", id="second")
        await bot.writes("three", id="third")
        gate("opened").set()
        await bot.reply_to("first" if when_busy == "steer" else "second")
        await settled(bot)
    async with run_bot(tmp_path, busy_script, settings) as bot:
        await bot.says("next")
        asked = [content(m) for m in steps(bot)[-1] if m["role"] == "user"]
    assert {"wait", "two", "three", "next"} <= set(" ".join(asked).split())


async def test_an_exact_restart_sends_the_very_same_beginning(tmp_path: Path) -> None:
    """It is the default."""
    settings = {"agent_max_context_turns": 6}
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 10)
        before = turns_sent(bot)
    async with run_bot(tmp_path, echo, settings) as bot:
        await talk(bot, 1, start=11)
        assert turns_sent(bot)[: len(before)] == before


async def test_a_frame_that_fills_the_window_is_told_with_its_sizes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {"context": {"max_tokens": 500}}) as bot:
        reply = await bot.says("Hello")
        assert not bot.server.requests, "nothing is sent that can't fit"
    assert "500" in reply.text
    assert "tools" in reply.text
    assert "context.max_tokens" in reply.text
