"""How an answer ended, in the words of many providers."""

from __future__ import annotations

from typing import get_args

import pytest

from agent.loop import SHORTFALLS
from agent.models.finish import Finish, read_finish

WORDS: dict[Finish, tuple[str, ...]] = {
    "complete": ("stop", "STOP", "end_turn", "stop_sequence", "", " ", "tool_calls"),
    "length": ("length", "LENGTH", "max_tokens", "MAX_TOKENS", "model_length"),
    "filtered": ("content_filter", "sensitive", "SAFETY", "RECITATION"),
    "refused": ("refusal",),
    "interrupted": ("error", "network_error", "insufficient_system_resource", "abort"),
    "unknown": ("of_tomorrow", "7"),
}


@pytest.mark.parametrize("meaning", WORDS)
def test_a_word_has_one_meaning(meaning: Finish) -> None:
    assert {read_finish(word) for word in WORDS[meaning]} == {meaning}


def test_calls_are_waited_for_whatever_word_ends_them_well() -> None:
    words = ("stop", "tool_calls", "tool_use", "function_call", "", "of_tomorrow")
    assert {read_finish(word, has_calls=True) for word in words} == {"tools"}
    assert read_finish("length", has_calls=True) == "length"
    assert read_finish("content_filter", has_calls=True) == "filtered"


def test_each_end_that_is_none_has_a_sentence() -> None:
    assert {*SHORTFALLS} == {*get_args(Finish)} - {"complete", "tools"}
