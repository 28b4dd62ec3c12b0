"""Hook rules that compact, and `/context compress`, AgentScope's compress_context() as a
command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Call, Hang, Received, Say, openai_overflow
from tests.whole.requests import (
    answered,
    answering,
    asks,
    compactions,
    daily,
    data,
    events,
    in_order,
    settle,
    steps,
    texts,
    with_plugin,
)
from tests.whole.test_access import OWNER, afar, befriended
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
    """Return whether the last request has the first question itself, not only a summary of it."""
    return any(text.startswith("question 1:") for text in texts(steps(bot)[-1]))


def stepping(request: Received) -> Answer:
    """Take four steps with a tool for a question with "work" in it."""
    messages = request.body["messages"]
    newest = max(n for n, message in enumerate(messages) if message["role"] == "user")
    steps = sum(message["role"] == "tool" for message in messages[newest:])
    if "work" in messages[newest]["content"] and steps < 4:
        return Say(calls=(Call("current_time", "{}", f"c{steps}"),))
    return Say("Yes. " * 30)


async def test_a_rule_is_not_used_up_by_times_when_it_did_nothing(tmp_path: Path) -> None:
    """With only the first turns, no turn can be removed; that is only possible later."""
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
    """Each step removes two more messages; their turn's section covers them."""
    hook = rule({**COMPACT, "strategy": "summarize"}, on="tool_end")
    async with run_bot(tmp_path, answering(stepping), {"hooks": [hook]}) as bot:
        await talk(bot, 5, words=60)
        await bot.says("now work")
        await settle(bot)
        assert len(await compactions(bot)) > 1
        assert len(bot.server.summaries) == 1
    assert len(re.findall("^## .*", daily(tmp_path), re.MULTILINE)) == 1


async def test_a_turn_that_was_kept_leaves_by_itself_once_nothing_keeps_it(tmp_path: Path) -> None:
    """It is before the position of the last cut. A rule has paid for it at each step, without
    effect."""
    hook = rule({"type": "compact_context", "strategy": "summarize"}, on="tool_end")
    settings = {"hooks": [hook], "context": {"keep_recent": 4}}
    async with run_bot(tmp_path, answering(stepping), settings) as bot:
        await talk(bot, 1, words=60)
        await bot.says("/context pin t1")
        await talk(bot, 4, words=60)
        await bot.says("now work")
        before = len(await compactions(bot))
        await bot.says("/context unpin t1")
        in_context = (await data(bot, "/context"))["messages"]
        await bot.says(f"/config context.keep_recent {in_context + 1}")
        await bot.says("now work")
        made = await compactions(bot)
        assert len(made) > before
        assert not holds_the_first(bot)
        assert len(bot.server.summaries) == sum(bool(event["turns"]) for event in made)


async def test_what_a_rule_cut_names_its_strategy_and_stays_cut_under_every_one(
    tmp_path: Path,
) -> None:
    """The strategy in force did not make it: switching restores nothing; an undo does."""
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
    """Return the words of `/context advise`, without its figures, and the commands to type."""
    found = (await data(bot, "/context advise"))["advice"]
    said = " ".join(f"{one['found']} {one['do']}" for one in found)
    return said, [command for one in found for command in one["commands"]]


async def test_a_rule_of_ones_own_is_shown_and_advised_about_in_place_of_the_built_in_one(
    tmp_path: Path,
) -> None:
    """`compression_trigger` removes nothing while a custom rule compacts."""
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
    """The emergency may have clipped the result since."""
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
    """A custom rule that compacts replaces the built-in one."""
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


SETTINGS = {"context": {"max_tokens": 32_000}}
LOW = {"trigger_ratio": 0.1, "reserve_ratio": 0.01}


def in_fields(request: Received) -> Answer:
    if request.is_summary:
        return Say(json.dumps({"task_overview": "Count.", "next_steps": "Go on."}))
    if "Wait" in str(request.body["messages"][-1]["content"]):
        return Hang("Let me think")
    return Say("Yes. " * 400)


async def ask(bot: TestBot, count: int) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}")


async def compress(bot: TestBot, config: Any = None) -> str:
    reply = await bot.says(f"/context compress {'' if config is None else json.dumps(config)}")
    await settle(bot)
    return reply.text


async def in_context(bot: TestBot) -> list[str]:
    return list((await data(bot, "/context json"))["turns"])


@pytest.mark.parametrize("strategy", ["slim", "summarize"])
async def test_it_works_whatever_the_strategy(tmp_path: Path, strategy: str) -> None:
    context = {"max_tokens": 32_000, "strategy": strategy, "full_turns": 8}
    async with run_bot(tmp_path, in_fields, {"context": context}) as bot:
        await ask(bot, 8)
        said = await compress(bot, LOW)
        await bot.says("And now?")
        assert "# Next steps" in json.dumps(answered(bot)[-1]["messages"])
    assert said.startswith("Compacted t1")


