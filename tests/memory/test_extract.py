"""The summary without a model: sentences of the turns, within a limit, that lose the least."""

from __future__ import annotations

from collections.abc import Sequence

from memory.context.audit import AuditSource
from memory.context.corrected import HeldValues
from memory.context.extract import extract, read_open
from memory.context.requests import Requests
from tests.memory.audit_corpus import CHATS
from tests.memory.audit_turns import turns_of
from tests.tables import each_row

FILLER = "Well, that is how it goes on such a day, and nobody minds it very much."


def count(text: str) -> int:
    return len(text.split()) if text.isascii() else len(text.encode()) // 4


def summarise(lines: Sequence[str], most: int, prior: str = "") -> str:
    turns = turns_of(lines)
    source = AuditSource(
        lines[::2], lines[1::2], turns=turns, prior=prior, known=Requests(tuple(read_open(prior)))
    )
    held = HeldValues(source.current, source.ended)
    return extract(turns, prior, most, count, source.facts, source.requests, held)


@each_row("chat", list(CHATS))
def test_it_never_has_more_tokens_than_it_may(chat: str) -> None:
    for most in (1, 20, 60, 150, 2_000):
        assert count(summarise(CHATS[chat], most)) <= most


def test_what_is_short_is_told_as_it_was_said_each_behind_its_turn() -> None:
    lines = ["How are you?", "Fine.", "And the cat?", "She sleeps."]
    assert summarise(lines, 100).splitlines()[:2] == [
        "- t1: How are you? → Fine.",
        "- t2: And the cat? → She sleeps.",
    ]


def test_sentences_with_facts_are_chosen_from_long_messages() -> None:
    fact = "The booking number is 4711-XZ at the Yeatman in Lisbon."
    lines = [" ".join([FILLER] * 20 + [fact] + [FILLER] * 20), FILLER]
    text = summarise(lines, 60)
    assert fact in text
    assert text.startswith("- t1: ")


def test_a_value_that_was_corrected_is_in_no_sentence() -> None:
    text = summarise(CHATS["trip"], 2_000)
    assert "3 May" not in text
    assert "We fly from Hamburg on 4 May." in text


@each_row("chat", ["trip", "feier", "旅行"])
def test_what_is_open_is_carried_through_ten_summaries(chat: str) -> None:
    wanted = read_open(text := summarise(CHATS[chat], 150))
    assert wanted
    for number in range(10):
        text = summarise([f"Number {number} is nice.", f"{FILLER} Indeed."], 150, text)
    assert read_open(text) == wanted
