"""Answers that fail, break off or are stopped: they are paid for, and what the bot says of them is
for the person alone. Also the order of results of parallel calls."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Break, Call, Fail, Hang, Received, Say
from tests.waiting import PATIENCE
from tests.whole.requests import (
    answered,
    answering,
    asked_to_summarise,
    asks,
    audience,
    calls_paid,
    content,
    daily,
    in_order,
    ledger,
    settle,
    steps,
    talk,
    texts,
)
from tests.whole.testbot import run_bot

LONG = "It is a long story." + " It goes on." * 30
REFUSED = Fail(401, {"message": "Incorrect API key provided.", "code": "invalid_api_key"})


async def test_a_call_that_was_stopped_is_paid_and_what_had_streamed_is_kept_without_the_bots_note(
    tmp_path: Path,
) -> None:
    """The prompt was read, and what had streamed was written, by the meter."""
    async with run_bot(tmp_path, in_order(Hang(LONG), Say("Yes."))) as bot:
        asking = await asks(bot, "And the last?", LONG)
        await bot.says("/stop")
        shown = (await asking).text
        bill = await ledger(bot)
        await bot.says("And now?")
        replies = [content(m) for m in steps(bot)[-1] if m["role"] == "assistant"]
    assert bill["calls"] == 1
    assert bill["prompt"] > 500, "system prompt and tools alone are more"
    assert bill["completion"] > 50
    assert bill["cost"] > 0
    note = shown.removeprefix(LONG).strip()
    assert shown.startswith(LONG)
    assert note
    assert any(LONG in text for text in replies)
    assert not any(note in text for text in replies)


@pytest.mark.parametrize("last", [Say("It is."), Break("It is ")])
async def test_each_answer_that_breaks_off_is_paid(tmp_path: Path, last: Answer) -> None:
    async with run_bot(tmp_path, in_order(Break("It is a long "), last)) as bot:
        await bot.says("Is it?")
        bill = await ledger(bot)
    assert len(answered(bot)) == bill["calls"] == 2
    assert bill["cost"] > 0


async def test_a_summary_that_breaks_off_or_is_cancelled_is_paid(tmp_path: Path) -> None:
    """`/context clear` ends the one that is under way."""
    hung = asyncio.Event()

    def summary(request: Received) -> Answer:
        if hung.is_set():
            return Break("They talked of ")
        hung.set()
        return Hang(LONG)

    script = answering(lambda _: Say("Yes. " * 100), summary)
    async with run_bot(tmp_path, script, {"agent_max_context_turns": 3}) as bot:
        for number in range(3):
            await bot.says(f"question {number}")
        async with asyncio.timeout(PATIENCE):
            await hung.wait()
        await bot.says("/context clear")
        await settle(bot)
        assert await calls_paid(bot) == len(bot.server.requests) == 4
        await talk(bot, "question 4", "/context compact")
        assert len(bot.server.summaries) > 1
        assert await calls_paid(bot) == len(bot.server.requests)


def searching(*failures: Answer) -> Any:
    """A model that fails at "Well?", and searches when it is told to."""
    left = list(failures)

    def answer(request: Received) -> Answer:
        if request.is_summary:
            return Say("They talked.")
        last = request.body["messages"][-1]
        if last["role"] == "tool":
            return Say("Seen.")
        if last["content"] == "Well?" and left:
            return left.pop(0)
        if "Search" in last["content"]:
            query = {"query": "refused the API key"}
            calls = [("memory_search", query), ("context_search", {**query, "mode": "search"})]
            return Say(calls=tuple(Call(name, json.dumps(one), name) for name, one in calls))
        return Say("Yes.")

    return answer


@pytest.mark.parametrize(
    "failures", [(REFUSED,), (Break("It is "), Break("It is "))], ids=["refused", "breaks off"]
)
async def test_an_error_of_the_bot_is_shown_to_the_person_and_never_to_the_model(
    tmp_path: Path, failures: tuple[Answer, ...]
) -> None:
    """Not in a request, a search, a summary, the daily memory, or a file of what left."""
    settings = {"agent_max_context_turns": 4}
    async with run_bot(tmp_path, searching(*failures), settings) as bot:
        await talk(bot, "Hello")
        shown = (await bot.says("Well?")).text
        await talk(bot, "And now?", "Search!")
        sent = texts(steps(bot)[-1])
        await talk(bot, "four", "five", "six", "seven")
        asked = asked_to_summarise(bot)
        left = (audience(tmp_path) / "sessions" / "pipe%2Fmain" / "context.jsonl").read_text()
    sentence = shown.rpartition("(")[2].rstrip(")").rstrip(".")
    assert len(sentence) > 20, "the person was told"
    assert sent[-1].startswith(("Nothing", "Found", "---", "No")), sent[-1]
    assert "Hello" in asked, "nothing was summarised"
    assert "Well?" in left, "its turn has left"
    for text in ("\n".join(sent), asked, daily(tmp_path), left):
        assert sentence not in text
        assert "OPENAI_API_KEY" not in text
