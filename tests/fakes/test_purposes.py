"""`sent_to_model` tells of turns, however late a request in the background arrives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Received, Say
from tests.whole.distilling import write
from tests.whole.testbot import run_bot

SUMMARY = json.dumps({"task_overview": "Count.", "next_steps": "Go on.", "diary": "Counted."})
LOW = '{"trigger_ratio": 0.1, "reserve_ratio": 0.01, "compression_prompt": "How many?"}'


def script(request: Received) -> Say:
    if request.is_distilling:
        return Say('{"operations": []}')
    return Say(SUMMARY if request.is_summary else "A long answer. " * 500)


@pytest.mark.parametrize(
    ("settings", "work", "task"),
    [
        ({"agent_max_context_turns": 6}, "", "Summarise this part"),
        ({"agent_max_context_turns": 6, "model": "gpt-4.1-mini"}, "", "This is no message"),
        ({"context": {"strategy": "summarize"}}, "/context compact", "Write a recap"),
        ({"context": {"max_tokens": 32_000}}, f"/context compress {LOW}", "How many?"),
        ({}, "/memory distill", "You keep the long-term memory"),
    ],
    ids=["apart", "in the conversation", "on demand", "in a person's words", "memory"],
)
async def test_the_last_request_of_a_turn_is_told_apart_from_a_later_one(
    tmp_path: Path, settings: dict[str, Any], work: str, task: str
) -> None:
    write(tmp_path, "Ann lives in Lisbon.", job=1)
    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(1, 12):
            await bot.says(f"question {number}")
            await bot.app.conversations.settle()
            if bot.server.requests[-1].is_summary:  # one that nobody has asked for
                break
        if work:
            await bot.says(work)
            await bot.app.conversations.settle()
        assert task in str(bot.server.requests[-1].body["messages"])
        assert bot.sent_to_model()[-1]["content"].endswith(f"question {number}")
        assert len(bot.server.turns) == number
