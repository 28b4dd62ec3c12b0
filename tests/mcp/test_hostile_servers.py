"""Tests of MCP servers that hang, crash, flood or lie: each loses only its own tools."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.fakes.hostile_server import INJECTION
from tests.mcp.testbot import (
    HOSTILE,
    calls_in,
    last_result,
    notes,
    running_programs,
    script,
    with_servers,
)
from tests.waiting import until
from tests.whole.testbot import TestBot, run_bot

pytestmark = pytest.mark.usefixtures("processes")


def hostile(folder: Path, *ways: str, **limits: int) -> dict[str, Any]:
    """Return the settings of a bot with a server for each kind of hostility, named after it, and
    with a good one."""
    servers = with_servers(good=notes(folder))
    for how in ways:
        (folder / how).mkdir(exist_ok=True)
        arguments = [str(HOSTILE), str(folder / how), how]
        servers["mcp"]["servers"][how] = {
            "command": sys.executable,
            "args": arguments,
            "approve": "never",
        }
    return {"mcp": servers["mcp"] | limits}


TOLD = {
    "gone": "There is no key.",
    "dies": "it has ended",
    "huge": "its answer can't be read: it is longer than 4 MB",
    "lies": "its answer breaks the protocol",
    "stranger": "Acted.",
    "large": "xxx",
    "nested": "its answer can't be read: it is nested too deeply",
    "objects": "",
    "newer": "[a part of the kind 'hologram' is left out]\nActed.",
    "pages": "Acted.",
    "wrong": "Acted.",
    "refuses": "The server refused this: The notes are locked.",
    "closed": "it does not list its tools (The server refused this: The notes are locked).",
    "latin": "caf\N{REPLACEMENT CHARACTER}",
    "stderr": "Acted.",  # it writes there endlessly, so its message is the last one
}
"""The answers of servers that respond at once, or the reasons for missing answers."""
TOO_LATE = {
    "hangs": "it did not answer within 1 s; what it was asked for may have happened.",
    "flood": "flood",
}


@pytest.mark.parametrize(
    ("ways", "call_timeout"), [(TOLD, 60), (TOO_LATE, 1)], ids=["at once", "too late"]
)
async def test_a_bad_server_costs_its_own_tools_and_nothing_else(
    tmp_path: Path, ways: dict[str, str], call_timeout: int
) -> None:
    settings = hostile(tmp_path, *ways, start_timeout=60, call_timeout=call_timeout)
    async with run_bot(tmp_path, script, settings) as bot:
        for how, told in ways.items():
            calling = asyncio.create_task(bot.says(f"use {how}__act", how))
            assert (await bot.says("Hello", "other")).text == "Done."
            await calling
            found = next(
                str(one["content"])
                for request in reversed(bot.server.requests)
                for one in reversed(request.body["messages"])
                if one["role"] == "tool"
            )
            assert told in found, how
            assert len(found) < 300_000, how
            if call_timeout > 1:
                await bot.says('use good__add_note {"text": "x"}', "good")
                assert "Added: x" in last_result(bot), how


async def test_a_server_that_fails_is_started_again_a_few_times_and_an_owner_is_told(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "dies")) as bot:
        for _ in range(5):
            await bot.says("use dies__act")
        assert "so it is not tried for 10 more" in last_result(bot)
        told = [one.reply.text for one in bot.sent if "To you as an owner" in one.reply.text]
        await bot.says("/mcp restart dies")
        await bot.says("use dies__act")
    assert calls_in(tmp_path / "dies") == ["started", "call act"] * 3 + ["started", "call act"]
    assert len(told) == 1
    assert "The MCP server dies does not work: it has ended" in told[0]


async def test_thousands_of_tools_are_cut_and_the_prompt_is_as_it_was(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "many")) as bot:
        await bot.says("Hello")
        before = bot.server.turns[-1].body
        await bot.says('call tool_search {"query": "many"}')
        after = bot.server.turns[-1].body
        found = last_result(bot)
        listed = await bot.says("/mcp tools many")
    assert after["tools"] == before["tools"]
    assert after["messages"][0] == before["messages"][0]
    assert "and 892 others" in found
    assert len(found) < 20_000
    assert listed.data is not None
    assert len(listed.data["tools"]) == 1_000
    assert len(listed.text) < 20_000


async def test_names_and_descriptions_are_no_prompts(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "names")) as bot:
        await bot.says('call tool_search {"query": "names"}')
        request, found = bot.server.turns[-1].body, last_result(bot)
        names = {one["name"] for one in (await mcp_tools(bot, "names"))}
    assert INJECTION not in str(request["messages"][0])
    assert INJECTION not in str(request["tools"])
    assert found.startswith("<untrusted")
    assert all(len(name) <= 64 and name.isascii() and " " not in name for name in names)
    assert len(names) == 5, "those that can't be named are left out, and no two are the same"
    assert "names__list_resources" not in names, "that is ours"


async def mcp_tools(bot: TestBot, server: str) -> Any:
    listed = await bot.says(f"/mcp tools {server}")
    assert listed.data is not None
    return listed.data["tools"]


async def test_schemas_that_are_none_take_anything(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "schemas")) as bot:
        await bot.says('call tool_search {"query": "schemas"}')
        assert "schemas__act0" in last_result(bot)
        assert len(await mcp_tools(bot, "schemas")) == 4
        await bot.says("use schemas__act1 {}")
        assert "Acted." in last_result(bot)
        await bot.says('call schemas__act1 "no JSON')
        assert "schemas__act1 was not run: the arguments are not valid JSON" in last_result(bot)


async def test_other_tools_than_before_are_kept_as_an_event_and_told(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "changes")) as bot:
        await bot.says("use changes__act")
        await until(lambda: any("other tools than before" in o.reply.text for o in bot.sent))
        told = next(o.reply.text for o in bot.sent if "other tools" in o.reply.text)
        listed = (await bot.says("/mcp tools changes")).text
        before = bot.server.turns[-1].body["tools"]
        await bot.says("Hello")
        assert bot.server.turns[-1].body["tools"] == before
    assert "1 new: more; 1 changed: act" in told
    assert "1 new: more; 1 changed: act" in listed
    async with run_bot(tmp_path, script, hostile(tmp_path, "changes")) as bot:
        assert "1 changed: act" in (await bot.says("/mcp tools changes")).text


async def test_a_server_has_no_root_or_the_folder_of_the_chats_people(tmp_path: Path) -> None:
    settings = hostile(tmp_path, "roots")
    servers = settings["mcp"]["servers"]
    servers["rooted"] = servers["roots"] | {"roots": True}
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("use roots__act")
        assert "List roots not supported" in last_result(bot), "its own folders hold"
        await bot.says("use rooted__act")
        assert f"{tmp_path}/data/audiences/pipe-main" in last_result(bot)
        await bot.says("use rooted__act", "other")
        assert f"{tmp_path}/data/audiences/pipe-other" in last_result(bot)
        assert "pipe-main" not in last_result(bot)
    assert calls_in(tmp_path / "roots").count("started") == 3, "each has a process of its own"


async def test_a_server_may_ask_neither_the_model_nor_the_person(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "asks")) as bot:
        requests = len(bot.server.requests)
        await bot.says("use asks__act")
        said = last_result(bot)
        assert len(bot.server.requests) == requests + 2
    assert said.count('"error"') == 2


async def test_a_server_that_does_not_want_to_end_is_ended_with_all_it_has_started(
    tmp_path: Path,
) -> None:
    settings = hostile(tmp_path, "deaf", start_timeout=1)
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("use deaf__act")
        assert "The server deaf is not available: it was not ready within 1 s." in last_result(bot)
    await until(lambda: not running_programs(HOSTILE, tmp_path))
