"""The window and the prices of a model by its provider, and prompts that are cut without a word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import OpenAIServer, Say
from tests.whole.requests import answering, data, state
from tests.whole.testbot import run_bot

LONG = "The quick brown fox jumps over the lazy dog. " * 700  # about 7,000 tokens
agreeing = answering(lambda _: Say("Yes."))


def at(server: OpenAIServer, provider: str, model: str, **more: Any) -> dict[str, Any]:
    """Return the settings with which a provider answers that is reached at this server."""
    config = {"base_url": server.base_url, "api_key": "{{secret.THEIR_KEY}}"}
    if provider == "ollama":
        del config["api_key"]
    brain = {"provider": provider, "model": model, "config": config, **more}
    return {"agents": [{"id": "theirs", "brain": brain}], "agent": "theirs"}


async def test_a_local_model_says_its_window_itself_also_behind_the_usual_address(
    tmp_path: Path,
) -> None:
    """Ollama's names, llama3.1:8b, at the address of OPENAI_BASE_URL."""
    there = {"model": "llama3.1:8b"}
    async with run_bot(tmp_path, agreeing, there, ollama={"llama3.1:8b": 8_192}) as bot:
        await bot.says("Are you there?")
        assert (await state(bot))["window"] == 8_192


async def test_a_window_that_was_set_outranks_what_ollama_says(tmp_path: Path) -> None:
    own = {"context": {"max_tokens": 4_096}}
    async with (
        OpenAIServer(agreeing, ollama={"llama3.1:8b": 8_192}) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b", **own)) as bot,
    ):
        await bot.says("Are you there?")
        assert (await state(bot))["window"] == 4_096


async def test_each_conversation_hears_once_of_cut_prompts_and_context_says_it_until_mended(
    tmp_path: Path,
) -> None:
    """4,096 prompt tokens are reported for a request of more than 7,000. The meter is not corrected
    by such a report: what was not read is still sent with every request."""
    async with (
        OpenAIServer(agreeing, cuts_at=4_096) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b")) as bot,
    ):
        for chat in ("main", "other"):
            first = await bot.says(LONG, chat)
            again = await bot.says("And now?", chat)
            shown = await bot.says("/context", chat)
            assert "has read only about 4,096 of the" in first.text
            assert "OLLAMA_CONTEXT_LENGTH" in first.text
            assert "has read only" not in again.text
            assert "has read only about 4,096 of the" in shown.text
        assert (await state(bot))["tokens"] > 7_000
        await bot.says("/config context.max_tokens 4096")
        await bot.says("Better?")
        mended = await bot.says("/context")
        found = await data(bot, "/context json")
    assert "has read only" not in mended.text
    assert found["cut_prompt"] is None


async def test_a_report_that_is_a_little_below_the_estimate_alarms_nobody(tmp_path: Path) -> None:
    """Tokenizers differ; only what is far below was cut."""
    async with (
        OpenAIServer(agreeing, cuts_at=6_500) as server,
        run_bot(tmp_path, (), at(server, "ollama", "llama3.1:8b")) as bot,
    ):
        assert "has read only" not in (await bot.says(LONG)).text


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
