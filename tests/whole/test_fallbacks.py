"""Fallback models in a running bot: cooldowns, costs, and what is learned about each model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.models.base import Usage
from agent.models.catalogue import cost_of
from bot.received import key_of
from channels.message import Address
from plugins.spending import record as ledger
from tests.fakes.openai_server import Answer, Fail, OpenAIServer, Received, Say, openai_overflow
from tests.whole.testbot import TestBot, run_bot

HERE = key_of(Address("pipe", "main"))
OVERLOADED = Fail(500, {"message": "oops"}, {"Retry-After-Ms": "1"})
SPARE = {"MISTRAL_API_KEY": "mistral-key"}


class Flaky:
    """An endpoint whose model `first` fails while it is down."""

    is_down = True

    def __call__(self, request: Received) -> Answer:
        if request.body["model"] == "first" and self.is_down:
            return OVERLOADED
        return Say(f"This is {request.body['model']}.")


def models_asked(server: OpenAIServer) -> list[str]:
    return list(dict.fromkeys(one.body["model"] for one in server.requests))


def in_an_hour(bot: TestBot) -> None:
    """Let every cooldown end."""
    rests = bot.app.config.models._rests
    clock = rests._clock
    rests._clock = lambda: clock() + 3_601


async def test_a_model_that_failed_rests_and_status_says_why_and_until_when(tmp_path: Path) -> None:
    script = Flaky()
    settings = {"model": "first", "fallback_models": ["second"]}
    async with run_bot(tmp_path, script, settings) as bot:
        assert (await bot.says("Anyone?")).text == "This is second."
        bot.server.requests.clear()
        assert (await bot.says("And now?")).text == "This is second."
        assert models_asked(bot.server) == ["second"], "the first is left in peace"
        status = await bot.says("/status")
        assert "first is not asked until " in status.text
        assert "since it failed: " in status.text
        assert "failed with error 500" in status.text
        assert "second answers instead now." in status.text
        assert status.data
        assert [one["name"] for one in status.data["resting"]] == ["first"]
        assert "resting" in ((await bot.says("/model")).data or {})
        script.is_down = False
        in_an_hour(bot)
        assert (await bot.says("Better?")).text == "This is first."
        assert "is not asked until" not in (await bot.says("/status")).text


def with_spare(server: OpenAIServer, **more: Any) -> dict[str, Any]:
    brain = {"provider": "mistral", "model": "mistral-small-latest"}
    spare = {"id": "spare", "brain": {**brain, "config": {"base_url": server.base_url}}}
    return {"model": "first", "fallback_models": ["agent:spare"], "agents": [spare], **more}


async def test_the_model_of_an_agent_stands_in_at_its_own_place_and_price(tmp_path: Path) -> None:
    async with OpenAIServer(lambda _: Say("Spare here."), key="mistral-key") as mistral:
        async with run_bot(tmp_path, Flaky(), with_spare(mistral), SPARE) as bot:
            assert (await bot.says("Anyone?")).text == "Spare here."
            ((_, _, bill),) = await bot.app.store.read(ledger.bills_by_model)
            ratios = bot.app.conversations.models.ratios
            listed = (await bot.says("/model list")).data or {}
            assert [one["name"] for one in listed["models"]] == ["first", "fake-model"]
        assert mistral.turns[-1].body["model"] == "mistral-small-latest"
    used = Usage(bill.prompt, bill.completion, bill.cached)
    assert bill.cost == cost_of("mistral-small-latest", used, "mistral")
    assert bill.cost
    assert ratios == {}, "what one model counts says nothing of another"


async def test_an_agent_has_fallbacks_of_its_own(tmp_path: Path) -> None:
    agents = [{"id": "writer", "brain": {"model": "first", "fallback_models": ["third"]}}]
    settings = {"model": "second", "agents": agents}
    async with run_bot(tmp_path, Flaky(), settings) as bot:
        await bot.says("/agent writer")
        assert (await bot.says("Anyone?")).text == "This is third."
        assert "If it fails: third." in (await bot.says("/model")).text
        await bot.says("/agent default")
        assert (await bot.says("And you?")).text == "This is second."


async def test_an_agent_that_is_none_is_told_where_it_would_stand_in(tmp_path: Path) -> None:
    settings = {"model": "first", "fallback_models": ["agent:nobody"]}
    async with run_bot(tmp_path, Flaky(), settings) as bot:
        told = [(await bot.says("Anyone?")).text for _ in range(2)]
    assert "failed with error 500" in told[0], "the first was wanted"
    assert told[1].startswith("('agent:nobody' is no model: ")


async def test_what_is_too_long_for_a_stand_in_is_cut_for_it_and_nothing_is_learned_of_the_first(
    tmp_path: Path,
) -> None:
    def answer(request: Received) -> Answer:
        tokens = len(request.raw) // 4
        return openai_overflow(tokens, 3_000) if tokens > 3_000 else Say("Spare here.")

    script = Flaky()
    script.is_down = False
    async with OpenAIServer(answer, key="mistral-key") as mistral:
        more = {"context": {"strategy": "full"}, "tools": {"offer": "lean"}}
        async with run_bot(tmp_path, script, with_spare(mistral, **more), SPARE) as bot:
            for number in range(8):
                await bot.says(f"Question {number}. " + "Well, what do you think of it? " * 60)
            before = bot.app.config.at(HERE).limits.window
            script.is_down = True
            assert (await bot.says("And now?")).text.startswith("Spare here.")
            assert bot.app.conversations.models.windows == {}
            assert bot.app.config.at(HERE).limits.window == before


class SmallSpare:
    """The first model is down at first; the second one has a small window."""

    is_down = False

    def __init__(self) -> None:
        self.small = 2_500

    def __call__(self, request: Received) -> Answer:
        if request.is_summary:
            return Say("They talked of questions and their answers.")
        if request.body["model"] == "first":
            return OVERLOADED if self.is_down else Say("First.")
        size = len(str(request.body["messages"])) // 5
        return openai_overflow(size, self.small) if size > self.small else Say("Second.")


def sent_for(bot: TestBot, question: str) -> str:
    """Return the last request for a question; a summary may have been requested since."""
    sent = [str(one.body["messages"]) for one in bot.server.requests]
    return [text for text in sent if question in text[-200:]][-1]


async def test_what_left_for_a_stand_in_comes_back_with_the_first_model(tmp_path: Path) -> None:
    script = SmallSpare()
    settings = {"model": "first", "fallback_models": ["second"]}
    async with run_bot(tmp_path, script, settings) as bot:
        for number in range(6):
            await bot.says(f"question {number} " + "word " * 400)
        script.is_down = True
        said = (await bot.says("Anyone?")).text
        assert said.startswith("Second.")
        assert "too long for the fallback model" in said
        assert "128,000" not in said
        assert "question 0" not in sent_for(bot, "Anyone?")
        script.is_down = False
        in_an_hour(bot)
        assert (await bot.says("And now?")).text == "First."
        assert "question 0" in sent_for(bot, "And now?")
        assert "question 0" not in (await bot.says("/context history")).text


async def test_a_refusal_of_a_short_request_names_no_window_that_had_nothing_to_do_with_it(
    tmp_path: Path,
) -> None:
    def script(request: Received) -> Answer:
        if request.is_summary:
            return Say("They talked.")
        messages = request.body["messages"]
        is_refused = "Anyone?" in str(messages[-1]) and "question 0" in str(messages)
        error = {"message": "This model's maximum context length is exceeded.", "code": LONG}
        return Fail(400, error) if is_refused else Say("Yes.")

    async with run_bot(tmp_path, script, {"model": "first"}) as bot:
        for number in range(4):
            await bot.says(f"question {number} " + "word " * 60)
        said = (await bot.says("Anyone?")).text
    assert said.startswith("Yes.")
    assert "refuses requests as long as this one" in said
    assert "128,000" not in said


LONG = "context_length_exceeded"
