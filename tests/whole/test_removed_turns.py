"""Tests that turns removed by a person are out of the model's reach until they are restored."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from channels.base import Activity, ContextChanged
from tests.fakes.openai_server import Answer, Call, Received, Say
from tests.waiting import until
from tests.whole.requests import (
    answered,
    answering,
    asked_to_summarise,
    audience,
    daily,
    data,
    events,
    last_asked,
    put_file,
    results,
    state,
    steps,
    talk,
    whole,
)
from tests.whole.testbot import TestBot, run_bot

NEEDLE = "xylophone"
FACT = f"The {NEEDLE} is in the cellar."
FEW_TURNS = {"agent_max_context_turns": 4}
LOOKS: dict[str, dict[str, Any]] = {
    "read_file": {"path": "sessions/pipe%2Fmain/context.jsonl"},
    "context_search": {"mode": "search", "query": NEEDLE},
    "memory_search": {"query": f"Where is the {NEEDLE}?"},
}
SEARCHES = ("context_search", "memory_search")


def model(request: Received) -> Answer:
    """Call the tool that a question in JSON names, and answer everything else."""
    last = request.body["messages"][-1]
    asked = str(last["content"]).rpartition("\n\n")[2]
    if last["role"] == "user" and asked.startswith("{"):
        wanted = json.loads(asked)
        return Say(calls=(Call(wanted.pop("tool"), json.dumps(wanted), "look"),))
    return Say("Seen." if last["role"] == "tool" else "Yes.")


script = answering(model, "They talked.")


async def looks(bot: TestBot, tool: str, **arguments: Any) -> str:
    """Return the result of a tool called by the model."""
    await bot.says(json.dumps({"tool": tool, **(arguments or LOOKS[tool])}))
    read = [body for body in answered(bot) if body["messages"][-1]["role"] == "tool"]
    return results(read[-1])[-1]


def in_files(folder: Path) -> str:
    """Return everything that the model's file tools find of the conversation."""
    files = (audience(folder) / "sessions").rglob("*")
    return "\n".join(file.read_text() for file in files if file.is_file())


async def test_what_was_cleared_is_out_of_the_reach_of_every_tool_until_it_is_back(
    tmp_path: Path,
) -> None:
    """It was already in the offloaded file before."""
    async with run_bot(tmp_path, script, FEW_TURNS) as bot:
        await talk(bot, FACT, "two", "three", "four", "five", "six")
        assert FACT in in_files(tmp_path)
        await bot.says("/context clear")
        assert FACT not in in_files(tmp_path)
        for tool in LOOKS:
            assert FACT not in await looks(bot, tool)
        await bot.says("/context undo")
        for tool in LOOKS:
            assert FACT in await looks(bot, tool)


async def test_what_was_dropped_is_not_offloaded_afterwards_nor_summarised(
    tmp_path: Path,
) -> None:
    """It is dropped after a cut that was undone, so it was already in the file; a later cut passes
    its position."""
    async with run_bot(tmp_path, script, FEW_TURNS) as bot:
        await talk(bot, FACT, "two", "three", "four", "five", "/context undo")
        assert "Dropped: t1" in (await bot.says("/context drop t1")).text
        assert FACT not in in_files(tmp_path)
        await talk(bot, f"{NEEDLE} again", "/undo")
        before = len(asked_to_summarise(bot))
        await talk(bot, *(f"question {number}" for number in range(8)))
        asked = asked_to_summarise(bot)[before:]
    assert "question 1" in in_files(tmp_path), "nothing left at all"
    assert FACT not in in_files(tmp_path)
    assert "question 1" in asked, "nothing was summarised"
    assert NEEDLE not in asked
    assert f"{NEEDLE} again" not in daily(tmp_path)


async def test_the_whole_result_of_a_cleared_turn_is_out_of_reach(tmp_path: Path) -> None:
    put_file(tmp_path, "long.txt", "some words in a line\n" * 400 + f"{FACT}\n")
    settings = {"context": {"tool_result_limit": 500}}
    async with run_bot(tmp_path, script, settings) as bot:
        await looks(bot, "read_file", path="files/long.txt", limit=500)
        assert FACT in in_files(tmp_path), "nothing was kept of the result"
        await bot.says("/context clear")
    assert FACT not in in_files(tmp_path)


@pytest.mark.parametrize("line", ["/undo", "/retry"])
async def test_a_turn_that_was_taken_back_is_found_by_no_search_of_the_model_until_it_is_back(
    tmp_path: Path, line: str
) -> None:
    """After `/retry` the question is there again, and the old reply is not. The person finds it,
    and sees that it was removed."""
    asked = 0

    def reply(request: Received) -> Answer:
        nonlocal asked
        if last_asked(request) == "Where is it?":
            asked += 1
            return Say(FACT if asked == 1 else "I don't know.")
        return model(request)

    async with run_bot(tmp_path, answering(reply)) as bot:
        await talk(bot, "Hello", "Where is it?", line, "Hello again")
        for tool in SEARCHES:
            assert FACT not in await looks(bot, tool)
        if line == "/undo":
            for search in ("/context search", "/memory search"):
                found = (await bot.says(f"{search} {NEEDLE}")).text
                assert "cellar" in found
                assert "dropped" in found or "undone" in found
            await talk(bot, "/context undo")
            for tool in SEARCHES:
                assert FACT in await looks(bot, tool)


