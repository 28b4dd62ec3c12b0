"""Old tool results as stubs, in a whole bot: the requests to the model, and the results that it
reads again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.whole.requests import data, events, results, with_plugin
from tests.whole.testbot import TestBot, run_bot

PAGES = '''
from plugins.api import hookimpl, tool

@tool(touches={"network"}, asks_first=False)
def look(page: str) -> str:
    """Look at a page."""
    return f"Page {page}: " + "the tide comes in at noon. " * 60

@tool
def count(to: int) -> str:
    """Count."""
    return " ".join(map(str, range(to)))

@hookimpl
def parley_tools():
    return [look, count]
'''
STUBS: dict[str, Any] = {"context": {"strategy": "stubs", "stub_keep": 1, "stub_batch": 300}}
ARRIVED = re.compile(r'context_search\(mode="turn", turnId="(t\d+\.\d+)"\)')


@pytest.fixture(autouse=True)
def pages(tmp_path: Path) -> None:
    with_plugin(tmp_path, PAGES)


def script(request: Received) -> Answer:
    """A model that reads and counts on request, and expands the first stub when asked."""
    last = str(request.body["messages"][-1]["content"])
    if request.body["messages"][-1]["role"] == "tool":
        return Say("Done.")
    if found := re.search(r"look at (\w+)", last):
        return Say(calls=(Call("look", f'{{"page": "{found[1]}"}}', "c"),))
    if found := re.search(r"count to (\d+)", last):
        return Say(calls=(Call("count", f'{{"to": {found[1]}}}', "c"),))
    if found := re.search(r"read (t\d+\.\d+|the first) again", last):
        turn = found[1] if found[1].startswith("t1") else next(named(request.body))
        arguments = f'{{"mode": "turn", "turnId": "{turn}"}}'
        return Say(calls=(Call("context_search", arguments, "c"),))
    return Say("Yes.")


def named(body: dict[str, Any]) -> Iterator[str]:
    """Yield the calls that the stubs of a request name for the model."""
    return (found[1] for text in results(body) if (found := ARRIVED.search(text)))


def sent(bot: TestBot) -> list[str]:
    return results(bot.server.turns[-1].body)


async def test_the_model_reads_a_stub_again_and_what_is_from_outside_stays_marked(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, script, STUBS) as bot:
        for page in ("one", "two", "three"):
            await bot.says(f"Please look at {page}")
        await bot.says("Thanks")
        first, second, third = sent(bot)
        await bot.says("Please read the first again")
        again = sent(bot)[-1]
        turns = (await bot.says("/context turns")).text
        history = (await bot.says("/context history")).text
        shown = (await bot.says("/context")).text
    assert first.startswith('[put away: the result of look({"page": "one"}), 1,630 characters; ')
    assert second.startswith('[put away: the result of look({"page": "two"})')
    assert third.startswith('<untrusted source="look">\nPage three')
    assert again.startswith('<untrusted source="context_search">\nPage one: the tide')
    assert again.count("the tide comes in") == 60
    assert "tool results shortened" in turns
    assert "old tool results to one line each" in history
    assert (
        "strategy stubs (configuration file), the last 1 tool result whole (configuration file)"
        in shown
    )


async def test_the_preview_says_what_becomes_a_stub_and_what_leaves_after_that(
    tmp_path: Path,
) -> None:
    settings = {
        "context": {"stub_tools": True, "stub_keep": 0, "stub_batch": 300},
        "agent_max_context_turns": 3,
    }
    async with run_bot(tmp_path, script, settings) as bot:
        for number in (300, 301, 302):
            await bot.says(f"Please count to {number}")
        coming = (await bot.says("/context")).text
        preview = await bot.says("/context preview")
        plans = (await data(bot, "/context preview"))["plans"]
        await bot.says("Thanks")
        kinds = [event["kind"] for event in await events(bot, "stub", "compact")]
        limits = (await bot.says("/context")).text
    assert "about t4. 3 old tool results become one line each, then t1 will be summarised" in coming
    assert "First, 3 old tool results become one line each (about " in preview.text
    assert [plan["effect"] for plan in plans] == [
        "3 old tool results become one line each",
        "t1 will be summarised",
    ]
    assert kinds == ["stub", "compact"]
    assert "old tool results become one line each first" in limits


async def test_a_branch_reads_the_stubs_of_what_it_shares(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, STUBS) as bot:
        for number in (300, 301, 302):
            await bot.says(f"Please count to {number}")
        await bot.says("Thanks")
        (stub, *_) = named(bot.server.turns[-1].body)
        await bot.says("/fork")
        await bot.says(f"Please read {stub} again")
        assert sent(bot)[-1].endswith("298 299")
        await bot.says("Please read the first again")
        assert sent(bot)[-1].endswith("298 299"), "and so it is with stubs that it has itself"


async def test_stubs_wait_for_nobody_where_a_cut_is_asked_about(tmp_path: Path) -> None:
    settings = {
        "context": {
            "stub_tools": True,
            "stub_keep": 0,
            "stub_batch": 300,
            "compaction_approval": "ask",
        },
        "agent_max_context_turns": 3,
    }
    async with run_bot(tmp_path, script, settings) as bot:
        for number in (300, 301, 302):
            await bot.says(f"Please count to {number}")
        await bot.says("Thanks")
        kinds = [event["kind"] for event in await events(bot, "stub", "compact")]
        assert kinds == ["stub"]
        assert all(text.startswith("[put away") for text in sent(bot))
        await bot.app.conversations.flush()
        await bot.says("/context approve s1")
        kinds = [event["kind"] for event in await events(bot, "stub", "compact")]
    assert kinds == ["stub", "compact"]
