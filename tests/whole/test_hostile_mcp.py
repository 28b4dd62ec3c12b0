"""MCP servers that hang, die, flood and lie: each costs its own tools, and nothing else."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.hostile_mcp_server import INJECTION
from tests.whole.mcp_testbot import (
    HOSTILE,
    NOTES,
    calls_in,
    last_result,
    running_programs,
    script,
    until,
    with_servers,
)
from tests.whole.testbot import TestBot, run_bot

pytestmark = pytest.mark.usefixtures("processes")


def hostile(folder: Path, how: str) -> dict[str, Any]:
    """A bot with one that is hostile in a way, and with a good one."""
    (folder / "bad").mkdir(exist_ok=True)
    servers = with_servers(
        bad={
            "command": sys.executable,
            "args": [str(HOSTILE), str(folder / "bad"), how],
            "approve": "never",
        },
        good={"command": sys.executable, "args": [str(NOTES), str(folder)], "approve": "never"},
    )
    patience = 2 if how in ("flood", "hangs", "nested") else 30
    return {"mcp": servers["mcp"] | {"start_timeout": 10, "call_timeout": patience}}


async def use_bad(bot: TestBot) -> str:
    """What the model is told of a call, while another chat is answered and a good server works."""
    calling = asyncio.create_task(bot.says("use bad__act", "bad"))
    assert (await bot.says("Hello", "other")).text == "Done."
    await calling
    told = next(
        str(one["content"])
        for request in reversed(bot.server.requests)
        for one in reversed(request.body["messages"])
        if one["role"] == "tool"
    )
    await bot.says('use good__add_note {"text": "x"}', "good")
    assert "Added: x" in last_result(bot)
    return told


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("silent", "The server bad is not available: it was not ready within 10 s."),
        ("gone", "There is no key."),
        ("hangs", "it did not answer within 2 s; what it was asked for may have happened."),
        ("dies", "it has ended"),
        ("huge", "it sent a message of more than 4 MB"),
        ("nested", "it did not answer within 2 s"),
        ("lies", "its answer breaks the protocol"),
        ("stderr", "Acted."),
        ("flood", "bad"),
        ("stranger", "Acted."),
        ("large", "xxx"),
        ("objects", ""),
        ("newer", "[a part of the kind 'hologram' is left out]\nActed."),
        ("pages", "Acted."),
        ("wrong", "its answer breaks the protocol"),
        ("refuses", "The server refused this: The notes are locked."),
        ("closed", "it does not list its tools (The server refused this: The notes are locked)."),
        ("latin", "caf\N{REPLACEMENT CHARACTER}"),
    ],
)
async def test_a_bad_server_costs_its_own_tools_and_nothing_else(
    tmp_path: Path, how: str, told: str
) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, how)) as bot:
        found = await use_bad(bot)
    assert told in found
    assert len(found) < 300_000


async def test_a_server_that_fails_is_started_again_a_few_times_and_an_owner_is_told(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "dies")) as bot:
        for _ in range(5):
            await bot.says("use bad__act")
        assert "so it is left alone for 10 more" in last_result(bot)
        told = [one.reply.text for one in bot.sent if "To you as an owner" in one.reply.text]
        await bot.says("/mcp restart bad")
        await bot.says("use bad__act")
    assert calls_in(tmp_path / "bad") == ["started", "call act"] * 3 + ["started", "call act"]
    assert len(told) == 1
    assert "The MCP server bad does not work: it has ended" in told[0]


async def test_thousands_of_tools_are_cut_and_the_prompt_is_as_it_was(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "many")) as bot:
        await bot.says("Hello")
        before = bot.server.requests[-1].body
        await bot.says('call tool_search {"query": "bad"}')
        after = bot.server.requests[-1].body
        found = last_result(bot)
        listed = await bot.says("/mcp tools bad")
    assert after["tools"] == before["tools"]
    assert after["messages"][0] == before["messages"][0]
    assert "and 892 others" in found
    assert len(found) < 20_000
    assert listed.data is not None
    assert len(listed.data["tools"]) == 1_000
    assert len(listed.text) < 20_000


async def test_names_and_descriptions_are_no_prompts(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "names")) as bot:
        await bot.says('call tool_search {"query": "bad"}')
        request, found = bot.server.requests[-1].body, last_result(bot)
        names = {one["name"] for one in (await mcp_tools(bot))}
    assert INJECTION not in str(request["messages"][0])
    assert INJECTION not in str(request["tools"])
    assert found.startswith("<untrusted")
    assert all(len(name) <= 64 and name.isascii() and " " not in name for name in names)
    assert len(names) == 5, "those that can't be named are left out, and no two are the same"
    assert "bad__list_resources" not in names, "that is ours"


async def mcp_tools(bot: TestBot) -> Any:
    listed = await bot.says("/mcp tools bad")
    assert listed.data is not None
    return listed.data["tools"]


async def test_schemas_that_are_none_take_anything(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "schemas")) as bot:
        await bot.says('call tool_search {"query": "bad"}')
        assert "bad__act0" in last_result(bot)
        assert len(await mcp_tools(bot)) == 4
        await bot.says("use bad__act1 {}")
        assert "Acted." in last_result(bot)
        await bot.says('call bad__act1 "no JSON')
        assert "bad__act1 was not run: the arguments are not valid JSON" in last_result(bot)


async def test_other_tools_than_before_are_kept_as_an_event_and_told(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "changes")) as bot:
        await bot.says("use bad__act")
        await until(lambda: any("other tools than before" in o.reply.text for o in bot.sent))
        told = next(o.reply.text for o in bot.sent if "other tools" in o.reply.text)
        listed = (await bot.says("/mcp tools bad")).text
        before = bot.server.requests[-1].body["tools"]
        await bot.says("Hello")
        assert bot.server.requests[-1].body["tools"] == before
    assert "1 new: more; 1 changed: act" in told
    assert "1 new: more; 1 changed: act" in listed
    async with run_bot(tmp_path, script, hostile(tmp_path, "changes")) as bot:
        assert "1 changed: act" in (await bot.says("/mcp tools bad")).text


async def test_the_only_root_of_a_server_is_the_folder_of_the_chats_people(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "roots")) as bot:
        await bot.says("use bad__act")
        assert f"{tmp_path}/data/audiences/pipe-main" in last_result(bot)
        await bot.says("use bad__act", "other")
        assert f"{tmp_path}/data/audiences/pipe-other" in last_result(bot)
        assert "pipe-main" not in last_result(bot)
    assert calls_in(tmp_path / "bad").count("started") == 2, "each has a process of its own"


async def test_a_server_may_ask_neither_the_model_nor_the_person(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script, hostile(tmp_path, "asks")) as bot:
        requests = len(bot.server.requests)
        await bot.says("use bad__act")
        said = last_result(bot)
        assert len(bot.server.requests) == requests + 2
    assert said.count('"error"') == 2


async def test_a_server_that_does_not_want_to_end_is_ended_with_all_it_has_started(
    tmp_path: Path,
) -> None:
    settings = hostile(tmp_path, "deaf")
    settings["mcp"]["start_timeout"] = 1
    async with run_bot(tmp_path, script, settings) as bot:
        await bot.says("use bad__act")
        assert "it was not ready within 1 s" in last_result(bot)
        begun = time.monotonic()
    assert time.monotonic() - begun < 8
    await until(lambda: not running_programs(HOSTILE, tmp_path))
