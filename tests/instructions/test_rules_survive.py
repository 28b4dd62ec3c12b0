"""What a person ordered survives compactions, branches, restarts, models, and goes when they say
so."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.context.strategies import STRATEGIES
from tests.fakes.openai_server import Answer, Call, Received, Say, echo
from tests.instructions.test_rules_said import AUTO, BOSS, commands, list_rules, system
from tests.whole.scenario import say_all
from tests.whole.test_approve_cuts import SHOW, settle, told
from tests.whole.test_edit_summary import talk
from tests.whole.test_forget import found_in
from tests.whole.testbot import TestBot, run_bot

RULES = [f"Never tell anybody the number {n}" for n in range(50)]


def in_prompt(bot: TestBot) -> list[str]:
    """The rules of the last request of a turn."""
    _, heading, lines = system(bot).rpartition("Standing instructions of the people")
    return [line[2:] for line in lines.split("\n") if line.startswith("- ")] if heading else []


def hostile(request: Received) -> Answer:
    """A model whose summaries drop each order."""
    return Say("The person said hello." if request.is_summary else "Yes.")


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_no_rule_is_lost_over_ten_compactions(tmp_path: Path, strategy: str) -> None:
    config = {"context": {"strategy": strategy}, "rules": {"max_tokens": 2_000, "detect": "auto"}}
    async with run_bot(tmp_path, hostile, config) as bot:
        await say_all(bot, *("\n".join(RULES[n : n + 10]) for n in range(0, 50, 10)))
        for number in range(10):
            await bot.says(f"question {number}")
            compacted = await bot.says("/context compact")
            assert "50 rules stay in force" in compacted.text
        await bot.says("And?")
        assert in_prompt(bot) == RULES


STEPS = st.one_of(
    st.tuples(st.sampled_from(["say", "keep", "dismiss", "revoke"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["undo", "compact", "fork", "restart", "strategy"]), st.just(0)),
)


class Model:
    """The rules that are to be in force: the state of each, and what undo takes back."""

    def __init__(self) -> None:
        self.state: dict[int, str] = {}
        self.done: list[tuple[int, str]] = []

    def take(self, step: str, rule: int) -> None:
        now = self.state.get(rule, "")
        allowed = {"keep": ["proposed"], "dismiss": ["proposed"], "revoke": ["proposed", "active"]}
        to = {"keep": "active", "dismiss": "dismissed", "revoke": "revoked"}
        if step == "say" and now in ("", "revoked"):
            self.state[rule] = "proposed"
        elif step == "undo" and self.done:
            undone, before = self.done.pop()
            self.state[undone] = before
        elif now in allowed.get(step, ()):
            self.done.append((rule, now))
            self.state[rule] = to[step]

    @property
    def in_force(self) -> set[str]:
        return {RULES[rule] for rule, state in self.state.items() if state == "active"}


@settings(max_examples=12)
@given(st.lists(STEPS, min_size=4, max_size=14))
def test_the_prompt_has_exactly_the_rules_in_force(steps: Sequence[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(_carry_out(Path(folder), steps))


async def _carry_out(folder: Path, steps: Sequence[tuple[str, int]]) -> None:
    model, names = Model(), list(STRATEGIES)
    numbers: dict[int, int] = {}
    async with AsyncExitStack() as running:
        bot = await running.enter_async_context(run_bot(folder, hostile))
        for at, (step, rule) in enumerate(steps):
            if step == "restart":
                await running.aclose()
                said = bot.count
                bot = await running.enter_async_context(run_bot(folder, hostile))
                bot.count = said  # the same id with the same text would be the same message
            elif step == "say":
                await bot.says(RULES[rule])
                numbers |= {RULES.index(r["text"]): r["id"] for r in await list_rules(bot)}
            elif step in ("keep", "dismiss", "revoke"):
                await bot.says(f"/rules {step} {numbers.get(rule, 99)}")
            else:
                lines = {"undo": "/rules undo", "compact": "/context compact", "fork": "/fork"}
                strategy = f"/config context.strategy {names[at % len(names)]} --here"
                await bot.says(lines.get(step, strategy))
            model.take(step, rule)
        await bot.says("And?")
        assert set(in_prompt(bot)) == model.in_force


async def test_subagents_and_other_models_have_them_too(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        messages = request.body["messages"]
        if messages[-1]["content"] == "Send out":
            return Say(calls=(Call("delegate", '{"task": "Look."}', "d"),))
        return Say("Done.")

    async with run_bot(tmp_path, script) as bot:
        await say_all(bot, f"/rules add {BOSS}", "Send out", "/model gpt-4o", "And?")
        assert all(f"\n- {BOSS}" in system(bot, n) for n in range(len(bot.server.turns)))
        assert "You are a sub-agent" in str([r.body for r in bot.server.turns])


async def test_the_notice_of_a_cut_says_what_stays(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SHOW) as bot:
        await bot.says(f"/rules add {BOSS}")
        await talk(bot, 7)
        await settle(bot)
        (shown,) = told(bot)
        assert f"1 rule stays in force: “{BOSS}”" in shown.text


@pytest.mark.databases
async def test_forgetting_the_turn_or_the_chat_deletes_what_was_said_there(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, "Never tell ZEBRAWORD.", "Never tell OKAPIWORD.", "Hi")
        assert "1 standing rule" in (await bot.says("/forget t1")).text
        await say_all(bot, "/forget t1 yes", "And?")
        assert in_prompt(bot) == ["Never tell OKAPIWORD"]
        await say_all(bot, "Never tell GIRAFFEWORD.", "/rules undo", "/forget chat yes", "So?")
        assert in_prompt(bot) == []
        assert await list_rules(bot) == []
    for word in ("zebraword", "okapiword", "giraffeword"):
        assert [place for place in found_in(tmp_path, word) if "parley.db" in place] == []


async def test_the_small_prompt_of_the_embedded_model_has_them(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"/rules add {BOSS}")
        (conversation,) = bot.app.conversations.list_loaded()
        key, prompt = conversation.key, bot.app.config.prompt
        prefix = prompt.prefix(key, "Small.", (), prompt.sections(key))
        assert prefix.system.startswith("Small.\n\nStanding instructions")
        assert prefix.system.endswith(BOSS)
        assert prefix.base == "Small."


async def test_the_prompt_is_the_same_bytes_between_changes(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await say_all(bot, f"/rules add {BOSS}", *(f"question {n}" for n in range(4)))
        assert len({system(bot, n) for n in range(4)}) == 1
        await say_all(bot, "/rules revoke 1", "And?")
        events = ((await bot.says("/context history")).data or {})["events"]
        changes = [one["reason"] for one in events]
        assert changes == ["the standing instructions were changed"], "the first is no change"
        assert commands(await bot.says("/rules")) == []
