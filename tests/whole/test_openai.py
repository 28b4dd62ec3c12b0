"""A whole bot whose model is OpenAI's: what the provider is told of a conversation, and what it
counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.fakes.openai_server import Call, OpenAIServer, Received, Say
from tests.whole.testbot import TestBot, running

KEYS = {"OPENAI_API_KEY": "sk-test"}


def settings(server: OpenAIServer, **more: Any) -> dict[str, Any]:
    brain = {"provider": "openai", "config": {"base_url": server.base_url}}
    return {"model": "gpt-5-mini", "brain": brain, **more}


def keys_of(server: OpenAIServer) -> list[str]:
    return [str(one.body.get("prompt_cache_key", "")) for one in server.requests]


async def test_each_conversation_has_a_key_of_its_own_that_outlives_a_restart(
    tmp_path: Path,
) -> None:
    def answer(received: Received) -> Say:
        return Say("Yes.")

    async with OpenAIServer(answer) as server:
        for start in range(2):
            bot = TestBot()
            bot.count = 10 * start  # each message has an id of its own
            async with running(tmp_path, bot, settings(server), KEYS):
                for chat in ("ann", "bob"):
                    await bot.says("Hi", chat=chat)
        ann, bob, *later = keys_of(server)
    assert ann != bob
    assert later == [ann, bob]
    assert re.fullmatch("[0-9a-f]{32}", ann), "nothing of whose it is"


async def test_a_branch_has_the_key_of_what_it_shares_its_beginning_with(tmp_path: Path) -> None:
    async with OpenAIServer([Say("Yes.")] * 2) as server:
        bot = TestBot()
        async with running(tmp_path, bot, settings(server), KEYS):
            await bot.says("Hi")
            await bot.says("/fork t1")
            await bot.says("And now?")
            shown = (await bot.says("/context request r1 json")).data
        here, there = keys_of(server)
    assert here == there
    assert shown


async def test_what_was_thought_is_in_the_ledger_if_something_was(tmp_path: Path) -> None:
    script = [Say("Yes."), Say("42.", reasoning="Six times seven. " * 40)]
    async with OpenAIServer(script) as server:
        bot = TestBot()
        async with running(tmp_path, bot, settings(server), KEYS):
            await bot.says("Are you there?")
            assert "| reasoning |" not in (await bot.says("/usage")).text
            await bot.says("Six times seven?")
            usage = await bot.says("/usage")
    assert usage.data
    assert usage.data["chat"]["this chat, total"]["reasoning"] == 170
    assert "| reasoning |" in usage.text


# --- the Responses API ---

SUM = Call("calculate", '{"expression": "6 * 7"}')


async def test_thoughts_go_back_after_a_restart_and_what_was_sent_is_shown_as_it_went(
    tmp_path: Path,
) -> None:
    thought = Say("One moment.", (SUM,), reasoning="I should calculate.")
    async with OpenAIServer([thought, Say("It is 42."), Say("Yes.")]) as server:
        more = {"model": "gpt-5-pro"}
        bot = TestBot()
        async with running(tmp_path, bot, settings(server, **more), KEYS):
            assert (await bot.says("What is six times seven?")).text == "It is 42."
            for number in (1, 2):
                shown = (await bot.says(f"/context request r{number} json")).data
                assert shown
                assert shown["request"]["is_same"]
        bot = TestBot()
        bot.count = 10
        async with running(tmp_path, bot, settings(server, **more), KEYS):
            assert (await bot.says("Sure?")).text == "Yes."
        kinds = [item.get("type", item.get("role")) for item in server.turns[-1].body["input"]]
    assert kinds == [
        *("system", "user", "reasoning", "assistant", "function_call", "function_call_output"),
        *("assistant", "user"),
    ]


async def test_a_conversation_goes_on_from_one_api_with_the_other(tmp_path: Path) -> None:
    thought = Say("One moment.", (SUM,), reasoning="I should calculate.")
    script = [thought, Say("It is 42."), Say("Yes."), Say("Of course.")]
    async with OpenAIServer(script) as server:
        bot = TestBot()
        async with running(tmp_path, bot, settings(server, model="gpt-5-pro"), KEYS):
            await bot.says("What is six times seven?")
            await bot.says("/model gpt-5-mini")
            assert (await bot.says("Sure?")).text == "Yes."
            await bot.says("/model gpt-5-pro")
            assert (await bot.says("Really?")).text == "Of course."
    assert ["input" in one.body for one in server.requests] == [True, True, False, True]


# --- thoughts that go back by chat completions ---
