"""Tests of the decisions about an answer for a client of OpenAI's protocol."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    ModelAnswerBroken,
    ModelRefused,
    ModelSilent,
    ModelUnreachable,
)
from bot.completions import _RunningRequest, finish_of, has_mixed_answers
from bot.turn_runner import problem_of
from channels.base import KeyHolder
from channels.message import ClientMessage, CompletionRequest
from memory.context.emergency import RequestTooLong
from tests.fakes.openai_server import Hang
from tests.waiting import PATIENCE
from tests.whole.testbot import run_bot


def test_an_answer_after_the_beginning_of_another_is_seen_to_be_of_two() -> None:
    assert has_mixed_answers("Half of itThe whole.", "The whole.")
    for streamed, text in (
        ("", ""),
        ("The whole.", "The whole."),
        ("A \ufffd\ufffd.", "A 😀."),
        ("A \ufffd.", "A \ufffd."),
    ):
        assert not has_mixed_answers(streamed, text)


def test_a_finish_reason_is_one_that_the_protocol_knows() -> None:
    known = {"complete": "stop", "length": "length", "filtered": "content_filter"}
    others = {"refused": "content_filter", "interrupted": "stop", "unknown": "stop", "": "stop"}
    for reason, finish in (known | others).items():
        assert finish_of(reason) == finish


def with_status(error: ModelRefused | ModelUnreachable, status: int) -> Exception:
    error.status = status
    return error


def test_an_error_is_named_by_what_a_client_can_do_about_it() -> None:
    for error, problem in (
        (ContextOverflow("x"), "too_long"),
        (RequestTooLong("x"), "too_long"),
        (ModelSilent("x"), "timeout"),
        (with_status(ModelUnreachable("no"), 0), "unavailable"),
        (with_status(ModelUnreachable("no"), 500), "unavailable"),
        (with_status(ModelUnreachable("no"), 429), "busy"),
        (AccountRefused("x"), "upstream"),
        (with_status(ModelRefused("no"), 400), "invalid"),
        (with_status(ModelRefused("no"), 404), "upstream"),
        (with_status(ModelRefused("no"), 0), "upstream"),
        (ModelAnswerBroken("x"), "upstream"),
        (RuntimeError("x"), "failed"),
    ):
        assert problem_of(error) == problem, error


async def test_a_client_that_leaves_just_as_words_come_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.11's `asyncio.wait_for` loses a cancellation that arrives together with its
    result."""
    has_left = asyncio.Event()
    reading: list[asyncio.Task[None]] = []
    take = _RunningRequest.delta

    def leave(running: _RunningRequest, text: str) -> None:
        take(running, text)
        if text and not has_left.is_set():
            has_left.set()
            reading[0].cancel()

    monkeypatch.setattr(_RunningRequest, "delta", leave)
    question = ClientMessage("user", {"role": "user", "content": "Hi"}, "Hi")
    async with run_bot(tmp_path, [Hang("It was a dark night")]) as bot:
        api = await bot.api()

        async def read() -> None:
            request = CompletionRequest([question], is_streamed=True)
            async with aclosing(api.complete(KeyHolder(), request)) as answer:
                async for _ in answer:
                    pass

        reading.append(asyncio.create_task(read()))
        await asyncio.wait_for(has_left.wait(), PATIENCE)
        await asyncio.wait(reading, timeout=PATIENCE)
        await asyncio.wait_for(bot.server.hung_up.acquire(), PATIENCE)
    assert reading[0].cancelled()
