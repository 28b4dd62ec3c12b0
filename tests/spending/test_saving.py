"""Tests of a budget that is nearly spent: a cheaper model answers, with one notice, until there is
money again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from bot.received import key_of
from channels.message import Address
from memory.ledger import Bill
from plugins.spending.accounts import Account
from plugins.spending.saving import MonthSpending, find_nearly_spent, is_cheaper
from tests.fakes.openai_server import Received, Say
from tests.whole.testbot import TestBot, run_bot

DEAR, CHEAP = "gpt-4", "gpt-4o-mini"  # gpt-4 has no cheaper cached tokens
HERE = key_of(Address("pipe", "main"))
SOFT = {"model": DEAR, "spend_soft_model": CHEAP, "spend_soft_limit": 20, "timezone": "UTC"}


def echo(request: Received) -> Say:
    return Say("Yes.")


def last_asked(bot: TestBot) -> str:
    return str(bot.server.turns[-1].body["model"])


async def spend_most(bot: TestBot, setting: str = "spend_limit_chat") -> None:
    """Send a message, and set a limit of which its cost is a quarter."""
    await bot.says("One")
    data = (await bot.says("/usage")).data
    assert data
    cost = data["limits"]["spend_limit_chat"]["bill"]["cost"]
    await bot.says(f"/config {setting} {cost * 4:.9f}")


@pytest.mark.parametrize("setting", ["spend_limit_chat", "spend_limit_total"])
async def test_a_cheaper_model_answers_once_a_limit_is_nearly_reached_and_that_is_said_once(
    tmp_path: Path, setting: str
) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await spend_most(bot, setting)
        told = (await bot.says("Two")).text
        assert last_asked(bot) == CHEAP
        assert "So gpt-4o-mini answers here instead of gpt-4, until the month ends" in told
        assert "cost $0.15 to read and $0.60 to write instead of $30.00 and $60.00" in told
        assert "; reading this conversation again costs $0.00" in told
        again = (await bot.says("Three")).text
        assert "answers here instead" not in again
        assert last_asked(bot) == CHEAP
        shown = (await bot.says("/model")).text
        assert shown.startswith("gpt-4o-mini (")
        assert "instead of gpt-4" in shown


async def test_when_the_limit_is_raised_or_the_month_ends_the_usual_model_is_back(
    tmp_path: Path,
) -> None:
    now = datetime.now(UTC)
    async with run_bot(tmp_path, echo, SOFT) as bot:
        for is_raised in (True, False):
            await spend_most(bot)
            await bot.says("Two")
            assert last_asked(bot) == CHEAP
            if is_raised:
                await bot.says("/config spend_limit_chat 100")
            else:
                bot.app.features.service(MonthSpending)._clock = lambda: (
                    now + timedelta(days=32)
                ).timestamp()
            await bot.says("Three")
            assert last_asked(bot) == DEAR


async def test_a_restart_does_not_say_it_again(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await spend_most(bot)
        assert "instead of" in (await bot.says("Two")).text
    async with run_bot(tmp_path, echo, SOFT) as bot:
        bot.count = 100
        assert (await bot.says("/model")).text.startswith("gpt-4o-mini (")
        assert "instead of" not in (await bot.says("Three")).text
        assert last_asked(bot) == CHEAP


async def test_a_model_that_a_person_chose_for_this_conversation_stays(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await spend_most(bot, "spend_limit_total")
        await bot.says("/model gpt-4-turbo --here")
        assert "instead of" not in (await bot.says("Two")).text
        assert last_asked(bot) == "gpt-4-turbo"
        await bot.says("Two", chat="other")
        assert last_asked(bot) == CHEAP
        told = (await bot.says("/model gpt-4o", chat="other")).text
        assert "instead of gpt-4o" in told, "chosen for everybody, it gives way as well"


async def test_an_agents_own_model_gives_way_where_it_is_dearer_and_stays_where_not(
    tmp_path: Path,
) -> None:
    agents = [
        {"id": "poet", "brain": {"model": "gpt-4-turbo"}},
        {"id": "clerk", "brain": {"model": "gpt-5-nano"}},
    ]
    async with run_bot(tmp_path, echo, {**SOFT, "agents": agents}) as bot:
        await spend_most(bot, "spend_limit_total")
        for agent, asked in (("poet", CHEAP), ("clerk", "gpt-5-nano")):
            await bot.says(f"/agent {agent}", chat=agent)
            await bot.says("Two", chat=agent)
            assert last_asked(bot) == asked


async def test_a_running_turn_keeps_its_model(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await bot.says("One")
        before = bot.app.config.at(HERE)
        data = (await bot.says("/usage")).data
        assert data
        cost = data["limits"]["spend_limit_chat"]["bill"]["cost"]
        await bot.says(f"/config spend_limit_chat {cost * 4:.9f}")
        assert bot.app.config.at(HERE).model is before.model, "until the next turn begins"
        await bot.says("Two")
        assert bot.app.config.at(HERE).model.name == CHEAP


async def test_summaries_are_the_cheaper_models_too_and_those_of_another_brain_stay(
    tmp_path: Path,
) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await spend_most(bot)
        await bot.says("Two")
        assert bot.app.config.summary_model(HERE).name == CHEAP
        own: dict[str, Any] = {"context": {"summary_brain": {"model": "gpt-4-turbo"}}}
    async with run_bot(tmp_path, echo, {**SOFT, **own}) as bot:
        bot.count = 100
        await bot.says("Three")
        assert last_asked(bot) == CHEAP
        assert bot.app.config.summary_model(HERE).name == "gpt-4-turbo"


async def test_a_job_runs_with_the_cheaper_model_too(tmp_path: Path) -> None:
    async with run_bot(tmp_path, echo, SOFT) as bot:
        await spend_most(bot, "spend_limit_total")
        bot.server.requests.clear()
        made = await bot.says("/jobs add every day 8:00 Say hello")
        assert made.data
        await bot.says("/jobs run 1")
        await bot.app.idle()
        assert last_asked(bot) == CHEAP


@pytest.mark.parametrize("name", ["agent:nobody", "agent:spare"])
async def test_a_cheaper_model_that_cannot_be_asked_takes_over_nothing_and_status_says_why(
    tmp_path: Path, name: str
) -> None:
    agents = [{"id": "spare", "brain": {"provider": "groq", "model": "small"}}]
    settings = {**SOFT, "spend_soft_model": name, "agents": agents}
    async with run_bot(tmp_path, echo, settings) as bot:
        await spend_most(bot)
        assert (await bot.says("Two")).text.startswith("Yes.")
        assert last_asked(bot) == DEAR
        assert "`spend_soft_model` could not take over: " in (await bot.says("/status")).text


async def test_the_embedded_model_answers_for_free_where_that_is_named(tmp_path: Path) -> None:
    settings = {**SOFT, "spend_soft_model": "embedded"}
    async with run_bot(tmp_path, echo, settings) as bot:
        await spend_most(bot)
        bot.app.config.spending.begin(HERE)
        assert bot.app.config.at(HERE).model.is_free
        assert bot.app.config.spending.refusal(HERE) == ""


def test_a_limit_is_nearly_reached_from_the_share_on_that_is_set() -> None:
    for cost, limit, is_near in ((7.9, 10, False), (8, 10, True), (12, 10, True), (5, 0, False)):
        account = Account("pipe/main", Bill(cost=cost), limit)
        assert (find_nearly_spent([account], 80) is not None) is is_near
        assert find_nearly_spent([Account("x", Bill(cost=cost), limit, is_lifted=True)], 80) is None


def test_a_model_is_cheaper_as_far_as_is_known_and_nothing_than_what_is_free() -> None:
    def cheaper(one: str, other: str) -> bool:
        return is_cheaper(OpenAIModel(Endpoint(one)), OpenAIModel(Endpoint(other)))

    assert cheaper("gpt-4o-mini", "gpt-4")
    assert not cheaper("gpt-4", "gpt-4o-mini")
    assert not cheaper("gpt-4", "gpt-4")
    assert cheaper("nobody-knows-me", "gpt-4")
    assert cheaper("gpt-4", "nobody-knows-me")
    free, paid = OpenAIModel(Endpoint("a", is_free=True)), OpenAIModel(Endpoint(CHEAP))
    assert is_cheaper(free, paid)
    assert not is_cheaper(paid, free)
