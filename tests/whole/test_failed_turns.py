"""A question whose turn failed is not sent again as if it still waited for its answer."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest

from tests.fakes.openai_server import Answer, Break, Call, Fail, Received, Say, StreamError
from tests.whole.testbot import run_bot

FAILURES: tuple[Answer, ...] = (
    Fail(400, {"message": "no"}),
    Fail(401, {"message": "wrong key"}),
    StreamError({"message": "broke"}),
    StreamError({"message": "broke"}, "Half an answer"),
    Break("Half an answer", is_polite=True),
    Say(""),
)
LOOKS = Say(calls=(Call("current_time", "{}", "c1"),))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", ["trim", "summarize"])
async def test_no_question_stands_without_an_answer_before_the_next(
    tmp_path: Path, seed: int, strategy: str
) -> None:
    chance = random.Random(seed)

    def answer(request: Received) -> Answer:
        if not request.is_turn:
            return Say("A summary of what was said so far, with its questions.")
        is_after_tool = request.body["messages"][-1]["role"] == "tool"
        if not is_after_tool and chance.random() < 0.3:
            return LOOKS
        return chance.choice(FAILURES) if chance.random() < 0.5 else Say("An answer.")

    settings = {"context": {"strategy": strategy}, "fallback_models": []}
    async with run_bot(tmp_path, answer, settings) as bot:
        asked: list[str] = []
        for number in range(25):
            if asked and chance.random() < 0.3:
                await bot.says("/retry")
                continue
            asked.append(f"question {number}")
            await bot.says(asked[-1])
        for request in bot.server.turns:
            spoken = [one["role"] for one in request.body["messages"] if one["role"] != "tool"]
            assert ("user", "user") not in pairwise(spoken)
            assert request.body["messages"][-1]["role"] in ("user", "tool")
