"""A question asked again, and what people did to the context since: it holds for what is shared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.openai_server import Received, Say, echo
from tests.whole.scenario import say_all
from tests.whole.test_branches import asked
from tests.whole.test_context_commands import states
from tests.whole.test_variants import again
from tests.whole.testbot import TestBot, run_bot


async def talk(bot: TestBot, *questions: str) -> None:
    for question in questions:
        await bot.says(question)


LONG = [f"{word} {'and so on ' * 60}".strip() for word in ("one", "two", "three")]
SUMMARY = "They spoke of trains."


def summarising(request: Received) -> Say:
    is_turn = "You are Parley" in str(request.body["messages"][0]["content"])
    return Say("Well." if is_turn else SUMMARY)


@pytest.mark.parametrize("line", ["/regenerate t3 gpt-4o", "/edit t3 three"])
async def test_what_was_pinned_and_dropped_since_holds(tmp_path: Path, line: str) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await say_all(bot, "/context pin t2", "/context drop t1")
        await again(bot, line)
        assert asked(bot) == ["two", "three"]
        assert (await states(bot))["t1"] == "dropped"
        assert "pinned" in (await states(bot))["t2"]
    async with run_bot(tmp_path, echo) as bot:  # after a restart, too
        await bot.says("four")
        assert asked(bot) == ["two", "three", "four"]


async def test_what_was_done_to_the_turn_itself_does_not_hold(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await bot.says("/context drop t1-t3")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["three"]
        await bot.says("four")
        assert asked(bot) == ["three", "four"]


async def test_a_cut_since_holds_and_is_undone_in_each_alone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, summarising) as bot:
        await talk(bot, *LONG)
        assert "t1 to t2" in (await bot.says("/context compact t1-t2 trains")).text
        await again(bot, "/regenerate t3")
        assert SUMMARY in str(bot.sent_to_model())
        assert LONG[0] not in str(bot.sent_to_model())
        await say_all(bot, "/context undo", "four")
        assert asked(bot) == [*LONG, "four"]
        await say_all(bot, "/branches 1", "five")
        assert SUMMARY in str(bot.sent_to_model())
        assert LONG[0] not in str(bot.sent_to_model())


async def test_a_summary_that_tells_of_the_turn_stays_where_it_was(tmp_path: Path) -> None:
    async with run_bot(tmp_path, summarising) as bot:
        await talk(bot, *LONG)
        assert "t2 to t3" in (await bot.says("/context compact t2-t3 trains")).text
        await again(bot, "/regenerate t3")
        assert asked(bot) == LONG
        assert SUMMARY not in str(bot.sent_to_model())
        await say_all(bot, "/branches 1", "four")
        assert SUMMARY in str(bot.sent_to_model())


async def test_what_was_taken_back_since_the_answer_is_taken_back_there(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two")
        await say_all(bot, "/context drop t1", "three", "/context undo")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["one", "two", "three"]


async def test_what_was_cleared_since_is_out_of_the_models_reach(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "The word is swordfish.", "two", "three")
        await bot.says("/context clear")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["three"]
        assert (await states(bot))["t1"] == "cleared"
        await say_all(bot, "/context undo", "four")
        assert asked(bot) == ["The word is swordfish.", "two", "three", "four"]


async def test_it_holds_when_asked_again_and_when_that_is_forgotten(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await talk(bot, "one", "two", "three")
        await again(bot, "/edit t3 other")
        await bot.says("/context drop t1")
        await again(bot, "/regenerate t3")
        assert asked(bot) == ["two", "other"]
        await bot.says("/branches 2")
        sure = await bot.says("/forget chat")
        await bot.says(sure.actions[0].command)
        await say_all(bot, "/branches 3", "four")
        assert asked(bot) == ["two", "other", "four"]
