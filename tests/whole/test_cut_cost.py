"""Tests of the cost of a change to the provider's cache, shown in the forecast and in the
record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fakes import openai_server
from tests.fakes.openai_server import Answer, Received, Say
from tests.whole.testbot import TestBot, run_bot

LONG = {"agent_max_context_turns": 6}


def talker(request: Received) -> Answer:
    return Say("A long answer. " * 80) if request.is_turn else Say("They talked.")


async def talk(bot: TestBot, count: int, start: int = 1) -> None:
    for number in range(start, start + count):
        await bot.says(f"Question {number}")
        await bot.app.conversations.flush()


@pytest.mark.parametrize("strategy", ["truncate", "slim"])
async def test_the_forecast_the_preview_and_the_history_say_what_a_cut_breaks(
    tmp_path: Path, strategy: str
) -> None:
    own = {"strategy": strategy, "max_tokens": 6_000, "output_reserved": 500}
    settings = {**LONG, "context": own}
    async with run_bot(tmp_path, talker, settings) as bot:
        await talk(bot, 4)
        ahead = await bot.says("/context")
        previews = []
        for number in range(5, 16):
            previews.append(await bot.says("/context preview"))
            await talk(bot, 1, start=number)
        history = await bot.says("/context history")
    clause = r"bills [\d.]+k? tokens at the full price once more( \(\$[\d.]+\))?"
    if strategy != "slim":
        assert re.search(f"Next compaction: .*\\. That {clause}", ahead.text)
    told = [one.text for one in previews if re.search(f"That {clause}", one.text)]
    plans = [one for one in previews if one.data and one.data["plans"]]
    assert len(told) == len(plans) > 0
    assert history.data is not None
    events = [e for e in history.data["events"] if e["kind"] in ("compact", "fold")]
    assert events
    assert all(event["cost"]["broken"] > 0 for event in events[-1:])
    assert "billed " in history.text


async def test_what_is_broken_is_what_the_provider_did_not_find_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, talker, LONG) as bot:
        await talk(bot, 7)
        cut = await bot.says("/context diff r6 r7")
        history = await bot.says("/context history")
        raws = list(bot.server.requests)
    assert "tools" in raws[-1].body
    assert history.data is not None
    (event,) = [e for e in history.data["events"] if e["kind"] == "compact"]
    assert cut.data is not None
    assert event["cost"]["broken"] == pytest.approx(cut.data["broken"], rel=0.1)
    kept = cut.data["before"]["prompt"] - event["cost"]["broken"]
    assert abs(kept - cut.data["after"]["cached"]) <= 128, "caches hold steps of 128 tokens"


async def test_where_the_provider_reports_no_cache_nothing_is_said_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_server, "CACHE_FLOOR", 1_000_000)
    async with run_bot(tmp_path, talker, LONG) as bot:
        await talk(bot, 8)
        texts = [(await bot.says(f"/context {what}")).text for what in ("", "preview", "history")]
    assert not any("the full price once more" in text for text in texts)


async def test_an_undo_says_what_it_breaks_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, talker, LONG) as bot:
        await talk(bot, 4)
        await bot.says("/context drop t2")
        await bot.says("/context undo")
        history = await bot.says("/context history")
    assert history.data is not None
    drop, undo = history.data["events"]
    assert 0 < drop["cost"]["broken"] < drop["tokens_before"]
    assert undo["kind"] == "undo"
    assert undo["cost"]["broken"] > 0
