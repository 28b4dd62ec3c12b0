"""`tools.offer: none`: no tools are offered, the prompt is silent about them, and what was called
before stays in the history in a shape that the provider takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.openai_server import Call, OpenAIServer, Say
from tests.whole.testbot import TestBot, run_bot, running

SUM = Call("calculate", '{"expression": "6 * 7"}')
ABOUT_TOOLS = ("tool", "context_search", "workspace", "files/", "skill")
KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}


def script() -> list[Say]:
    return [Say("One moment.", (SUM,)), Say("It is 42."), Say("Yes."), Say("Of course.")]


def settings(server: Any, kind: str) -> dict[str, Any]:
    config = {"base_url": server.base_url}
    brain: dict[str, Any] = {"provider": "openai", "config": config, "backend": "openai_compat"}
    if kind == "responses":
        brain["backend"] = "openai_responses"
    if kind == "claude":
        brain |= {"provider": "anthropic", "backend": "anthropic"}
    return {"model": "m", "brain": brain}


@pytest.mark.parametrize("kind", ["chat", "responses", "claude"])
async def test_what_was_called_before_is_taken_by_each_protocol(tmp_path: Path, kind: str) -> None:
    fake = AnthropicServer if kind == "claude" else OpenAIServer
    async with fake(script()) as server:
        bot = TestBot()
        async with running(tmp_path, bot, settings(server, kind), KEYS):
            await bot.says("What is six times seven?")
            await bot.says("/config tools.offer none")
            assert (await bot.says("Sure?")).text == "Yes."
            offered = ["tools" in one.body for one in server.requests]
            assert offered == [True, True, False]
            last = server.turns[-1].body
            assert "42" in str(last)
            assert "calculate" in str(last)
            await bot.says("/config tools.offer auto")
            assert (await bot.says("Really?")).text == "Of course."
            assert "tools" in server.turns[-1].body


async def test_the_prompt_says_nothing_of_tools(tmp_path: Path) -> None:
    offered = {"tools": {"offer": "none"}, "context": {"strategy": "slim"}}
    async with run_bot(tmp_path, [Say("Hi.")], offered) as bot:
        await bot.says("Hello")
        body = bot.server.turns[-1].body
        prompt = body["messages"][0]["content"].lower()
        assert "tools" not in body
        assert "tool_choice" not in body
        assert prompt.startswith("you are parley, a helpful assistant")
        assert "<terse>" in prompt, "the strategy still asks for its line"
        assert not [word for word in ABOUT_TOOLS if word in prompt]
        told = (await bot.says("/config tools.offer")).text
        assert "none" in told


async def test_a_call_that_comes_all_the_same_is_not_run(tmp_path: Path) -> None:
    call = Call("write_file", '{"path": "a.txt", "content": "x"}')
    async with run_bot(
        tmp_path, [Say(calls=(call,)), Say("I can't.")], {"tools": {"offer": "none"}}
    ) as bot:
        answer = await bot.says("Write!")
        assert answer.text
        assert not (tmp_path / "data/audiences/pipe-main/files/a.txt").exists()
