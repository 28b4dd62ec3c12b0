"""The tools `memory_search` and `context_search` through the whole bot, and `/memory search`."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory.record import closeness
from memory.record.search import index
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.testbot import TestBot, run_bot

pytestmark = pytest.mark.databases

SETTINGS = {"timezone": "UTC"}


def seeker(request: Received) -> Answer:
    """Search for the words of a question that begins with "Find"; answer "Hm." to everything
    else."""
    last = request.body["messages"][-1]
    if last["role"] == "user" and last["content"].startswith("Find "):
        arguments = json.dumps({"query": last["content"].removeprefix("Find ")})
        return Say(calls=(Call("memory_search", arguments, "s"),))
    return Say(last["content"] if last["role"] == "tool" else "Hm.")


async def finds(bot: TestBot, what: str, chat: str = "main") -> str:
    """Return the tool's result for the model."""
    return (await bot.says(f"Find {what}", chat)).text


async def test_the_model_finds_what_left_its_context(tmp_path: Path) -> None:
    async with run_bot(tmp_path, seeker, SETTINGS | {"agent_max_context_turns": 2}) as bot:
        await bot.says("My sister lives in Lisbon.")
        for number in range(4):
            await bot.says(f"It is {number} o'clock.")
        found = await finds(bot, "Where does my sister live?")
    assert found.startswith(f"--- {datetime.now(UTC):%Y-%m-%d} ")
    assert found.splitlines()[1:3] == ["[user t1] My sister lives in Lisbon.", "[assistant t1] Hm."]


async def test_it_is_offered_once_and_with_the_same_bytes_whatever_it_finds(tmp_path: Path) -> None:
    async with run_bot(tmp_path, seeker, SETTINGS) as bot:
        await bot.says("I like tea.")
        assert "I like tea." in await finds(bot, "tea")
        assert "Nothing was found" in await finds(bot, "bicycle")
        offered = [json.dumps(request.body["tools"]) for request in bot.server.requests]
    assert len(offered) == 5
    assert len(set(offered)) == 1
    assert offered[0].count('"memory_search"') == 1


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"text": "Gr\\u00fc\\u00dfe aus M\\u00fcnchen"}', "Grüße München"),
        ('{"text": "first line\\nzebra line"}', "zebra"),
        ('{"text": "\\u6211\\u559c\\u6b22\\u8336"}', "喜欢茶"),
        ('{"text": "tab\\tquagga \\"okapi\\""}', "quagga okapi"),
        ('{"input": "{\\"a\\": \\"caf\\\\u00e9\\\\nbongo\\"}"}', "café bongo"),
    ],
)
async def test_it_finds_what_stands_escaped_in_the_input_of_a_tool(
    tmp_path: Path, arguments: str, wanted: str
) -> None:
    def script(request: Received) -> Answer:
        last = request.body["messages"][-1]
        is_note = last["role"] == "user" and last["content"] == "Note it"
        return Say(calls=(Call("no_such_tool", arguments, "n"),)) if is_note else seeker(request)

    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await bot.says("Note it")
        for word in wanted.split():
            assert word in await finds(bot, word)
        assert wanted.split()[0] in (await bot.says(f"/memory search {wanted.split()[0]}")).text
        await bot.says("/forget chat yes")
        for word in wanted.split():
            assert "Nothing" in (await bot.says(f"/memory search {word}")).text


async def test_a_message_that_was_indexed_with_its_escapes_is_forgotten_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of an earlier version has the words unchanged."""
    call = Call("no_such_tool", '{"text": "Gr\\u00fc\\u00dfe\\nzebra"}', "n")
    with monkeypatch.context() as earlier:
        earlier.setattr(index, "to_search_text", closeness.as_written)
        earlier.setattr(index, "UNESCAPED", 0)
        async with run_bot(tmp_path, [Say(calls=(call,)), Say("Noted.")], SETTINGS) as bot:
            await bot.says("Note it")
            await bot.says("/memory search noted")
    async with run_bot(tmp_path, seeker, SETTINGS) as bot:
        await bot.says("/forget t1 yes")
        for word in ("nzebra", "zebra", "no_such_tool"):
            assert "Nothing" in (await bot.says(f"/memory search {word}")).text


async def test_what_can_not_be_looked_for_gets_a_sentence(tmp_path: Path) -> None:
    given: list[tuple[dict[str, object], str]] = [
        ({}, "query"),
        ({"query": "tea", "limit": 0}, "limit"),
        ({"query": "tea", "limit": "many"}, "limit"),
        ({"query": "t" * 2_000}, "query"),
        ({"query": ""}, "Nothing was found"),
    ]
    calls = [Call("memory_search", json.dumps(one), f"s{n}") for n, (one, _) in enumerate(given)]
    async with run_bot(tmp_path, [Say(calls=tuple(calls)), Say("I see.")], SETTINGS) as bot:
        assert (await bot.says("Look.")).text == "I see."
        results = [m["content"] for m in bot.sent_to_model() if m["role"] == "tool"]
        for (_, told), result in zip(given, results, strict=True):
            assert told in result


def looking(arguments: dict[str, Any]) -> Answer:
    return Say(calls=(Call("context_search", json.dumps(arguments), "look"),))


def model(request: Received) -> Answer:
    """Search for the words of a question in JSON, and repeat the result."""
    last = request.body["messages"][-1]
    if request.is_summary:
        return Say("A summary.")
    if last["role"] == "tool":
        return Say(f"Found: {last['content']}")
    asked = str(last["content"]).rpartition("\n\n")[2]
    return looking(json.loads(asked)) if asked.startswith("{") else Say(f"You said: {asked}")


async def looks_up(bot: TestBot, **arguments: Any) -> str:
    return (await bot.says(json.dumps(arguments))).text


async def test_context_search_finds_what_left_the_context(tmp_path: Path) -> None:
    async with run_bot(tmp_path, model, {"agent_max_context_turns": 2}) as bot:
        await bot.says("The greens are #2e8b57.")
        for number in range(2, 6):
            await bot.says(f"Thing {number}")
        found = await looks_up(bot, mode="search", query="GREENS ARE", before=0, after=0)
        turn = await looks_up(bot, mode="turn", turnId="t1")
    assert found == (
        "Found: --- messages 1-2 of 10 ---\n"
        "[user t1] The greens are #2e8b57.\n"
        "[assistant t1] You said: The greens are #2e8b57."
    )
    assert turn.startswith("Found: --- messages 1-2 of 13 ---\n[user t1] The greens")
