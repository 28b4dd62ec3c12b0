"""`/context compress`: AgentScope's compress_context() by hand, whatever else goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import Answer, Hang, Received, Say
from tests.whole.requests import (
    answered,
    answering,
    asks,
    data,
    events,
    settle,
)
from tests.whole.test_access import OWNER, afar, befriended
from tests.whole.testbot import TestBot, run_bot

SETTINGS = {"context": {"max_tokens": 32_000}}
LOW = {"trigger_ratio": 0.1, "reserve_ratio": 0.01}


def in_fields(request: Received) -> Answer:
    if request.is_summary:
        return Say(json.dumps({"task_overview": "Count.", "next_steps": "Go on."}))
    if "Wait" in str(request.body["messages"][-1]["content"]):
        return Hang("Let me think")
    return Say("Yes. " * 400)


async def talk(bot: TestBot, count: int) -> None:
    for number in range(1, count + 1):
        await bot.says(f"question {number}")


async def compress(bot: TestBot, config: Any = None) -> str:
    reply = await bot.says(f"/context compress {'' if config is None else json.dumps(config)}")
    await settle(bot)
    return reply.text


async def in_play(bot: TestBot) -> list[str]:
    return list((await data(bot, "/context json"))["turns"])


@pytest.mark.parametrize("strategy", ["slim", "summarize"])
async def test_it_works_whatever_the_strategy(tmp_path: Path, strategy: str) -> None:
    context = {"max_tokens": 32_000, "strategy": strategy, "full_turns": 8}
    async with run_bot(tmp_path, in_fields, {"context": context}) as bot:
        await talk(bot, 8)
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
        await talk(bot, 8)
        await compress(bot, LOW | own)
        await bot.says("And now?")
        (paid,) = bot.server.summaries
        assert "The total is: Eight." in json.dumps(answered(bot)[-1]["messages"])
    assert "Say only how many." in json.dumps(paid.body["messages"])
    assert list(paid.body["response_format"]["json_schema"]["schema"]["properties"]) == ["total"]


async def test_it_can_be_called_while_a_turn_runs_which_stays(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        await talk(bot, 8)
        asking = await asks(bot, "Wait for me.", "think")
        assert (await compress(bot, LOW)).startswith("Compacted t1 to t8")
        assert await in_play(bot) == ["t9"]
        await bot.says("/stop")
        assert "Let me think" in (await asking).text


async def test_where_nothing_may_leave_it_is_no_event_and_costs_nothing(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        low = {"trigger_ratio": 0.02, "reserve_ratio": 0.01}
        assert "no finished turn is in context" in await compress(bot, low)
        await talk(bot, 8)
        await bot.says("/context pin t1-t8")
        assert "all turns are pinned" in await compress(bot, LOW)
        await bot.says("/context unpin t1-t8")
        said = await compress(bot, low)
        assert "the system prompt and the tools alone fill" in said
        assert not await events(bot, "compact")
        assert not bot.server.summaries


async def test_a_second_time_there_is_nothing_left(tmp_path: Path) -> None:
    async with run_bot(tmp_path, in_fields, SETTINGS) as bot:
        await talk(bot, 8)
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
        await talk(bot, 8)
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
