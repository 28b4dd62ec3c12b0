"""The model looks up what it no longer sees, through the whole bot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot, run_bot


def looking(arguments: dict[str, Any]) -> Answer:
    return Say(calls=(Call("context_search", json.dumps(arguments), "look"),))


def model(request: Received) -> Answer:
    """Looks up what a question in JSON asks for, and tells what came of it."""
    last = request.body["messages"][-1]
    if request.is_summary:
        return Say("A summary.")
    if last["role"] == "tool":
        return Say(f"Found: {last['content']}")
    asked = str(last["content"]).rpartition("\n\n")[2]
    return looking(json.loads(asked)) if asked.startswith("{") else Say(f"You said: {asked}")


async def looks_up(bot: TestBot, **arguments: Any) -> str:
    return (await bot.says(json.dumps(arguments))).text


@pytest.mark.parametrize("strategy", ["trim", "slim"])
async def test_the_model_finds_what_left_its_context(tmp_path: Path, strategy: str) -> None:
    settings = {"agent_max_context_turns": 2, "context": {"strategy": strategy}}
    async with run_bot(tmp_path, model, settings) as bot:
        await bot.says("The greens are #2e8b57.")
        for number in range(2, 6):
            await bot.says(f"Thing {number}")
        found = await looks_up(bot, mode="search", query="GREENS ARE", before=0, after=0)
        turn = await looks_up(bot, mode="turn", turnId="t1")
    assert found == (
        "Found: --- messages 1-2 of 10 ---\n"
        "[user t1] The greens are #2e8b57.\n"
        "[assistant t1] You said: The greens are #2e8b57."
    )
    assert turn.startswith("Found: --- messages 1-2 of 13 ---\n[user t1] The greens")


async def test_a_search_does_not_find_itself_and_stays_in_its_conversation(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        await bot.says("the needle of another chat", chat="other")
        await bot.says("hay")
        found = await looks_up(bot, mode="search", query="needle")
    assert found.startswith(
        "Found: Nothing among the 2 messages before this turn contains 'needle'"
    )


async def test_cleared_turns_are_not_found_until_the_clear_is_undone(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        await bot.says("the needle")
        await bot.says("/context clear")
        hidden = await looks_up(bot, mode="search", query="needle")
        await bot.says("/context undo")
        found = await looks_up(bot, mode="search", query="the needle", after=0)
    assert hidden == "Found: Nothing was said before this turn."
    assert "[user t1] the needle" in found


async def test_a_wrong_mode_is_an_error_that_the_model_can_act_on(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        text = await looks_up(bot, mode="grep")
    assert "`mode` is 'grep', but it should be 'search', 'tail', 'head' or 'turn'" in text


async def test_the_prompt_says_when_to_look_and_is_the_same_each_time(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model) as bot:
        await bot.says("Hi")
        await bot.says("Again")
        prompts = [bot.sent_to_model(index)[0] for index in (0, 1)]
    assert "context_search" in prompts[0]["content"]
    assert prompts[0] == prompts[1]
