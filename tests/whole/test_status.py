"""`/status`, `/help`, and chats in lists."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from agent.models.base import ModelRefused
from bot.recent import MOST_FAILURES, FailureLog
from channels.message import Attachment, Reply
from channels.terminal.display import command_reply
from memory.context.settings import ContextSettings
from memory.record.store import StoreError
from plugins.builtin.help import FIRST, GROUPS, STRATEGIES, THE_BOT, grouped
from plugins.health import RecentInfo, RecentTimes, describe_recent
from tests.docs.commands import builtin
from tests.fakes.openai_server import Call, Fail, OpenAIServer, Say, echo
from tests.whole.process import talking
from tests.whole.testbot import TestBot, run_bot

REFUSED = Fail(401, {"message": "no"})


def recent(reply: Reply) -> dict[str, Any]:
    assert isinstance(reply.data, dict)
    found = reply.data["recent"]
    assert isinstance(found, dict)
    return found


async def test_a_bot_that_has_done_nothing_tells_nothing_of_it(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        text = (await bot.says("/status")).text
        assert "Time per answer" not in text
        assert "Waiting" not in text
        assert "failed" not in text


async def test_it_says_how_long_answers_took(tmp_path: Path) -> None:
    sum_up = Call("calculate", '{"expression": "1+1"}', "call_1")
    async with run_bot(tmp_path, [Say("One."), Say(calls=(sum_up,)), Say("Two.")]) as bot:
        await bot.says("One?")
        await bot.says("Two?")
        status = await bot.says("/status")
        assert "of the last 2: half took" in status.text
        assert "Half began to appear within " in status.text
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


async def test_help_fits_on_a_screen_and_names_every_command(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        reply = await bot.says("/help")
        unknown = (await bot.says("/help me")).text
        everything = (await bot.says("/help all")).text
    assert command_reply(reply.text, 80).count("\n") < 42, "a screen has 45 lines"
    explained = re.findall(r"^\| /(\w+) \|", reply.text, re.MULTILINE)
    assert explained == [*FIRST]
    named = re.findall(r"^\*\*(.+)\*\*: (.+)$", reply.text, re.MULTILINE)
    assert [group for group, _names in named] == [*GROUPS, THE_BOT]
    every = sorted(command.name for command in builtin())
    assert sorted(name for _group, names in named for name in names[1:].split(", /")) == every
    assert reply.data is not None
    assert [command["name"] for command in reply.data["commands"]] == every
    assert unknown == f"There is no command /me. These are all of them:\n\n{reply.text}"
    assert re.findall(r"^\*\*(.+)\*\*$", everything, re.MULTILINE) == [*GROUPS, THE_BOT]
    assert sorted(re.findall(r"^\| /(\w+) \|", everything, re.MULTILINE)) == every
    assert grouped({"roll": builtin()[0]})[THE_BOT] == ["roll"], "one of a plugin"


async def test_who_mistypes_a_command_is_shown_one_that_may_have_been_meant(tmp_path: Path) -> None:
    async with run_bot(tmp_path) as bot:
        for typed, meant in (("contxt", "context"), ("compact", "context compact")):
            said = (await bot.says(f"/{typed}")).text
            assert f"did you mean /{meant}?" in said
        assert "did you mean /context export?" in (await bot.says("/export markdown")).text
        assert "did you mean" not in (await bot.says("/quit")).text


async def test_each_strategy_says_what_it_does_and_when_it_is_good(tmp_path: Path) -> None:
    assert set(STRATEGIES) == set(get_args(ContextSettings.model_fields["strategy"].annotation))
    async with run_bot(tmp_path) as bot:
        for line in ("/help strategies", "/config context.strategy"):
            text = (await bot.says(line)).text
            assert text.count("Use it when") == len(STRATEGIES)
            assert "**trim** (chosen here)" in text
        await bot.says("/config context.strategy slim --here")
        assert "**slim** (chosen here)" in (await bot.says("/help strategies")).text


async def standing(bot: TestBot) -> str:
    (session,) = await (await bot.api()).sessions("pipe")
    return session.standing


async def test_a_chat_is_pinned_or_archived_and_stays_so(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        assert await standing(bot) == ""
        assert (await bot.says("/pin")).actions[0].command == "/pin --unset"
        assert await standing(bot) == "pinned"
        await bot.says("/archive")
        assert await standing(bot) == "archived"
        assert "is not pinned" in (await bot.says("/pin --unset")).text
        await bot.says("/fork")
        assert await standing(bot) == "archived"
    async with run_bot(tmp_path, echo) as bot:
        assert await standing(bot) == "archived"
        await bot.says("/archive --unset")
        assert await standing(bot) == ""


async def test_what_is_not_understood_changes_nothing_and_what_was_forgotten_is_not_pinned(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        for line in ("/pin t3", "/archive now", "/pin --unset now"):
            assert "takes nothing but --unset" in (await bot.says(line)).text
            assert await standing(bot) == ""
        await bot.says("/pin")
        await bot.says("/forget chat yes")
        await bot.says("Hello again")
        assert await standing(bot) == ""


async def test_a_file_that_comes_with_the_command_is_imported(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("Hello")
        exported = (await bot.says("/context export")).data
        assert exported
        content = await asyncio.to_thread(Path(exported["files"][0]).read_bytes)
        file = Attachment("trip.json", "application/json", content)
        reply = await bot.says("/context import", chat="other", files=(file,))
        assert "Imported 1 turn" in reply.text
        reply = await bot.says("/context drop t1", chat="other", files=(file,))
        files = [*(tmp_path / "data" / "audiences" / "pipe-other" / "files").iterdir()]
        assert len(files) == 1  # what comes with other commands is not kept
