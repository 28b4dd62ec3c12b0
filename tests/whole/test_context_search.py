"""The model looks up what it no longer sees, through the whole bot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


async def test_the_model_finds_what_left_its_context(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model, {"agent_max_context_turns": 2}) as bot:
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
