"""Hook rules that compact: what uses them up, whose event it is, and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Received, Say, openai_overflow
from tests.whole.requests import (
    answering,
    compactions,
    daily,
    data,
    in_order,
    settle,
    steps,
    texts,
    with_plugin,
)
from tests.whole.testbot import TestBot, run_bot

COMPACT = {"type": "compact_context", "keep_recent": 4}
EARLY = {"max_tokens": 20_000, "compression_trigger": 0.2, "keep_recent": 2}
talkative = answering(lambda _: Say("Yes. " * 30))


def rule(action: dict[str, Any], id: str = "mine", **more: Any) -> dict[str, Any]:
    return {"id": id, "on": "turn_start", "condition": "always", "action": action} | more


def with_rules(*hooks: dict[str, Any], **context: Any) -> dict[str, Any]:
    return {"hooks": list(hooks), "context": {"strategy": "truncate", **context}}


async def talk(bot: TestBot, count: int, words: int = 3) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}: " + "word " * words)


def holds_the_first(bot: TestBot) -> bool:
    """Return whether the last request holds the first question, and not only a summary of it."""
    return any(text.startswith("question 1:") for text in texts(steps(bot)[-1]))


def stepping(request: Received) -> Answer:
    """Takes four steps with a tool for a question with "work" in it."""
    messages = request.body["messages"]
    newest = max(n for n, message in enumerate(messages) if message["role"] == "user")
    steps = sum(message["role"] == "tool" for message in messages[newest:])
    if "work" in messages[newest]["content"] and steps < 4:
        return Say(calls=(Call("current_time", "{}", f"c{steps}"),))
    return Say("Yes. " * 30)


async def test_a_rule_is_not_used_up_by_times_when_it_did_nothing(tmp_path: Path) -> None:
    """The first turns have nothing that could leave; the one time comes later."""
    limited = rule(COMPACT, max_fires=1, cooldown=3_600.0)
    async with run_bot(tmp_path, talkative, with_rules(limited)) as bot:
        await talk(bot, 8, words=60)
        assert len(await compactions(bot)) == 1


async def test_a_rule_that_logs_does_not_silence_the_built_in_one_whatever_its_name(
    tmp_path: Path,
) -> None:
    log = rule({"type": "log", "message": "A turn begins."}, id="_auto_compact")
    async with run_bot(tmp_path, talkative, with_rules(log, **EARLY)) as bot:
        await talk(bot, 8, words=500)
        made = await compactions(bot)
    assert made, "nothing was compacted at the trigger"
    assert made[0]["actor"] == "strategy"


async def test_the_rest_of_a_turn_that_left_in_part_is_not_summarised_again(
    tmp_path: Path,
) -> None:
    """Each step pushes two more messages out; what they belong to was told with their turn."""
    hook = rule({**COMPACT, "strategy": "summarize"}, on="tool_end")
    async with run_bot(tmp_path, answering(stepping), {"hooks": [hook]}) as bot:
        await talk(bot, 5, words=60)
        await bot.says("now work")
        await settle(bot)
        assert len(await compactions(bot)) > 1
        assert len(bot.server.summaries) == 1
    assert len(re.findall("^## .*", daily(tmp_path), re.MULTILINE)) == 1


async def test_a_turn_that_was_kept_leaves_by_itself_once_nothing_keeps_it(tmp_path: Path) -> None:
    """It is before the place of the last cut. A rule has paid for it at each step, in vain."""
    hook = rule({"type": "compact_context", "strategy": "summarize"}, on="tool_end")
    settings = {"hooks": [hook], "context": {"keep_recent": 4}}
    async with run_bot(tmp_path, answering(stepping), settings) as bot:
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
        assert not holds_the_first(bot)
        assert len(bot.server.summaries) == sum(bool(event["turns"]) for event in made)


async def test_what_a_rule_cut_names_its_strategy_and_stays_cut_under_every_one(
    tmp_path: Path,
) -> None:
    """The strategy in force did not make it: switching brings nothing back; an undo does."""
    hooks = [rule({**COMPACT, "strategy": "truncate"}, condition={"turn_count": {"every": 6}})]
    async with run_bot(tmp_path, talkative, {"hooks": hooks}) as bot:
        await talk(bot, 6, words=60)
        assert [event["strategy"] for event in await compactions(bot)] == ["truncate"]
        for strategy in ("trim", "slim", "full"):
            await bot.says(f"/config context.strategy {strategy} --here")
            await bot.says("And now?")
            assert not holds_the_first(bot), strategy
        assert "truncate: the rule mine" in (await bot.says("/context history")).text
        await bot.says("/context undo")
        await bot.says("And now?")
        assert holds_the_first(bot)


async def test_the_built_in_trigger_is_shown_where_it_acts(tmp_path: Path) -> None:
    async with run_bot(tmp_path, talkative, with_rules()) as bot:
        await talk(bot, 1)
        for line in ("/config hooks", "/context"):
            shown = (await bot.says(line)).text
            assert "_auto_compact" in shown
            assert "75" in shown, "at which pressure it acts"
        await bot.says("/config context.strategy trim")
        await talk(bot, 1)
        for line in ("/config hooks", "/context"):
            assert "_auto_compact" not in (await bot.says(line)).text


async def advised(bot: TestBot) -> tuple[str, list[str]]:
    """Return the words of `/context advise`, without its figures, and the lines to type."""
    found = (await data(bot, "/context advise"))["advice"]
    said = " ".join(f"{one['found']} {one['do']}" for one in found)
    return said, [command for one in found for command in one["commands"]]


async def test_a_rule_of_ones_own_is_shown_and_advised_about_in_place_of_the_built_in_one(
    tmp_path: Path,
) -> None:
    """`compression_trigger` moves nothing while an own rule compacts."""
    own = rule({**COMPACT, "keep_recent": 2}, "every_two", condition={"turn_count": {"every": 2}})
    async with run_bot(tmp_path, talkative, with_rules(own)) as bot:
        await talk(bot, 11, words=200)
        assert len(await compactions(bot)) > 2
        shown = (await bot.says("/context")).text
        hooks = (await bot.says("/config hooks")).text
        said, commands = await advised(bot)
    assert "every_two" in shown
    assert "at 75%" not in shown
    assert "`every_two` compacts, and the built-in `_auto_compact` does not" in hooks
    assert not [line for line in commands if "compression_trigger" in line]
    assert "every_two" in said


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


async def test_advice_on_an_overflow_names_the_tool_whose_result_was_huge(tmp_path: Path) -> None:
    """Also when the emergency has clipped the result since."""
    with_plugin(tmp_path, WORDS)
    overflow = openai_overflow(20_000, 16_000)
    call = Say(calls=(Call("words", '{"number": 9000}', "c1"),))
    script = in_order(call, overflow, overflow, Say("Seen."))
    settings = {"context": {"max_tokens": 16_000, "tool_result_limit": 10_000}}
    async with run_bot(tmp_path, script, settings) as bot:
        assert (await bot.says("Look at it.")).text.startswith("Seen.")
        assert (await data(bot, "/context advise"))["figures"]["overflows"]
        said, commands = await advised(bot)
    assert "words" in said
    assert any("context.tool_result_limit" in line for line in commands)


async def test_an_advised_rule_does_not_switch_the_pressure_off_unsaid(tmp_path: Path) -> None:
    """Any own rule that compacts takes the place of the built-in one."""
    with_plugin(tmp_path, WORDS)
    calls = tuple(Call("words", '{"number": 60}', f"c{n}") for n in range(20))
    script = in_order(*(Say(calls=calls),) * 3, Say("Seen."))
    async with run_bot(tmp_path, script, with_rules()) as bot:
        await bot.says("Look at everything.")
        said, commands = await advised(bot)
    (line,) = (line for line in commands if line.startswith("/config hooks "))
    assert "context_pressure" in line or "_auto_compact" in said or "pressure" in said


@pytest.mark.parametrize("strategy", ["truncate", "summarize"])
async def test_a_trigger_of_zero_compacts_at_any_size_and_every_command_answers(
    tmp_path: Path, strategy: str
) -> None:
    context = {"strategy": strategy, "compression_trigger": 0.0, "keep_recent": 2}
    script = answering(lambda _: Say("Yes, that is so. " * 40), "They talked about yes.")
    async with run_bot(tmp_path, script, {"context": context}) as bot:
        for number in range(4):
            said = await bot.says(f"Is it so? {number} " + "word " * 100)
            assert "already fill that" not in said.text, "it is no limit that is full"
            for part in ("", "json", "map", "preview", "advise", "detail"):
                assert "failed inside" not in (await bot.says(f"/context {part}")).text, part
        assert await compactions(bot)
