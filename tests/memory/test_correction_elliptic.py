"""A message that is little more than a new value ends the old one of the last exchange."""

from __future__ import annotations

import pytest

from memory.corrections.elliptic import find_elliptic
from memory.corrections.finder import find_corrections
from memory.corrections.pairs import ParsedMessage, ValuePair
from tests.tables import each_row


@pytest.mark.parametrize(
    ("told", "reply", "said", "old", "new"),
    [
        ("Mum's birthday is 12 June", "Noted: 12 June.", "13 June. She'd kill me.", "12", "13"),
        ("The vet is Dr Lowe", "Okay, Lowe.", "oops, Osei", "Lowe", "Osei"),
        ("my dog is allergic to nuts", "nuts, saved.", "sorry, cream", "nuts", "cream"),
        ("mein Budget ist 1.500 €", "Notiert.", "verwechselt, 2.000 €", "1.500", "2.000"),
        ("Mein neuer Chef ist Gregor", "Okay, Gregor.", "nein, Martin", "Gregor", "Martin"),
        ("我早上喝豆浆", "好，豆浆。", "不对，红茶", "豆浆", "红茶"),
    ],
)
def test_a_value_alone_ends_the_last_one(
    told: str, reply: str, said: str, old: str, new: str
) -> None:
    (found,) = find_corrections([told, said], [reply])
    assert old in found.old
    assert new in found.new


@each_row(
    "said",
    [
        "13 June?",
        "And 13 June too",
        "Maybe 13 June",
        "My sister's is 13 June",
        "On 13 June I fly to Rome",
    ],
)
def test_another_value_ends_none(said: str) -> None:
    assert _find(said, "Noted: 12 June.") == []


def test_an_answer_ends_none() -> None:
    assert _find("13 June", "12 June. And your dad's birthday?") == []


def _find(said: str, reply: str) -> list[ValuePair]:
    before = [ParsedMessage(reply, is_reply=True), ParsedMessage("Mum's birthday is 12 June")]
    return [*find_elliptic(ParsedMessage(said), before)]
