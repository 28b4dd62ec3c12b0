"""Models that are asked in turn."""

from __future__ import annotations

import asyncio

import pytest

from agent.models.base import (
    ContextOverflow,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelRequest,
    ModelUnreachable,
)
from agent.models.embedded import EmbeddedModel
from agent.models.selection import FallbackModel
from tests.fakes.scripted_model import Fixed, ScriptedModel

TOOL = {"type": "function", "function": {"name": "look", "parameters": {}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}], [TOOL], tool_choice="none")
Told = list[tuple[str, ModelError]]


def ignore(_: str) -> None:
    pass


def fallback(*models: ScriptedModel) -> tuple[FallbackModel, Told]:
    """The models as a list, and what its callback is told."""
    told: Told = []
    return FallbackModel(models, lambda name, error: told.append((name, error))), told


async def test_the_first_model_answers_while_it_can() -> None:
    model, told = fallback(ScriptedModel(["One."], name="one"), ScriptedModel([], name="two"))
    assert (await model.reply(HELLO, ignore)).text == "One."
    await model.close()
    assert told == []


@pytest.mark.parametrize(
    "error",
    [ModelUnreachable("Down."), ModelRefused("No key."), ModelAnswerBroken("Half.", "Ha")],
)
async def test_the_next_model_answers_and_it_is_said(error: ModelError) -> None:
    model, told = fallback(
        ScriptedModel([error], name="one"),
        ScriptedModel([ModelUnreachable("Down too.")], name="two"),
        ScriptedModel(["Three."], name="three"),
    )
    assert (await model.reply(HELLO, ignore)).model == "three"
    await model.close()
    assert told == [("three", error)]


async def test_an_overflow_is_raised_at_once() -> None:
    model, _ = fallback(ScriptedModel([ContextOverflow("Too long.", 9)]), ScriptedModel([]))
    with pytest.raises(ContextOverflow):
        await model.reply(HELLO, ignore)
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
    assert small.requests == [ModelRequest(HELLO.messages)]


def test_it_looks_like_its_first_model() -> None:
    model, _ = fallback(
        ScriptedModel([], name="one", window=1000), ScriptedModel([], name="two", takes_tools=False)
    )
    assert (model.name, model.window, model.takes_tools) == ("one", 1000, True)


def test_it_is_free_only_if_all_its_models_are() -> None:
    free, paid = EmbeddedModel(), ScriptedModel([])
    assert FallbackModel([free, free], lambda *_: None).is_free
    assert not FallbackModel([free, paid], lambda *_: None).is_free
