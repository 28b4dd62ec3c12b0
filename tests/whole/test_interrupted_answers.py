"""Answers that fail, end early or are stopped: they are billed, and the bot's sentence about them
is for the person alone. Also the order of results of parallel calls."""

from __future__ import annotations

import asyncio
import json
import random
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memory.record import mailbox
from memory.record.database import Database, StoreError
from memory.record.mailbox import OutboxRow
from tests.fakes.openai_server import Answer, Break, Call, Fail, Hang, Received, Say, StreamError
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
    """The cost of the prompt, and of the streamed text, estimated by the meter."""
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
    """`/context clear` ends the running one."""
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
    """A model that fails at "Well?", and searches on request."""
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
    """The sentence is in no request, search, summary, daily memory, or file of removed turns."""
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


def execute(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(folder / "data" / "parley.db")) as database, database:
        return database.execute(statement).fetchall()


def refuse(database: Database, inbox: int, parts: Sequence[OutboxRow]) -> list[int]:
    raise StoreError("The disk is full; free some space.")


async def test_a_last_word_whose_answer_cannot_be_stored_is_not_stored_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with run_bot(tmp_path, [Say("The last word."), Say("Once more.")]) as bot:
        with monkeypatch.context() as broken:
            broken.setattr(mailbox, "answer", refuse)
            told = (await bot.says("Hello")).text
        assert told.startswith("The last word.")
        assert told.count("The disk is full; free some space.") == 1
        (extra,) = execute(tmp_path, "SELECT extra FROM message WHERE role = 'assistant'")
        assert '"mark":"failed"' in extra[0], "what had streamed is kept as what it is"
        assert (await bot.says("Again?")).text == "Once more."
        cost = (await bot.says("/context")).data or {}
        assert cost["calls"] == 2, "what was paid is on the bill"
    stored = execute(tmp_path, "SELECT turn, role, text FROM message ORDER BY id")
    assert [(turn, role) for turn, role, _ in stored] == [
        *((1, "user"), (1, "assistant")),
        *((2, "user"), (2, "assistant")),
    ]


async def test_what_stands_beside_the_last_word_is_in_the_persons_language(tmp_path: Path) -> None:
    settings = {"model": "gpt-4", "language": "de", "spend_limit_chat": 0.01}
    async with run_bot(tmp_path, lambda _: Say("Ja."), settings) as bot:
        said = (await bot.says("Wie viel?")).text
    assert "Bei 100 % höre ich auf." in said


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
