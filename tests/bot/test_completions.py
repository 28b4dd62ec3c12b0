"""What is decided about an answer that goes to a client of OpenAI's protocol."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from agent.models.base import (
    BOUNDED,
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelRefused,
    ModelSilent,
    ModelUnreachable,
)
from bot.completions import _RunningRequest, finish_of, is_of_two
from bot.problems import problem_of
from channels.base import KeyHolder
from channels.message import CompletionRequest, Given
from memory.context.emergency import NoRoom
from tests.fakes.openai_server import Hang
from tests.whole.testbot import run_bot


@pytest.mark.parametrize(
    ("streamed", "text", "is_mixed"),
    [
        ("", "", False),
        ("The whole.", "The whole.", False),
        ("Half of itThe whole.", "The whole.", True),
        ("A \ufffd\ufffd.", "A 😀.", False),
        ("A \ufffd.", "A \ufffd.", False),
    ],
)
def test_an_answer_after_the_beginning_of_another_is_seen_to_be_of_two(
    streamed: str, text: str, is_mixed: bool
) -> None:
    assert is_of_two(streamed, text) is is_mixed


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        (BOUNDED, "length"),
        ("eos", "stop"),
        ("", "stop"),
    ],
)
def test_a_finish_reason_is_one_that_the_protocol_knows(reason: str, finish: str) -> None:
    assert finish_of(reason) == finish


def refused(status: int) -> ModelRefused:
    error = ModelRefused("no")
    error.status = status
    return error


def unreachable(status: int) -> ModelUnreachable:
    error = ModelUnreachable("no")
    error.status = status
    return error


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        (ContextOverflow("x"), "too_long"),
        (NoRoom("x"), "too_long"),
        (ModelSilent("x"), "timeout"),
        (unreachable(0), "unavailable"),
        (unreachable(500), "unavailable"),
        (unreachable(429), "busy"),
        (AccountRefused("x"), "upstream"),
        (refused(400), "invalid"),
        (refused(404), "upstream"),
        (refused(0), "upstream"),
        (ModelAnswerBroken("x"), "upstream"),
        (RuntimeError("x"), "failed"),
    ],
)
def test_an_error_is_named_by_what_a_client_can_do_about_it(error: Exception, problem: str) -> None:
    assert problem_of(error) == problem


async def test_a_client_that_leaves_just_as_words_come_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11's `asyncio.wait_for` loses a cancellation that comes with what it waits for."""
    has_left = asyncio.Event()
    reading: list[asyncio.Task[None]] = []
    take = _RunningRequest.delta

    def leave(running: _RunningRequest, text: str) -> None:
        take(running, text)
        if text and not has_left.is_set():
            has_left.set()
            reading[0].cancel()

    monkeypatch.setattr(_RunningRequest, "delta", leave)
    question = Given("user", {"role": "user", "content": "Hi"}, "Hi")
    async with run_bot(tmp_path, [Hang("It was a dark night")]) as bot:
        api = await bot.api()

        async def read() -> None:
            request = CompletionRequest([question], is_streamed=True)
            async with aclosing(api.complete(KeyHolder(), request)) as answer:
                async for _ in answer:
                    pass

        reading.append(asyncio.create_task(read()))
        await asyncio.wait_for(has_left.wait(), 30)
        await asyncio.wait(reading, timeout=30)
        await asyncio.wait_for(bot.server.hung_up.acquire(), 30)
    assert reading[0].cancelled()