async def test_it_obeys_a_one_off_prompt_schema_and_template(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"total": {"type": "string"}}}
    own = {
        "compression_prompt": "Say only how many.",
        "summary_schema": schema,
        "summary_template": "The total is: {total}",
    }
    script = answering(lambda _: Say("Yes. " * 400), '{"total": "Eight."}')
    async with run_bot(tmp_path, script, SETTINGS) as bot:
        await ask(bot, 8)
        await compress(bot, LOW | own)
        await bot.says("And now?")
        (paid,) = bot.server.summaries
        assert "The total is: Eight." in json.dumps(answered(bot)[-1]["messages"])
    assert "Say only how many." in json.dumps(paid.body["messages"])
    assert list(paid.body["response_format"]["json_schema"]["schema"]["properties"]) == ["total"]


async def test_it_can_be_called_while_a_turn_runs_which_stays(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        await ask(bot, 8)
        asking = await asks(bot, "Wait for me.", "think")
        assert (await compress(bot, LOW)).startswith("Compacted t1 to t8")
        assert await in_context(bot) == ["t9"]
        await bot.says("/stop")
        assert "Let me think" in (await asking).text


async def test_where_nothing_may_leave_it_is_no_event_and_costs_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        low = {"trigger_ratio": 0.02, "reserve_ratio": 0.01}
        assert "no finished turn is in context" in await compress(bot, low)
        await ask(bot, 8)
        await bot.says("/context pin t1-t8")
        assert "all turns are pinned" in await compress(bot, LOW)
        await bot.says("/context unpin t1-t8")
        said = await compress(bot, low)
        assert "the system prompt and the tools alone fill" in said
        assert not await events(bot, "compact")
        assert not bot.server.summaries


async def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        await ask(bot, 8)
        said = (await bot.says(f"/context compress\n{json.dumps(LOW, indent=2)}")).text
        assert said.startswith("Compacted t1"), "settings on lines of their own are read"
        assert (await compress(bot, LOW)).startswith("There is nothing to compress")
        assert len(bot.server.summaries) == 1


@pytest.mark.parametrize(
    "text",
    ["[]", "trigger_ratio=0.5", "[" * 5_000],
)
async def test_what_is_no_object_is_refused_with_an_example(tmp_path: Path, text: str) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        said = (await bot.says(f"/context compress {text}")).text
    assert 'compress {"trigger_ratio": 0.5, "reserve_ratio": 0.1}' in said
    assert "Nothing was changed" in said


UNFIT: tuple[tuple[dict[str, Any], str], ...] = (
    ({"trigger_ratio": None}, "context.trigger_ratio can't be null; it must be a number above 0"),
    ({"trigger_ratio": True}, "context.trigger_ratio can't be true; it must be a number above 0"),
    ({"trigger_ratio": float("nan")}, "context.trigger_ratio can't be NaN; it must be a number"),
    ({"tool_result_limit": 40_000}, "it must be at most context.max_tokens, which is 32000"),
    ({"summary_schema": {"type": "array"}}, "context.summary_schema can't be {"),
    ({"summary_template": "{nothing}"}, "context.summary_template names {nothing}"),
    ({"strategy": "trim"}, "/context compress has no setting “strategy”"),
    ({"context.trigger_ratio": 0.5}, "did you mean trigger_ratio?"),
    ({"": 1}, "/context compress has no setting “”; it takes trigger_ratio"),
)


async def test_each_one_off_setting_is_checked_as_config_does(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        await ask(bot, 8)
        for config, told in UNFIT:
            assert told in await compress(bot, LOW | config)
        assert not bot.server.summaries
        typed = (await bot.says("/config context.trigger_ratio 0.95")).text
        assert await compress(bot, {"trigger_ratio": 0.95}) == typed


async def test_one_off_settings_are_for_those_who_may_set_them(tmp_path: Path) -> None:
    async with afar(tmp_path) as bot:
        await befriended(bot, "ann")
        plain = (await bot.says("/context compress", "ann", "ann")).text
        assert plain.startswith("There is nothing to compress")
        told = (await bot.says('/context compress {"trigger_ratio": 0.5}', "ann", "ann")).text
        assert "only an owner may set context.trigger_ratio here" in told
        await bot.says("/config users_may_set context.trigger_ratio 0.3..0.9", OWNER, OWNER)
        told = (await bot.says('/context compress {"trigger_ratio": 0.2}', "ann", "ann")).text
        assert "you can set at least 0.3 and at most 0.9" in told
        told = (await bot.says('/context compress {"trigger_ratio": 0.4}', "ann", "ann")).text
        assert told.startswith("There is nothing to compress")
