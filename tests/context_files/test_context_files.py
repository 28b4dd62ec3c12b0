"""Tests of `context.json` and `context.terse.json` of a conversation, through the whole bot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.context_files.test_exchange import LINE
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot, run_bot

SESSIONS = Path("data/audiences/pipe-main/sessions")
SESSION = SESSIONS / "pipe%2Fmain"
KEPT = {"context": {"context_files": True}}
USER = {"turnId": "t1", "role": "user", "content": "Hi"}
REPLY = {"turnId": "t1", "role": "assistant", "content": "Hello"}


def echo(request: Received) -> Answer:
    if request.is_summary:
        return Say("A summary.")
    last = request.body["messages"][-1]
    is_task = "You are a sub-agent" in request.body["messages"][0]["content"]
    if last["role"] == "user" and "delegate" in last["content"] and not is_task:
        return Say(calls=(Call("delegate", '{"task": "Count."}', "d"),))
    return Say(f"You said: {last['content']}")


def read(folder: Path, name: str) -> dict[str, Any]:
    return dict(json.loads((folder / SESSION / name).read_text()))


def said(folder: Path) -> list[str]:
    return [message["content"] for message in read(folder, "context.json")["messages"]]


async def settled(bot: TestBot) -> None:
    await bot.app.turns.queues.idle()
    await bot.app.conversations.flush()


def file(**content: object) -> str:
    return json.dumps({"format": "parley-context", "version": 1, **content})


async def test_both_files_are_kept_up_to_date_after_each_turn(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, KEPT) as bot:
        await bot.says("One")
        await settled(bot)
        assert said(tmp_path) == ["One", "You said: One"]
        await bot.says("Please delegate")
        await settled(bot)
        log = read(tmp_path, "context.terse.json")["entries"]
        turns = [message["turnId"] for message in read(tmp_path, "context.json")["messages"]]
    assert turns == ["t1"] * 2 + ["t2"] * 4
    assert [(e["turnId"], e["role"], e["summary"]) for e in log] == [
        ("t1", "assistant", "One → You said: One"),
        ("t2", "subagent", "Count. → You said: Count."),
        ("t2", "assistant", "Please delegate → You said: You said: Count."),
    ]
    assert all(entry["timestamp"].endswith("+00:00") for entry in log)
    assert sorted(path.name for path in (tmp_path / SESSION).iterdir()) == [
        "context.json",
        "context.terse.json",
    ]


async def test_they_hold_all_that_was_said_also_what_left_the_context(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, {**KEPT, "agent_max_context_turns": 2}) as bot:
        for number in range(6):
            await bot.says(f"Thing {number}")
        await bot.says("/new")
        await settled(bot)
    assert len(said(tmp_path)) == 12


async def test_they_hold_nothing_that_a_person_took_away_until_it_is_back(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, KEPT) as bot:
        await bot.says("One")
        await bot.says("Two")
        await settled(bot)
        await bot.says("/undo")
        assert said(tmp_path) == ["One", "You said: One"]
        await bot.says("/context undo")
        assert said(tmp_path) == ["One", "You said: One", "Two", "You said: Two"]


async def test_what_is_due_is_written_when_the_bot_ends(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, KEPT) as bot:
        await bot.says("Last words")
    assert said(tmp_path) == ["Last words", "You said: Last words"]


async def test_they_are_kept_where_it_is_wanted_and_nowhere_else(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says("/config context.context_files true --here")
        await bot.says("Here")
        await bot.says("There", chat="other")
        await settled(bot)
    assert said(tmp_path) == ["Here", "You said: Here"]
    assert not (tmp_path / "data/audiences/pipe-other/sessions").exists()


async def test_what_is_forgotten_is_in_no_file_and_does_not_come_back(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, KEPT) as bot:
        await bot.says("A secret")
        await bot.says("No secret of mine")
        await bot.says("/forget t1 yes")
        await settled(bot)
        assert said(tmp_path) == ["No secret of mine", "You said: No secret of mine"]
        await bot.says("Another")
        await bot.says("/forget chat yes")
        await settled(bot)
        assert not (tmp_path / SESSION).exists()


async def test_an_import_is_in_the_files_too(tmp_path: Path) -> None:
    files = tmp_path / "data/audiences/pipe-main/files"
    files.mkdir(parents=True)
    (files / "old.json").write_text(file(messages=[USER, REPLY]))
    (files / "old.terse.json").write_text(file(entries=[LINE]))
    async with run_bot(tmp_path, echo, KEPT) as bot:
        reply = await bot.says("/context import old.json")
        await settled(bot)
        (entry,) = read(tmp_path, "context.terse.json")["entries"]
        again = await bot.says("/context import")
    assert "Imported 1 turn from old.json as t1" in reply.text
    assert said(tmp_path)[:2] == ["Hi", "Hello"]
    assert entry["summary"] == "created dashboard"
    assert "Imported 1 turn from context.json as t2" in again.text


@pytest.mark.parametrize(
    ("whole", "terse", "sentence"),
    [
        (file(messages=[USER, REPLY] * 10_001), "", "at messages: tuple should have at most"),
        (file(messages=[USER, REPLY]), " " * 16_000_001, "larger than 16 MB"),
    ],
    ids=["many", "huge"],
)
async def test_a_bad_file_is_refused_and_nothing_changes(
    tmp_path: Path, whole: str, terse: str, sentence: str
) -> None:
    (tmp_path / SESSION).mkdir(parents=True)
    (tmp_path / SESSION / "context.json").write_text(whole)
    if terse:
        (tmp_path / SESSION / "context.terse.json").write_text(terse)
    async with run_bot(tmp_path, echo) as bot:
        reply = await bot.says("/context import")
        assert reply.text.startswith("Nothing was imported from context.json. ")
        assert sentence in reply.text
        assert len(reply.text) < 300
        assert "no turns yet" in (await bot.says("/context turns")).text


async def test_a_disk_that_takes_no_file_is_said_and_the_talk_goes_on(tmp_path: Path) -> None:
    (tmp_path / SESSIONS).parent.mkdir(parents=True)
    (tmp_path / SESSIONS).write_text("a file where the folder should be")
    async with run_bot(tmp_path, echo, KEPT) as bot:
        assert (await bot.says("Hi")).text == "You said: Hi"
        await settled(bot)
        assert "could not be written: Not a directory" in (await bot.says("/context export")).text
