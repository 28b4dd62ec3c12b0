"""The strict stand-in for a model."""

from __future__ import annotations

import asyncio

import pytest

from agent.models.base import ModelReply, ModelRequest, ModelUnreachable, Usage
from memory.messages import ToolCall
from tests.fakes.scripted_model import Fixed, ScriptedModel

HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])
CALL = ToolCall("c1", "look", "{}")


def ignore(_: str) -> None:
    pass


async def test_it_answers_in_order_and_streams_in_pieces() -> None:
    model = ScriptedModel(["Good morning to you.", (CALL,)])
    pieces: list[str] = []
    text = await model.reply(HELLO, pieces.append)
    calls = await model.reply(HELLO, pieces.append)
    await model.close()
    assert text.text == "".join(pieces) == "Good morning to you."
    assert len(pieces) > 1
    assert (calls.tool_calls, calls.finish) == ((CALL,), "tool_calls")
    assert model.requests == [HELLO, HELLO]


async def test_an_unexpected_request_fails_and_is_named() -> None:
    with pytest.raises(AssertionError, match=r"no answer left for: .*Hello"):
        await ScriptedModel([]).reply(HELLO, ignore)


async def test_an_unused_answer_fails_when_it_closes() -> None:
    with pytest.raises(AssertionError, match=r"was not asked for: .*never said"):
        await ScriptedModel(["never said"]).close()


async def test_an_error_in_the_script_is_raised() -> None:
    with pytest.raises(ModelUnreachable, match="No network"):
        await ScriptedModel([ModelUnreachable("No network.")]).reply(HELLO, ignore)


async def test_an_answer_may_be_made_from_the_request() -> None:
    model = ScriptedModel(lambda request: f"{len(request.messages)} message")
    assert [(await model.reply(HELLO, ignore)).text for _ in range(2)] == ["1 message"] * 2
    await model.close()


async def test_an_answer_may_wait_and_be_cancelled() -> None:
    waiting = asyncio.Event()

    async def never(_: ModelRequest) -> Fixed:
        waiting.set()
        await asyncio.Event().wait()
        return "unreachable"

    asking = asyncio.create_task(ScriptedModel([never]).reply(HELLO, ignore))
    await waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_usage_is_estimated_or_what_the_test_says() -> None:
    estimated = await ScriptedModel(["Hi."]).reply(HELLO, ignore)
    cached = Usage(prompt=9000, completion=1, cached=8960)
    counted = await ScriptedModel(["Hi."], usage=lambda _, __: cached).reply(HELLO, ignore)
    own = ModelReply("Hi.", (), "stop", "other", None)
    assert estimated.usage == Usage(prompt=11, completion=1)
    assert counted.usage == cached
    assert await ScriptedModel([own]).reply(HELLO, ignore) == own
