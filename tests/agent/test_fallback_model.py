"""Models that are tried in turn, and waits that only a turn makes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent.models import work_requests
from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.embedded import EmbeddedModel, EmbeddedServer
from agent.models.endpoint import Endpoint
from agent.models.fallback import LONGEST_REST, Cooldowns, FallbackModel, seconds_of_rest
from agent.models.openai import OpenAIModel
from agent.models.served import EndpointModel
from agent.models.wire import LONGEST_WAIT
from agent.summarizer import ModelSummarizer
from memory.context.summary import SummaryRequest
from memory.keys import ConversationKey
from tests.agent.endpoints import CHAT, ask
from tests.fakes.openai_server import Answer, Fail, Hang, OpenAIServer, Say
from tests.fakes.scripted_model import Fixed, ScriptedModel
from tests.fakes.work_models import OneModel

TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}], [TOOL], tool_choice="none")
Told = list[tuple[str, ModelError]]
DOWN = ModelUnreachable("Down.")


def ignore(_: str) -> None:
    pass


def fallback(*models: ScriptedModel) -> tuple[FallbackModel, Told]:
    """The models as a list, and the arguments of its callback."""
    told: Told = []
    return FallbackModel(models, lambda name, error: told.append((name, error))), told


async def test_the_first_model_answers_while_it_can() -> None:
    model, told = fallback(ScriptedModel(["One."], name="one"), ScriptedModel([], name="two"))
    assert (await model.reply(HELLO, ignore)).text == "One."
    await model.close()
    assert told == []


async def test_the_next_model_answers_and_it_is_said() -> None:
    for error in (ModelUnreachable("Down."), ModelRefused("No key."), ModelAnswerBroken("Half.")):
        model, told = fallback(
            ScriptedModel([error], name="one"),
            ScriptedModel([ModelUnreachable("Down too.")], name="two"),
            ScriptedModel(["Three."], name="three"),
        )
        assert (await model.reply(HELLO, ignore)).model == "three"
        await model.close()
        assert told == [("three", error)]


async def test_an_overflow_is_raised_at_once_and_says_whose_it_is() -> None:
    for before in ([], [ScriptedModel([DOWN], name="one")]):
        model, _ = fallback(*before, ScriptedModel([ContextOverflow("Too long.", 9)]))
        with pytest.raises(ContextOverflow) as caught:
            await model.reply(HELLO, ignore)
        assert caught.value.is_of_fallback is bool(before)
        await model.close()


async def test_the_first_models_error_stands_when_all_fail() -> None:
    model, told = fallback(
        ScriptedModel([ModelRefused("No key.")]), ScriptedModel([ModelUnreachable("Down.")])
    )
    with pytest.raises(ModelRefused, match="No key"):
        await model.reply(HELLO, ignore)
    await model.close()
    assert told == []


async def test_cancelling_asks_no_other_model() -> None:
    waiting = asyncio.Event()

    async def never(_: ModelRequest) -> Fixed:
        waiting.set()
        await asyncio.Event().wait()
        return "unreachable"

    model, _ = fallback(ScriptedModel([never]), ScriptedModel([]))
    asking = asyncio.create_task(model.reply(HELLO, ignore))
    await waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await model.close()


async def test_a_model_that_takes_no_tools_is_asked_without_them() -> None:
    small = ScriptedModel(["Hi."], takes_tools=False)
    model, _ = fallback(ScriptedModel([ModelUnreachable("Down.")]), small)
    await model.reply(HELLO, ignore)
    (asked,) = small.requests
    assert (asked.messages, asked.tools, asked.tool_choice) == (HELLO.messages, (), "auto")


def test_it_looks_like_its_first_model_and_is_free_only_if_all_are() -> None:
    model, _ = fallback(
        ScriptedModel([], name="one", window=1000), ScriptedModel([], name="two", takes_tools=False)
    )
    assert (model.name, model.window, model.takes_tools) == ("one", 1000, True)
    free, paid = EmbeddedModel(EmbeddedServer()), ScriptedModel([])
    assert FallbackModel([free, free], lambda *_: None).is_free
    assert not FallbackModel([free, paid], lambda *_: None).is_free


# --- a model that failed is left in peace ---


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_model_that_failed_is_not_asked_until_it_has_rested() -> None:
    clock = Clock()
    first = ScriptedModel([DOWN, "One again."], name="one")
    second = ScriptedModel(["Two.", "Two again."], name="two")
    rests = Cooldowns(clock)
    model = FallbackModel([first, second], lambda *_: None, rests)
    assert (await model.reply(HELLO, ignore)).text == "Two."
    clock.now = 29.0
    assert (await model.reply(HELLO, ignore)).text == "Two again."
    rest = rests.of(first)
    assert rest
    assert (rest.why, rests.seconds_left(rest)) == ("Down.", 1.0)
    clock.now = 30.0
    assert (await model.reply(HELLO, ignore)).text == "One again."
    assert rests.of(first) is None
    await model.close()


async def test_each_failure_in_a_row_means_a_longer_rest_and_an_answer_ends_the_row() -> None:
    clock = Clock()
    first = ScriptedModel([DOWN, DOWN, "One.", DOWN], name="one")
    second = ScriptedModel(["Two."] * 3, name="two")
    rests = Cooldowns(clock)
    model = FallbackModel([first, second], lambda *_: None, rests)
    slept = []
    for _ in range(4):
        await model.reply(HELLO, ignore)
        rest = rests.of(first)
        slept.append(rests.seconds_left(rest) if rest else 0)
        clock.now += slept[-1]
    await model.close()
    assert slept == [30, 60, 0, 30]


async def test_where_all_rest_all_are_asked() -> None:
    clock = Clock()
    first = ScriptedModel([DOWN, "One."], name="one")
    second = ScriptedModel([ModelUnreachable("Down too.")], name="two")
    model = FallbackModel([first, second], lambda *_: None, Cooldowns(clock))
    with pytest.raises(ModelUnreachable, match="Down"):
        await model.reply(HELLO, ignore)
    assert (await model.reply(HELLO, ignore)).text == "One."
    await model.close()


async def test_who_rests_for_one_chain_rests_for_all() -> None:
    rests = Cooldowns(Clock())
    first = ScriptedModel([DOWN], name="one")
    second = ScriptedModel(["Two.", "Two again."], name="two")
    for _ in range(2):
        chain = FallbackModel([first, second], lambda *_: None, rests)
        assert (await chain.reply(HELLO, ignore)).by is second
    await chain.close()


def _refused(kind: type[ModelError], status: int, wait: int = 0) -> ModelError:
    error = kind("No.")
    error.status, error.retry_after = status, wait
    return error


def test_how_long_a_model_rests_is_said_by_its_error() -> None:
    for error, failures, seconds in (
        (DOWN, 1, 30.0),
        (DOWN, 3, 120.0),
        (DOWN, 10**6, LONGEST_REST),
        (_refused(ModelUnreachable, 429, 5), 1, 30.0),
        (_refused(ModelUnreachable, 429, 900), 1, 900.0),
        (_refused(ModelUnreachable, 429, 99_999), 1, 3_600.0),
        (_refused(AccountRefused, 401), 1, LONGEST_REST),
        (_refused(ModelRefused, 404), 1, LONGEST_REST),
        (_refused(ModelRefused, 400), 1, 0.0),
        (ModelAnswerBroken("Half.", "Ha"), 1, 0.0),
        (ContextOverflow("Too long.", 9), 1, 0.0),
    ):
        assert seconds_of_rest(error, failures) == seconds, (error, failures)


async def test_nobody_waits_for_a_model_that_is_busy_where_another_one_answers() -> None:
    busy = Fail(429, {"message": "slow down"}, {"Retry-After": "50"})
    async with OpenAIServer([busy, Say("Two.")]) as server:
        first, second = (OpenAIModel(Endpoint(name, server.base_url)) for name in ("one", "two"))
        rests = Cooldowns(Clock())
        model = FallbackModel([first, second], lambda *_: None, rests)
        assert (await model.reply(HELLO, ignore)).text == "Two."
        rest = rests.of(first)
        assert rest
        assert rests.seconds_left(rest) == 50
        assert [one.body["model"] for one in server.requests] == ["one", "two"]
        await model.close()


async def test_a_server_that_stumbles_is_asked_once_more() -> None:
    oops = Fail(502, "<html>Bad gateway</html>")
    async with OpenAIServer([oops, Say("One."), oops, oops, Say("Two.")]) as server:
        models = [OpenAIModel(Endpoint(name, server.base_url)) for name in ("one", "two")]
        model = FallbackModel(models, lambda *_: None, Cooldowns(Clock()))
        assert [(await model.reply(HELLO, ignore)).text for _ in range(2)] == ["One.", "Two."]
        await model.close()


LATER = Fail(429, {"message": "slow down"}, {"Retry-After": "7200"})
KEY = ConversationKey("pipe/main", "pipe-main")
SUMMARY = SummaryRequest("Sum up.", ("They talked.",), 100, KEY)


@asynccontextmanager
async def asked_for(answer: Answer) -> AsyncIterator[tuple[Any, EndpointModel]]:
    """A server that gives this answer to every request, and a model for it that retries twice."""
    async with CHAT.server(lambda request: answer) as server:
        model = CHAT.at(server.base_url, max_retries=2)
        yield server, model
        await model.close()


def summarizer(model: EndpointModel) -> ModelSummarizer:
    work = OneModel(model)
    return ModelSummarizer(work, work, lambda text, name: len(text))


async def test_a_wait_of_hours_is_not_slept_by_what_no_turn_waits_for() -> None:
    async with asked_for(LATER) as (server, model):
        assert (await summarizer(model).summarize(SUMMARY)).text == ""
        with pytest.raises(ModelUnreachable) as told:
            await ask(model)
        assert (told.value.retry_after, len(server.requests)) == (7_200, 2)


async def test_silence_ends_what_no_turn_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work_requests, "LONGEST_WORK", 0.05)
    async with asked_for(Hang()) as (_, model):
        assert (await summarizer(model).summarize(SUMMARY)).text == ""


def test_a_request_waits_for_less_than_twenty_seconds_by_itself() -> None:
    assert 2 * LONGEST_WAIT <= 20
