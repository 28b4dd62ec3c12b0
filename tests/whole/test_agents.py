"""Agents and brains in a running bot: each uses its own endpoint with its own key."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from agent.models import selection
from agent.models.brain import PROVIDERS, Provider
from bot.received import key_of
from bot.settings.files import read_tree
from channels.message import Address
from memory.context.settings import ContextSettings, Limits
from tests.bot.test_settings_agents import AGENTS_BLOCK
from tests.fakes.openai_server import Answer, OpenAIServer, Received, Say
from tests.whole.testbot import TestBot, run_bot

DEEPSEEK = {"DEEPSEEK_API_KEY": "deep-key-123"}


def answers(text: str) -> Any:
    def answer(request: Received) -> Answer:
        return Say(text)

    return answer


@asynccontextmanager
async def other(text: str, key: str) -> AsyncIterator[OpenAIServer]:
    """A second endpoint, which requires its own key."""
    async with OpenAIServer(answers(text), key=key) as server:
        yield server


def brain(server: OpenAIServer, **more: Any) -> dict[str, Any]:
    config = {"api_key": "{{secret.DEEPSEEK_API_KEY}}", "base_url": server.base_url}
    return {"provider": "deepseek", "model": "deepseek-chat", "config": config, **more}


def limits(bot: TestBot, chat: str) -> Limits:
    return bot.app.config.at(key_of(Address("pipe", chat))).limits


async def test_the_documents_two_agents_live_side_by_side_in_one_bot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agents.yaml"
    path.write_text(AGENTS_BLOCK)
    keys = {**DEEPSEEK, "ANTHROPIC_API_KEY": "ant-key-123"}
    async with other("Deep.", "deep-key-123") as deep, other("Sonnet.", "ant-key-123") as sonnet:
        here = {
            "deepseek": Provider(deep.base_url, "DEEPSEEK_API_KEY"),
            "anthropic": Provider(sonnet.base_url, "ANTHROPIC_API_KEY"),
        }
        monkeypatch.setattr(selection, "PROVIDERS", {**PROVIDERS, **here})
        async with run_bot(tmp_path, answers("Mine."), read_tree(path), keys) as bot:
            await bot.says("/agent explorer", chat="one")
            await bot.says("/agent writer", chat="two")
            one, two, three = limits(bot, "one"), limits(bot, "two"), limits(bot, "three")
            assert (one.window, one.context.keep_recent, one.strategy) == (65536, 15, "truncate")
            assert (two.window, two.context.keep_recent, two.strategy) == (200_000, 8, "summarize")
            assert replace(three, context=ContextSettings()) == Limits(model="gpt-4o-mini")
            heard = [(await bot.says("Hi", chat=chat)).text for chat in ("one", "two", "three")]
    assert heard == ["Deep.", "Sonnet.", "Mine."]
    assert [r.body["model"] for r in (*deep.requests, *sonnet.requests)] == [
        "deepseek-chat",
        "claude-sonnet-4-5",
    ]


async def test_an_agent_is_chosen_for_one_conversation_and_stays_chosen(tmp_path: Path) -> None:
    async with other("Deep.", "deep-key-123") as deep:
        explorer = {
            "id": "explorer",
            "description": "looks things up",
            "system_prompt": "You explore.",
            "brain": brain(deep, temperature=0.2, max_tokens=300),
        }
        settings = {"agents": [explorer]}
        async with run_bot(tmp_path, answers("Mine."), settings, DEEPSEEK) as bot:
            before = await bot.says("/agent")
            assert "| **default** | gpt-4o-mini | 128k | trim |" in before.text
            assert "| explorer | deepseek-chat | 64k | trim | looks things up |" in before.text
            assert [action.command for action in before.actions] == ["/agent explorer"]
            chosen = await bot.says("/agent explorer")
            assert chosen.text == (
                "From the next turn on explorer answers here: deepseek-chat, a window of 64k "
                "tokens, strategy trim."
            )
            assert (await bot.says("Hi")).text == "Deep."
            body = deep.turns[-1].body
            assert (body["temperature"], body["max_tokens"]) == (0.2, 300)
            assert body["messages"][0]["content"].startswith("You explore.")
            assert (await bot.says("Hi", chat="other")).text == "Mine."
            assert "temperature" not in bot.server.turns[-1].body
            assert "(from: agent explorer;" in (await bot.says("/config model")).text
            assert "stays deepseek-chat" in (await bot.says("/config model gpt-4o")).text
            assert deep.base_url in (await bot.says("/model")).text
        async with run_bot(tmp_path, answers("Mine."), settings, DEEPSEEK) as bot:
            assert (await bot.says("Still you?")).text == "Deep.", "the choice is kept"
            assert "default answers here" in (await bot.says("/agent default")).text
            assert (await bot.says("And now?")).text == "Mine."
            assert "(the default)" in (await bot.says("/config agent")).text


async def test_an_agent_that_is_gone_is_told_of_and_the_default_answers(tmp_path: Path) -> None:
    agents = {"agents": [{"id": "writer", "system_prompt": "You write."}]}
    async with run_bot(tmp_path, answers("Yes."), agents) as bot:
        await bot.says("/agent writer")
    async with run_bot(tmp_path, answers("Yes.")) as bot:
        assert (await bot.says("Hi")).text == "Yes."
        assert "You write" not in str(bot.sent_to_model())
        status = (await bot.says("/status")).text
        assert "had chosen the agent 'writer', which is no longer in the configuration" in status
        assert "the default one answers" in (await bot.says("/agent")).text
    async with run_bot(tmp_path, answers("Yes."), agents) as bot:
        await bot.says("Hi again")
        assert "You write" in str(bot.sent_to_model()), "it came back, and is chosen still"


async def test_agents_that_are_none_or_have_no_key_get_a_sentence(tmp_path: Path) -> None:
    keyless = {"id": "a", "brain": {"provider": "groq", "model": "small"}}
    async with run_bot(tmp_path, (), {"agents": [{"id": "writer"}, keyless]}) as bot:
        assert "did you mean 'writer'?" in (await bot.says("/agent writr")).text
        assert "takes one name" in (await bot.says("/agent the writer")).text
        assert "**default** answers here" in (await bot.says("/agent")).text
        await bot.says("/agent a")
        assert "'small' needs a key: put GROQ_API_KEY into" in (await bot.says("Hi")).text


async def test_a_brain_for_summaries_takes_them_with_its_own_endpoint_and_key(
    tmp_path: Path,
) -> None:
    async with other("They counted.", "deep-key-123") as deep:
        context = {"summary_brain": brain(deep, temperature=0.0, max_tokens=64)}
        titles = {"titles": "off"}
        settings = {
            "agent_max_context_turns": 4,
            "context": context,
            "conversations": titles,
        }
        async with run_bot(tmp_path, answers("Mine."), settings, DEEPSEEK) as bot:
            for number in range(6):
                await bot.says(f"Number {number}.")
            await bot.app.conversations.flush()
            await bot.says("How many?")
            preview = str(bot.sent_to_model())
            usage = await bot.says("/usage")
            everything = str([await bot.says(line) for line in ("/config", "/context detail")])
    assert "They counted." in preview
    assert all(request.body["model"] == "gpt-4o-mini" for request in bot.server.requests)
    bodies = [request.body for request in deep.requests]
    assert bodies
    assert all(body["model"] == "deepseek-chat" for body in bodies)
    assert all((body["temperature"], body["max_tokens"]) == (0.0, 64) for body in bodies)
    assert usage.data is not None
    by_model = usage.data["this month by model"]
    assert set(by_model) == {"gpt-4o-mini, answer", "deepseek-chat, summary"}
    assert by_model["deepseek-chat, summary"]["cost"] > 0
    assert "deep-key-123" not in everything


async def test_a_brain_for_summaries_that_fails_leaves_a_plain_extract(tmp_path: Path) -> None:
    async with other("Never heard.", "another-key") as deep:
        settings = {"agent_max_context_turns": 4, "context": {"summary_brain": brain(deep)}}
        async with run_bot(tmp_path, answers("Mine."), settings, DEEPSEEK) as bot:
            for number in range(6):
                assert (await bot.says(f"Number {number}.")).text == "Mine."
            await bot.app.conversations.flush()
            memory = (await bot.says("/memory")).text
    assert "- t1: Number 0. → Mine." in memory
    assert len(bot.server.requests) == 6, "the model that answers is not asked instead"


async def test_a_spending_limit_stops_the_summaries_of_a_brain_that_costs_something(
    tmp_path: Path,
) -> None:
    async with other("They talked.", "deep-key-123") as deep:
        costly, free = brain(deep), brain(deep, provider="ollama")
        own = {"provider": "ollama", "model": "m", "context": {"summary_brain": costly}}
        settings = {
            "agents": [{"id": "free", "brain": own}],
            "context": {"summary_brain": free},
            "conversations": {"titles": "off"},
        }
        async with run_bot(tmp_path, answers("Yes."), settings, DEEPSEEK) as bot:
            for chat in ("one", "two"):
                await bot.says("Remember this.", chat=chat)
            await bot.says("/config spend_limit_chat 0.0000001")
            await bot.says("/agent free", chat="two")
            for chat in ("one", "two"):
                await bot.says("/new", chat=chat)
            await bot.app.conversations.flush()
            memories = [(await bot.says("/memory", chat=chat)).text for chat in ("one", "two")]
    assert "They talked." in memories[0], "this one is free"
    assert "- t1: Remember this. → Yes." in memories[1], "that one is not asked"
    assert len(deep.requests) == 1


async def test_the_window_of_a_brain_for_summaries_is_its_own(tmp_path: Path) -> None:
    brains: tuple[tuple[dict[str, Any], int], ...] = (
        ({"model": "deepseek/deepseek-chat"}, 64_000),
        ({"model": "nobody-knows-me"}, 128_000),
        ({"model": "deepseek-chat", "context": {"max_tokens": 9000}}, 9000),
        ({}, 7000),
    )
    for brain, window in brains:
        settings = {"context": {"max_tokens": 7000, "summary_brain": brain}}
        async with run_bot(tmp_path, (), settings) as bot:
            assert bot.app.config.summary_window(key_of(Address("pipe", "main"))) == window


async def test_the_models_that_may_answer_are_listed_with_their_windows_and_prices(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, ()) as bot:
        told = await bot.says("/model list")
        assert "| **gpt-4o-mini** | 128k | $0.15 / $0.60 |" in told.text
        assert "| fake-model | unknown | |" in re.sub(" +", " ", told.text)
        assert told.data
        assert told.data["model"] == "gpt-4o-mini"
        assert [one["name"] for one in told.data["models"]] == ["gpt-4o-mini", "fake-model"]
        assert told.data["may_set"] == {"everywhere": True, "here": True}


@pytest.mark.usefixtures("processes")
async def test_the_small_model_is_listed_with_its_window(tmp_path: Path) -> None:
    async with run_bot(tmp_path, (), {"model": "embedded"}) as bot:
        told = await bot.says("/model list")
    assert "demo model (135M)** | 2k |" in told.text


async def test_where_no_models_can_be_listed_that_is_said(tmp_path: Path) -> None:
    nowhere = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "k"}
    async with run_bot(tmp_path, (), {}, nowhere) as bot:
        told = await bot.says("/model list")
    assert "| **gpt-4o-mini** | 128k | $0.15 / $0.60 |" in told.text
    assert "\n\nOthers can't be listed now: Can't connect to http://127.0.0.1:9/v1;" in told.text
    assert told.data
    assert told.data["problem"].startswith("Can't connect to")


async def test_a_list_is_asked_for_once_in_a_while_or_again_if_it_could_not_be_had(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, ()) as bot:
        await asyncio.gather(*(bot.says("/model list", chat=chat) for chat in ("a", "b", "c")))
        assert bot.server.listings == 1, "and by one at a time"
    async with run_bot(tmp_path, (), models=None) as bot:
        for _ in range(2):
            assert "can't be listed now" in (await bot.says("/model list")).text
        assert bot.server.listings == 2