# --- undo ---


async def test_what_names_no_event_undoes_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script) as bot:
        await talk(bot, "one", "two", "/context pin t1", "/context drop t2")
        for name in ("t1", "2", "zzz", "e", "e99999", "e-1", "e1 e2"):
            said = (await bot.says(f"/context undo {name}")).text
            assert "can be undone" in said or "nothing was undone" in said
            assert name in said
        found = await state(bot)
    assert "t2" not in found["turns"]
    assert found["pinned"] == ["t1"]


async def test_an_event_can_be_named_to_undo_it_also_a_clear_that_folds_came_after(
    tmp_path: Path,
) -> None:
    context = {"strategy": "slim", "fold_turns": 1, "full_turns": 1}
    async with run_bot(tmp_path, script, {"context": context}) as bot:
        await talk(bot, "one", "two", "three", "/context clear", "five", "six", "seven")
        lines = (await bot.says("/context history")).text.splitlines()
        (named,) = (re.findall(r"\be\d+\b", line) for line in lines if "clear" in line.lower())
        await talk(bot, f"/context undo {named[0]}", "eight")
        sent = whole(steps(bot)[-1])
    assert "one → Yes." in sent


async def test_an_undo_that_a_later_change_hides_says_so(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script) as bot:
        await talk(bot, "one", "two", "/context clear", "three", "four", "/context clear")
        ids = re.findall(r"^- (e\d+)", (await bot.says("/context history")).text, re.M)
        told = (await bot.says(f"/context undo {ids[-1]}")).text
    assert "a later change removed the same turns" in told


async def test_what_an_undo_holds_off_is_said_in_a_sentence(tmp_path: Path) -> None:
    """The undo, the overview and the preview name the turn or size before which no cut is made."""
    async with run_bot(tmp_path, script, FEW_TURNS) as bot:
        await talk(bot, "one", "two", "three", "four", "five", "six")
        undone = (await bot.says("/context undo")).text
        shown = (await bot.says("/context")).text
        held = (await state(bot))["held_off_until"]
        preview = (await bot.says("/context preview")).text
        (event,) = await events(bot, "compact")
    assert event["undone"]
    for said in (undone, shown):
        assert f"t{held['turn']}" in said
        assert not re.search(r"until t\d+ or [\d.]+[kM]?\b", said)
        assert "by itself" not in said
    assert "within all limits" not in preview
    assert "undo" in preview


# --- what is said of turns and settings ---


async def test_after_a_new_start_no_turn_is_called_summarised_that_was_not(tmp_path: Path) -> None:
    """No summary is in front, since none could be made. Words after `/new` are refused."""
    async with run_bot(tmp_path, answering(model, "")) as bot:
        await talk(bot, "one", "two")
        assert "zzz" in (await bot.says("/new zzz")).text
        assert not await events(bot, "new")
        await talk(bot, "/new")
        assert (await state(bot))["preface"] == ""
        told = await data(bot, "/context turns")
    rows = {row["turn"]: row["state"] for row in told["turns"]}
    assert list(rows) == ["t1", "t2"]
    assert not any({"summarised", "in context"} & set(state) for state in rows.values())


async def test_the_bottom_line_follows_a_setting_at_once(tmp_path: Path) -> None:
    """The terminal's bar shows the last reported usage."""
    seen: list[Activity] = []
    async with run_bot(tmp_path, script) as bot:
        await talk(bot, "one")
        watching = await bot.watches(seen)
        await bot.says("/config agent_max_context_turns 8 --here")
        await bot.says("/config agent_max_context_tokens 30000")
        await until(lambda: (8, 30_000) in shown(seen), lambda: shown(seen))
        watching.cancel()


def shown(seen: list[Activity]) -> list[tuple[int, int]]:
    usages = [event.usage for event in seen if isinstance(event, ContextChanged)]
    return [(usage.max_turns, usage.max_tokens) for usage in usages]


async def test_a_change_says_where_it_holds(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script) as bot:
        said = (await bot.says("/model gpt-4o --here")).text
        await bot.says("Hello")
        await bot.says("Hello", chat="other")
        assert [body["model"] for body in answered(bot)] == ["gpt-4o", "gpt-4o-mini"]
        assert "in this conversation" in said
        said = (await bot.says("/model gpt-4.1-mini", chat="other")).text
        assert "everywhere" in said or "all conversations" in said
        await bot.says("/config agent_max_context_turns 8 --here")
        said = (await bot.says("/config agent_max_context_turns 9")).text
        assert (await data(bot, "/config agent_max_context_turns"))["value"] == 8
    assert re.search(r"\b9\b", said)
    assert re.search(r"\b8\b", said)
    assert "--here" in said


async def test_a_known_sum_and_calls_of_unknown_price_are_both_said(tmp_path: Path) -> None:
    async with run_bot(tmp_path, script) as bot:
        await talk(bot, "one", "/config model nobody-knows-me", "two")
        said = (await bot.says("/context")).text
    cost = next(line for line in said.splitlines() if line.startswith("Cost"))
    assert re.search(r"\$0\.\d", cost)
    assert "1 request" in cost
    assert "unknown" in cost
