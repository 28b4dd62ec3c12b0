"""`/status`: what is slow, what failed lately, and what waits."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest

from agent.models.base import ModelRefused
from bot.recent import MOST_FAILURES, FailureLog
from channels.message import Reply
from memory.record.store import StoreError
from plugins.health import RecentInfo, RecentTimes, describe_recent
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say
from tests.whole.process import talking
from tests.whole.testbot import run_bot

REFUSED = Fail(401, {"message": "no"})


def recent(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply.data, dict)
    found = reply.data["recent"]
    assert isinstance(found, dict)
    return found


async def test_a_bot_that_has_done_nothing_tells_nothing_of_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        text = (await bot.says("/status")).text
        assert "Lately" not in text
        assert "Waiting" not in text
        assert "failed" not in text


async def test_it_says_how_long_answers_took(tmp_path: Path) -> None:
    sum_up = Call("calculate", '{"expression": "1+1"}', "call_1")
    async with run_bot(tmp_path, [Say("One."), Say(calls=(sum_up,)), Say("Two.")]) as bot:
        await bot.says("One?")
        await bot.says("Two?")
        status = await bot.says("/status")
        assert "the slowest of 2 took " in status.text
        assert "the model began within " in status.text
        times = recent(status)["times"]
        assert 0 < times["first_word"] <= times["median"] <= times["slowest"] < 30
        assert times["tool"]["name"] == "calculate"


async def test_it_says_for_how_long_the_oldest_message_waits(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with run_bot(tmp_path, [Say("First.", gate=gate), Say("Second.")]) as bot:
        await bot.writes("One", id="a")
        await bot.writes("Two", id="b")
        status = await bot.says("/status")
        assert "Waiting" not in status.text, "it has only just come"
        assert recent(status)["oldest"] > 0
        gate.set()
        await bot.reply_to("b")
        assert recent(await bot.says("/status"))["oldest"] == 0


def test_what_waits_for_long_is_told_with_replies_and_summaries() -> None:
    info = RecentInfo(RecentTimes(), oldest=90.0, unsent=2, summaries=1)
    assert describe_recent(info) == [
        "Waiting: the oldest message for 1 min; 2 replies not sent yet; summaries of 1 chat."
    ]


@pytest.mark.usefixtures("processes")
async def test_owners_alone_are_told_what_failed_and_how_often_each_kind_once(
    tmp_path: Path,
) -> None:
    failing = [
        Fail(404, {"message": "no such model"}),
        Fail(400, {"message": "messages[1]: a text of 12 characters is odd"}),
        REFUSED,
        Fail(400, {"message": "messages[7]: a text of 99 characters is odd"}),
    ]
    settings = {"owners": ["pipe/ann"]}
    async with OpenAIServer(failing) as server, talking(tmp_path, server, settings) as bot:
        for number in range(len(failing)):
            await bot.says("Why?", id=str(number), user="ann", chat="a")
        status = await bot.says("/status", user="ann", chat="a")
        code = (await bot.says("Hello", user="bob", chat="b"))["text"]
        pairing = next(word for word in code.split() if word.isupper() and len(word) > 5)
        await bot.says(f"/pair {pairing.strip('.,;')}", user="ann", chat="a")
        shown_to_bob = await bot.says("/status", user="bob", chat="b", id="bob's")
    assert "Failures in the last 24 hours:" in status["text"]
    assert ", 2 times: the turn failed: " in status["text"]
    found = status["data"]["recent"]["failures"]
    assert [one["times"] for one in found] == [2, 1, 1]
    refused, key, model = (one["sentence"] for one in found)
    assert "messages[7]" in refused
    assert "refused the API key" in key
    assert "has no model" in model
    assert "Up for" in shown_to_bob["text"]
    assert "What failed" not in shown_to_bob["text"]
    assert shown_to_bob["data"]["recent"]["failures"] == []


def logged(text: str, *values: object, error: BaseException | None = None) -> logging.LogRecord:
    about = (type(error), error, None) if error else None
    return logging.LogRecord("bot", logging.WARNING, "x", 1, text, values, about)


def test_names_and_numbers_make_no_kind_of_their_own() -> None:
    same = [
        ("job %d could not be fired", 1),
        ("job %d could not be fired", 2),
        ("the turn failed: %s", ModelRefused("https://a refused the API key; check A_KEY.")),
        ("the turn failed: %s", ModelRefused("https://b refused the API key; check B_KEY.")),
        ("a file was not fetched: %s", TimeoutError("after 3 s")),
        ("a file was not fetched: %s", TimeoutError("after 5 s")),
        ("%s", "The channel a can't be reached (b). The bot keeps trying, and will go on where it "
         "left off."),
        ("%s", "The channel c can't be reached (d). The bot keeps trying, and will go on where it "
         "left off."),
    ]  # fmt: skip
    failures = FailureLog()
    for text, value in same:
        failures.handle(logged(text, value))
    assert [one.times for one in failures.since(0)] == [2, 2, 2, 2]


def test_other_sentences_and_other_errors_are_other_kinds() -> None:
    failures = FailureLog()
    for record in (
        logged("the turn failed: %s", StoreError("The database can't be used: x.")),
        logged("the turn failed: %s", StoreError("The disk is full.")),
        logged("the turn failed", error=ValueError("x")),
        logged("the turn failed", error=KeyError("x")),
        logged("a file was not fetched: %s", TimeoutError("x")),
        logged("a file was not fetched: %s", ConnectionError("x")),
        logged("%s", "one"),
        logged("%s", "another"),
        logged("%(name)s failed", {"name": "x"}),
    ):
        failures.handle(record)
    assert {one.times for one in failures.since(0)} == {1}


def test_failures_are_bounded_and_the_newest_stay() -> None:
    failures = FailureLog()
    for number in range(3 * MOST_FAILURES):
        failures.handle(
            logging.LogRecord("bot", logging.WARNING, "x", 1, "%s", (f"no {number}",), None)
        )
    kept = failures.since(0)
    assert len(kept) == MOST_FAILURES
    assert kept[0].sentence == f"no {3 * MOST_FAILURES - 1}"
