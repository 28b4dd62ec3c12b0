"""A hostile model before the whole bot: the turn ends, bounded, and the data stays whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.openai_server import (
    Answer,
    Fail,
    Received,
    Say,
    llama_overflow,
    openai_overflow,
)
from tests.whole.testbot import TestBot, run_bot


async def transcript(bot: TestBot) -> list[tuple[int, str]]:
    rows = await bot.app.store.read(
        lambda db: db.execute_sql(
            "SELECT turn, text FROM message WHERE role != 'tool' ORDER BY seq"
        ).fetchall()
    )
    return [(turn, text) for turn, text in rows]


@pytest.mark.parametrize(
    ("count", "overflow"), [(1, openai_overflow), (3, llama_overflow), (8, openai_overflow)]
)
async def test_a_model_that_overflows_again_and_again_ends_the_turn(
    tmp_path: Path, count: int, overflow: Callable[[int, int], Fail]
) -> None:
    refusals = 0

    def script(request: Received) -> Answer:
        nonlocal refusals
        if request.is_summary:
            return Say("They talked.")
        if "the last one" in str(request.body["messages"][-1]["content"]) and refusals < count:
            refusals += 1
            return overflow(120_000, 100_000)
        return Say("Fine.")

    async with run_bot(tmp_path, script, {"agent_max_context_turns": 10}) as bot:
        for number in range(6):
            await bot.says(f"question {number}")
        reply = await bot.says("the last one")
        assert reply.text.startswith("Fine.") or "context window" in reply.text
        assert refusals <= 5, "the number of attempts is bounded"
        assert (await bot.says("and now?")).text == "Fine."
        kept = await transcript(bot)
    assert [text for _, text in kept][:2] == ["question 0", "Fine."]
    assert len(kept) == 16
