"""Tests of the ends of an answer, in the words of many providers."""

from __future__ import annotations

from typing import get_args

from agent.loop import SHORTFALLS
from agent.models.finish import Finish, read_finish
from tests.tables import each_row

WORDS: dict[Finish, tuple[str, ...]] = {
    "complete": ("stop", "STOP", "end_turn", "stop_sequence", "", " ", "tool_calls"),
    "length": ("length", "LENGTH", "max_tokens", "MAX_TOKENS", "model_length"),
    "filtered": ("content_filter", "sensitive", "SAFETY", "RECITATION"),
    "refused": ("refusal",),
    "interrupted": ("error", "network_error", "insufficient_system_resource", "abort"),
    "unknown": ("of_tomorrow", "7"),
}
OTHERS: dict[Finish, str] = {
    "complete": "FINISH_REASON_STOP FinishReason.STOP eos_reached stopped end_of_turn natural_stop",
    "length": "FinishReason.MAX_TOKENS max_new_tokens length_capped truncated ERROR_LIMIT too_long "
    "token_limit_reached context_length_exceeded budget_exceeded",
    "filtered": "content-filter contentFilter moderation ERROR_TOXIC data_inspection_failed "
    "content_policy_violation blocked flagged",
    "refused": "model_refusal declined",
    "interrupted": "preempted shutdown time_limit USER_CANCEL internal_error overloaded disconnect "
    "MALFORMED_FUNCTION_CALL TOO_MANY_TOOL_CALLS",
}


@each_row("meaning", WORDS)
def test_a_word_has_one_meaning(meaning: Finish) -> None:
    assert {read_finish(word) for word in WORDS[meaning]} == {meaning}


def test_words_of_other_servers_are_known_by_what_they_have_in_common() -> None:
    for meaning, words in OTHERS.items():
        assert {word: read_finish(word) for word in words.split()} == dict.fromkeys(
            words.split(), meaning
        )
    assert read_finish("tool-calls", has_calls=True) == read_finish("toolUse", has_calls=True)


def test_calls_are_waited_for_whatever_word_ends_them_well() -> None:
    words = ("stop", "tool_calls", "tool_use", "function_call", "", "of_tomorrow")
    assert {read_finish(word, has_calls=True) for word in words} == {"tools"}
    assert read_finish("length", has_calls=True) == "length"
    assert read_finish("content_filter", has_calls=True) == "filtered"


def test_each_end_that_is_none_has_a_sentence() -> None:
    assert {*SHORTFALLS} == {*get_args(Finish)} - {"complete", "tools"}
