"""A bot whose provider reports other sizes than it was sent: what is shown, what is compacted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import openai_server
from tests.fakes.openai_server import Say
from tests.whole.requests import answering, compactions, settled, state, whole
from tests.whole.testbot import TestBot, run_bot

SMALL = {"context": {"max_tokens": 6_000}, "agent_max_context_turns": 100}
Distort = Callable[[int, int], dict[str, Any]]
"""The usage that is reported, of a prompt's true size and what of it was cached."""


def apart(prompt: int, cached: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt - cached, "prompt_tokens_details": {"cached_tokens": cached}}


def make_sum() -> Distort:
    so_far = [0]

    def add(prompt: int, cached: int) -> dict[str, Any]:
        so_far[0] += prompt
        return {"prompt_tokens": so_far[0]}

    return add


def times(factor: float) -> Distort:
    return lambda prompt, cached: {"prompt_tokens": round(prompt * factor)}


def report(monkeypatch: pytest.MonkeyPatch, distort: Distort) -> None:
    true = openai_server._usage

    def report_other(answer: Say, counted: tuple[int, int]) -> dict[str, Any]:
        usage = true(answer, counted)
        del usage["prompt_tokens_details"], usage["total_tokens"]
        return usage | distort(*counted)

    monkeypatch.setattr(openai_server, "_usage", report_other)


async def talk(bot: TestBot, turns: int) -> None:
    for number in range(turns):
        await bot.says(f"I saw harbour {number}. " + "It was windy at the sea. " * 50)
        await settled(bot)


def size(bot: TestBot) -> int:
    """Return the true size of the last request of a turn."""
    bodies = [one.body for one in bot.server.turns]
    return len(openai_server.prompt_bytes(bodies[-1])) // 4


DISTORTIONS: dict[str, Callable[[], Distort]] = {
    "true": lambda: times(1),
    "uncached only": lambda: lambda prompt, cached: {"prompt_tokens": prompt - cached},
    "cached apart": lambda: apart,
    "twice": lambda: times(2),
    "four times": lambda: times(4),
    "all so far": make_sum,
    "nothing": lambda: times(0),
    "a word": lambda: lambda prompt, cached: {"prompt_tokens": "many"},
    "a fraction": lambda: lambda prompt, cached: {"prompt_tokens": prompt + 0.5},
    "less than nothing": lambda: lambda prompt, cached: {"prompt_tokens": -prompt},
}


@pytest.mark.parametrize("kind", DISTORTIONS)
async def test_it_is_compacted_when_what_is_sent_is_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Of a window of 6,000 tokens with 2,600 of prompt and tools, five turns of 300 fit, and nine
    do not."""
    report(monkeypatch, DISTORTIONS[kind]())
    script = answering(lambda _: Say("Yes."), "They talked of harbours 0 to 7.")
    async with run_bot(tmp_path, script, SMALL) as bot:
        await talk(bot, 5)
        assert await compactions(bot) == [], "all of it fits"
        assert "harbour 0" in whole(bot.sent_to_model())
        sizes = []
        for _ in range(4):
            await talk(bot, 3)
            shown = await state(bot)
            assert 0.75 <= shown["tokens"] / size(bot) <= 1.35, shown
            sizes.append(size(bot))
        assert await compactions(bot), sizes
        assert max(sizes) < 6_000
        assert min(sizes) > 2_800, "not nearly all of it left"
