"""What is decided about an answer that goes to a client of OpenAI's protocol."""

from __future__ import annotations

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
from bot.completions import finish_of, is_of_two
from bot.problems import problem_of
from memory.context.emergency import NoRoom


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
