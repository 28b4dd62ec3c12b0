"""Hook rules: what uses up their turns, whose event it is, and what is said of them (point 21)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say, openai_overflow
from tests.points.wire import (
    answered,
    compactions,
    daily,
    data,
    settle,
    summarised,
    texts,
    with_plugin,
)
from tests.whole.testbot import TestBot, run_bot

WORDS = """
from plugins.api import Tool, hookimpl, tool


@tool
def words(number: int) -> str:
    '''Say a number of words.'''
    return " word" * number


@hookimpl
def parley_tools() -> list[Tool]:
    return [words]
"""

COMPACT = {"type": "compact_context", "keep_recent": 4}
EARLY = {"max_tokens": 20_000, "compression_trigger": 0.2, "keep_recent": 2}


def rule(action: dict[str, Any], id: str = "mine", **more: Any) -> dict[str, Any]:
    return {"id": id, "on": "turn_start", "condition": "always", "action": action} | more


def with_rules(*hooks: dict[str, Any], **context: Any) -> dict[str, Any]:
    return {"hooks": list(hooks), "context": {"strategy": "truncate", **context}}


def talkative(request: Received) -> Answer:
    return Say("Yes. " * 30 if "tools" in request.body else "They talked.")


async def talk(bot: TestBot, count: int, words: int = 3) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}: " + "word " * words)


def holds_the_first(sent: dict[str, Any]) -> bool:
    """Whether a request holds the first question, and not only what tells of it."""
    return any(text.startswith("question 1:") for text in texts(sent))


# --- what uses a rule up ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit",
    [
        pytest.param({"max_fires": 1}),
        pytest.param({"cooldown": 3_600.0}),
    ],
    ids=["max_fires", "cooldown"],
)
async def test_a_rule_is_not_used_up_by_times_when_it_did_nothing(
    tmp_path: Path, limit: dict[str, Any]
) -> None:
    """Point 21: the first turns have nothing that could leave; the one time comes later."""
    async with run_bot(tmp_path, talkative, with_rules(rule(COMPACT, **limit))) as bot:
        await talk(bot, 8, words=60)
        assert len(await compactions(bot)) == 1


async def test_a_rule_that_logs_does_not_silence_the_built_in_one_whatever_its_name(
    tmp_path: Path,
) -> None:
    """Point 21: one with the id `_auto_compact`, which compacts nothing."""
    log = rule({"type": "log", "message": "A turn begins."}, id="_auto_compact")
    async with run_bot(tmp_path, talkative, with_rules(log, **EARLY)) as bot:
        await talk(bot, 8, words=500)
        made = await compactions(bot)
    assert made, "nothing was compacted at the trigger"
    assert made[0]["actor"] == "strategy"


def stepping(request: Received) -> Answer:
    """A question with "work" in it takes four steps with a tool."""
    if "tools" not in request.body:
        return Say("They talked.")
    messages = request.body["messages"]
    newest = max(n for n, message in enumerate(messages) if message["role"] == "user")
    steps = sum(message["role"] == "tool" for message in messages[newest:])
    if "work" in messages[newest]["content"] and steps < 4:
        return Say(calls=(Call("current_time", "{}", f"c{steps}"),))
    return Say("Yes. " * 30)


async def test_the_rest_of_a_turn_that_left_in_part_is_not_summarised_again(
    tmp_path: Path,
) -> None:
    """Each step pushes two more messages out; what they belong to was told with their turn."""
    hook = rule({**COMPACT, "strategy": "summarize"}, on="tool_end")
    async with run_bot(tmp_path, stepping, {"hooks": [hook]}) as bot:
        await talk(bot, 5, words=60)
        await bot.says("now work")
        await settle(bot)
        assert len(await compactions(bot)) > 1
        paid = len(summarised(bot))
        headings = re.findall("^## .*", daily(tmp_path), re.MULTILINE)
    assert paid == 1
    assert len(headings) == 1, headings


async def test_a_turn_that_was_kept_leaves_by_itself_once_nothing_keeps_it(
    tmp_path: Path,
) -> None:
    """It stands before the place of the last cut. A rule has paid for it at each step, in vain."""
    hook = rule({"type": "compact_context", "strategy": "summarize"}, on="tool_end")
    settings = {"hooks": [hook], "context": {"keep_recent": 4}}
    async with run_bot(tmp_path, stepping, settings) as bot:
        await talk(bot, 1, words=60)
        await bot.says("/context pin t1")
        await talk(bot, 4, words=60)
        await bot.says("now work")
        before = len(await compactions(bot))
        await bot.says("/context unpin t1")
        in_play = (await data(bot, "/context"))["messages"]
        await bot.says(f"/config context.keep_recent {in_play + 1}")
        await bot.says("now work")
        made = await compactions(bot)
        assert len(made) > before
        assert not holds_the_first(answered(bot)[-1])
        assert len(summarised(bot)) == sum(bool(event["turns"]) for event in made)


# --- whose event it is ------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_an_event_names_the_strategy_that_made_it(tmp_path: Path, strategy: str) -> None:
    """Point 21: a rule that truncates while `trim` is in force."""
    hooks = [rule({**COMPACT, "strategy": strategy}, condition={"turn_count": {"every": 6}})]
    async with run_bot(tmp_path, talkative, {"hooks": hooks}) as bot:
        await talk(bot, 6, words=60)
        (event,) = await compactions(bot)
        sent = answered(bot)[-1]
    assert not holds_the_first(sent), "nothing left"
    assert event["strategy"] == strategy


async def test_what_a_rule_cut_stays_cut_under_every_strategy(tmp_path: Path) -> None:
    """Point 21: it is not the strategy in force that made it, so that switching brings nothing
    back; an undo does."""
    hooks = [rule({**COMPACT, "strategy": "truncate"}, condition={"turn_count": {"every": 6}})]
    async with run_bot(tmp_path, talkative, {"hooks": hooks}) as bot:
        await talk(bot, 6, words=60)
        for strategy in ("structured", "slim", "trim", "full"):
            await bot.says(f"/config context.strategy {strategy} --here")
            await bot.says("And now?")
            assert not holds_the_first(answered(bot)[-1]), strategy
        assert "truncate: the rule mine" in (await bot.says("/context history")).text
        await bot.says("/context undo")
        await bot.says("And now?")
        assert holds_the_first(answered(bot)[-1])


# --- what can be seen of the built-in rule ----------------------------------------------------


@pytest.mark.parametrize("line", ["/config hooks", "/context"])
async def test_the_built_in_trigger_is_shown(tmp_path: Path, line: str) -> None:
    """Point 21."""
    async with run_bot(tmp_path, talkative, with_rules()) as bot:
        await talk(bot, 1)
        shown = (await bot.says(line)).text
    assert "_auto_compact" in shown
    assert "75" in shown, "at which pressure it acts"


async def test_the_built_in_trigger_is_not_shown_where_it_does_not_act(tmp_path: Path) -> None:
    """Point 21: `trim` has limits of its own."""
    async with run_bot(tmp_path, talkative) as bot:
        await talk(bot, 1)
        for line in ("/config hooks", "/context"):
            assert "_auto_compact" not in (await bot.says(line)).text


async def test_context_shows_the_rule_that_compacts_instead_of_the_built_in_one(
    tmp_path: Path,
) -> None:
    """Point 21: an own rule that compacts replaces it, so no cut comes at 75 %."""
    own = rule(COMPACT, id="every_nine", condition={"turn_count": {"every": 9}})
    async with run_bot(tmp_path, talkative, with_rules(own)) as bot:
        await talk(bot, 1)
        shown = (await bot.says("/context")).text
        hooks = (await bot.says("/config hooks")).text
    assert "every_nine" in shown
    assert "at 75%" not in shown
    assert "`every_nine` cuts, and the built-in `_auto_compact` does not" in hooks


# --- advice -----------------------------------------------------------------------------------


async def advised(bot: TestBot) -> tuple[str, list[str]]:
    """The words of `/context advise`, without its figures, and the lines to type."""
    found = (await data(bot, "/context advise"))["advice"]
    said = " ".join(f"{one['found']} {one['do']}" for one in found)
    return said, [command for one in found for command in one["commands"]]


async def test_advice_on_cuts_that_come_too_often_knows_the_rule_that_makes_them(
    tmp_path: Path,
) -> None:
    """Point 21: `compression_trigger` moves nothing while an own rule compacts."""
    own = rule({**COMPACT, "keep_recent": 2}, "every_two", condition={"turn_count": {"every": 2}})
    async with run_bot(tmp_path, talkative, with_rules(own)) as bot:
        await talk(bot, 11, words=200)
        assert len(await compactions(bot)) > 2
        said, commands = await advised(bot)
    assert not [line for line in commands if "compression_trigger" in line]
    assert "every_two" in said


async def test_an_advised_rule_does_not_switch_the_pressure_off_unsaid(tmp_path: Path) -> None:
    """Point 21: any own rule that compacts takes the place of the built-in one."""
    calls = tuple(Call("words", '{"number": 60}', f"c{n}") for n in range(60))

    def tools_first(request: Received) -> Answer:
        if "tools" not in request.body:
            return Say("They talked.")
        is_asked = request.body["messages"][-1]["role"] == "user"
        return Say(calls=calls) if is_asked else Say("Seen.")

    with_plugin(tmp_path, WORDS)
    async with run_bot(tmp_path, tools_first, with_rules()) as bot:
        await bot.says("Look at everything.")
        said, commands = await advised(bot)
    (line,) = (line for line in commands if line.startswith("/config hooks "))
    hooks = json.loads(line.removeprefix("/config hooks ").removesuffix(" --here"))
    keeps_it = "context_pressure" in json.dumps(hooks)
    assert keeps_it or "_auto_compact" in said or "pressure" in said


async def test_advice_on_an_overflow_names_the_tool_whose_result_was_huge(tmp_path: Path) -> None:
    """Point 21: also when the emergency has clipped the result since."""
    asked = 0

    def script(request: Received) -> Answer:
        nonlocal asked
        if "tools" not in request.body:
            return Say("They talked.")
        asked += 1
        if asked == 1:
            return Say(calls=(Call("words", '{"number": 9000}', "c1"),))
        return openai_overflow(20_000, 16_000) if asked in (2, 3) else Say("Seen.")

    with_plugin(tmp_path, WORDS)
    settings = {"context": {"max_tokens": 16_000, "tool_result_limit": 10_000}}
    async with run_bot(tmp_path, script, settings) as bot:
        assert (await bot.says("Look at it.")).text.startswith("Seen.")
        figures = (await data(bot, "/context advise"))["figures"]
        said, commands = await advised(bot)
    assert figures["overflows"]
    assert "words" in said
    assert any("context.tool_result_limit" in line for line in commands)
