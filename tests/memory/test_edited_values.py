"""Values that a person replaces by editing a text."""

from __future__ import annotations

import itertools

from memory.corrections.edited import find_replaced
from memory.corrections.ended_values import show_corrected
from tests.tables import each_row

VALUES = [
    ("The deposit for the flat is {}.", "700 euros", "750 euros"),
    ("The meeting with the bank is on {}.", "3 May", "4 May"),
    ("The train to Bonn leaves at {}.", "7:45", "8:15"),
    ("The landlord is called {}.", "Mr Harlow", "Mr Harwood"),
    ("The new sofa is {}.", "green", "grey"),
    ("Die Kaution für die Wohnung beträgt {}.", "700 Euro", "750 Euro"),
    ("Der Zug nach Bonn fährt um {}.", "7:45 Uhr", "8:15 Uhr"),
    ("会议在{}举行。", "5月3日", "5月4日"),
]
OTHERS = ["They talked about tea.", "Ann has two cats.", "The weather was fine on Sunday."]


@each_row(("sentence", "old", "new"), VALUES)
def test_a_value_that_an_edit_replaces_is_corrected_wherever_it_was_said(
    sentence: str, old: str, new: str
) -> None:
    said, right = sentence.format(old), sentence.format(new)
    for around in itertools.permutations(OTHERS, 2):
        before, after = ("\n".join((around[0], one, around[1])) for one in (said, right))
        found = find_replaced(before, after)
        assert [(one.old in said, one.new in right) for one in found] == [(True, True)]
        shown = show_corrected(f"{around[1]} {said}", found)
        assert old not in shown
        assert new in shown


@each_row(
    ("before", "after"),
    [
        ("The deposit is 700 euros.", "The deposit is 700 euros. The rent is 900 euros."),
        ("The deposit is 700 euros. The rent is 900 euros.", "The rent is 900 euros."),
        ("The deposit is 700 euros.", "They will pay a deposit of 700 euros in May."),
        ("The deposit is 700 euros.", "Nobody has heard of the dentist since 4 May."),
        ("A costs 10 euros and B 20 euros.", "A costs 20 euros and B 10 euros."),
        ("The deposit is 700 or 720 euros.", "The deposit is 750 euros."),
        ("", "The deposit is 700 euros."),
        ("The deposit is 700 euros" + ", and more" * 100, "A deposit is 750 euros" + ", or" * 300),
        ("\n".join(f"Row {n} has {n} cats." for n in range(99)), "Row 1 has 4 cats."),
    ],
)
def test_an_edit_that_replaces_no_value_corrects_nothing(before: str, after: str) -> None:
    assert find_replaced(before, after) == []


@each_row(("sentence", "old", "new"), VALUES[:3])
def test_a_value_that_stays_in_another_sentence_is_of_another_thing(
    sentence: str, old: str, new: str
) -> None:
    other = f"The flights to Rome have {old}."
    found = find_replaced(f"{sentence.format(old)}\n{other}", f"{sentence.format(new)}\n{other}")
    assert len(found) == 1
    assert show_corrected(other, found) == other
    assert old not in show_corrected(sentence.format(old), found)
