"""Providers that count fewer tokens than there can be: what `/context` shows of them adds up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes.openai_server import Say
from tests.whole.testbot import run_bot

NEGATIVE = re.compile(r"(?<![\w-])-\d")
MORE = ("detail", "preview", "turns", "request")


@pytest.mark.parametrize("per_token", [12, 400])
async def test_no_part_is_negative_however_few_tokens_a_provider_counts(
    tmp_path: Path, per_token: int
) -> None:
    def script(_: object) -> Say:
        return Say("Well, " * 60)

    async with run_bot(tmp_path, script) as bot:
        bot.server.counts = lambda prompt: len(prompt) // per_token
        for number in range(4):
            await bot.says(f"Question {number}: " + "why? " * 50)
            shown = await bot.says("/context")
            assert shown.data is not None
            assert min(shown.data["parts"].values()) >= 0
            assert sum(shown.data["parts"].values()) == shown.data["tokens"]
            told = [(await bot.says(f"/context {what}")).text for what in MORE]
            assert not [text for text in (shown.text, *told) if NEGATIVE.search(text)]
