"""Tests that orders survive compactions, branches, restarts and other models, and end when a person
ends them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import time_machine
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.context.strategies import STRATEGIES
from memory.keys import ConversationKey
from memory.record.database import Database
from plugins.instructions.record import InstructionRows
from plugins.instructions.standing import StandingInstructions
from plugins.jobs.firing import Jobs
from tests.bot.test_schedule import retain, rows
from tests.fakes.openai_server import Answer, Call, Hang, Received, Say, echo, openai_overflow
from tests.instructions.test_rules_said import AUTO, BOSS, commands, list_rules, system
from tests.tables import case
from tests.waiting import until
from tests.whole.scenario import ask_many as talk
from tests.whole.scenario import copy_as_killed, say_all
from tests.whole.test_approve_cuts import SHOW, settle, told
from tests.whole.test_busy import busy, gate
from tests.whole.test_forget import found_in
from tests.whole.testbot import TestBot, run_bot

RULES = [f"Never tell anybody the number {n}" for n in range(50)]


def in_prompt(bot: TestBot) -> list[str]:
    """Return the rules in the last request of a turn."""
    _, heading, lines = system(bot).rpartition("Standing instructions of the people")
    return [line[2:] for line in lines.split("\n") if line.startswith("- ")] if heading else []


def hostile(request: Received) -> Answer:
    """Answer with summaries that drop each order."""
    return Say("The person said hello." if request.is_summary else "Yes.")


async def test_no_rule_is_lost_over_ten_compactions(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    rules = {"max_tokens": 2_000, "detect": "auto"}
    async with run_bot(tmp_path, hostile, {"rules": rules}) as bot:
        await say_all(bot, *("! ".join(RULES[n : n + 10]) for n in range(0, 50, 10)))
    for strategy in STRATEGIES:
        config = {"context": {"strategy": strategy}, "rules": rules}
        copy = Path(shutil.copytree(tmp_path / "data", tmp_path / strategy / "data")).parent
        with case(subtests, strategy):
            async with run_bot(copy, hostile, config) as bot:
                for number in range(10):
                    await bot.says(f"question {number}")
                    compacted = await bot.says("/context compact")
                    assert "50 standing instructions stay in force" in compacted.text
                await bot.says("And?")
                assert in_prompt(bot) == RULES


STEPS = st.one_of(
    st.tuples(st.sampled_from(["say", "keep", "dismiss", "revoke"]), st.integers(0, 3)),
    st.tuples(st.sampled_from(["undo", "compact", "fork", "restart", "strategy"]), st.just(0)),
)


class Model:
    """A model of the expected rules: the state of each, and the changes that undo reverts."""

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
        asyncio.run(_execute(Path(folder), steps))


async def _execute(folder: Path, steps: Sequence[tuple[str, int]]) -> None:
    model, names = Model(), list(STRATEGIES)
    numbers: dict[int, int] = {}
    async with AsyncExitStack() as running:
        bot = await running.enter_async_context(run_bot(folder, hostile))
        for at, (step, rule) in enumerate(steps):
            if step == "restart":
                await running.aclose()
                said = bot.count
                bot = await running.enter_async_context(run_bot(folder, hostile))
                bot.count = said  # the same id with the same text would count as a repetition
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
        assert f"1 standing instruction stays in force: “{BOSS}”" in shown.text


@pytest.mark.databases
async def test_forgetting_the_turn_or_the_chat_deletes_what_was_said_there(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, "Never tell ZEBRAWORD.", "Never tell OKAPIWORD.", "Hi")
        assert "1 standing instruction" in (await bot.says("/forget t1")).text
        await say_all(bot, "/forget t1 yes", "And?")
        assert in_prompt(bot) == ["Never tell OKAPIWORD"]
        await say_all(bot, "Never tell GIRAFFEWORD.", "/rules undo", "/forget chat yes", "So?")
        assert in_prompt(bot) == []
        assert await list_rules(bot) == []
    for word in ("zebraword", "okapiword", "giraffeword"):
        assert [place for place in found_in(tmp_path, word) if "parley.db" in place] == []


@pytest.mark.parametrize("fails", [True, False])
async def test_rules_are_gone_once_their_deletion_is_committed(tmp_path: Path, fails: bool) -> None:
    async with run_bot(tmp_path, echo) as bot:
        await bot.says(f"/rules add {BOSS}")
        standing = bot.app.features.service(StandingInstructions)
        key = ConversationKey("pipe/main", "pipe/main")

        def forget(database: Database) -> None:
            InstructionRows(standing.drop).forget(database, key, None)
            if fails:
                raise OSError("the disk is full")

        with suppress(OSError):
            await bot.app.store.write(forget)
        await standing.tasks.idle()
        await bot.says("And?")
        assert in_prompt(bot) == ([BOSS] if fails else [])


async def test_retention_leaves_what_is_in_force_and_takes_the_rest(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, AUTO) as bot:
        await say_all(bot, "Never tell ZEBRAWORD.", "Never tell OKAPIWORD.", "/rules revoke 2")
        await retain(bot)
        assert await rows(bot, "message") == 0
        assert [await rows(bot, f"instructions_{name}") for name in ("rule", "change")] == [1, 1]
        await bot.says("And?")
        assert in_prompt(bot) == ["Never tell ZEBRAWORD"]


async def test_the_emergency_cut_keeps_them(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        if len(request.raw) > 40_000:
            return openai_overflow(9_000, 4_000)
        return Say("Yes.")

    async with run_bot(tmp_path, script, {"context": {"strategy": "full"}}) as bot:
        await bot.says(f"/rules add {BOSS}")
        for number in range(6):
            await bot.says(f"{number} " * 5_000)
        events = ((await bot.says("/context history")).data or {})["events"]
        assert "emergency" in {one["actor"] for one in events}
        assert in_prompt(bot) == [BOSS]


async def test_what_is_said_while_a_turn_runs_is_asked_about_below_its_answer(
    tmp_path: Path,
) -> None:
    async with busy(tmp_path, "steer") as bot:
        await bot.writes(BOSS, id="second")
        await until(lambda: bot.app.turns.waiting["pipe/main"])
        gate("opened").set()
        reply = (await bot.reply_to("first")).reply
        assert commands(reply) == ["/rules keep 1", "/rules dismiss 1"]


async def test_a_turn_that_goes_on_after_a_kill_asks_once(tmp_path: Path) -> None:
    hanging = [Hang("Let me")]
    async with run_bot(tmp_path, hanging) as bot:
        await bot.writes(BOSS, id="said")
        await bot.server.reached.acquire()
        await until(lambda: bot.server.turns)
        killed = await copy_as_killed(bot, tmp_path)
        await bot.says("/stop")
    async with run_bot(killed, [Say("Fine.")]) as bot:
        reply = (await bot.reply_to("said")).reply
        assert commands(reply) == ["/rules keep 1", "/rules dismiss 1"]
        assert len(await list_rules(bot)) == 1


async def test_a_jobs_prompt_gives_no_rule_and_its_run_has_the_rules(tmp_path: Path) -> None:
    def script(request: Received) -> Answer:
        last = request.body["messages"][-1]
        if last["role"] == "user" and str(last["content"]).endswith("wear a hat"):
            text = '{"text": "Always wear a hat"}'
            return Say(calls=(Call("propose_rule", text, "a"),))
        return Say("Done.")

    noon = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)
    with time_machine.travel(noon, tick=True) as clock:
        async with run_bot(tmp_path, script, {"timezone": "UTC", **AUTO}) as bot:
            await say_all(bot, f"/rules add {BOSS}", "/jobs add in 1 hour Always wear a hat")
            clock.move_to(noon + timedelta(hours=2), tick=True)
            await bot.app.features.service(Jobs).tick()
            await bot.app.idle()
            result = str(bot.sent_to_model()[-1]["content"])
            assert result == "Not proposed: nobody is there to be asked."
            assert in_prompt(bot) == [BOSS]
            await bot.says("Well, propose that: Always wear a hat?")
            assert [rule["text"] for rule in await list_rules(bot)] == [BOSS]


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
        assert changes == ["changed: standing instructions"], "the first is no change"
        assert commands(await bot.says("/rules")) == []


@pytest.mark.parametrize("window", [1_024, 2_048, 4_096])
async def test_in_a_small_window_a_rule_is_refused_before_no_question_fits_any_more(
    tmp_path: Path, window: int
) -> None:
    settings = {"context": {"max_tokens": window}}
    kept: list[str] = []
    async with run_bot(tmp_path, lambda got: Say("I see."), settings) as bot:
        for number in range(100):
            rule = f"Never mention the number {number} when you talk about the weather in a town"
            reply = await bot.says(f"/rules add {rule}")
            if reply.problem:
                break
            kept.append(rule)
        assert reply.problem == "command_refused"
        assert f"window of {window:,} tokens has room for" in reply.text
        assert len(kept) >= 5
        for _ in range(6):
            assert not (await bot.says("How is the weather? " + "Well? " * 15)).problem
            assert [rule for rule in kept if rule not in str(bot.sent_to_model()[0])] == []
        assert [one["text"] for one in (await bot.says("/rules")).data["rules"]] == kept  # type: ignore[index]
