"""A message that names only the new value replaces the most similar old one."""

from __future__ import annotations

from itertools import product

import pytest

from memory.corrections import bare as correction_bare
from memory.corrections.bare import BareValue, find_bare, measure
from memory.corrections.finder import find_corrections, in_force
from memory.corrections.pairs import BACK, ParsedMessage
from memory.text.values import Value, find_values
from tests.tables import each_row

_CUES = (
    "oops, {}",
    "typo: {}",
    "no sorry, {}",
    "scratch that, {}",
    "make that {}",
    "wait, it's {}",
    "Vertippt: {}.",
    "quatsch, {}",
    "ach ne, {}",
    "sorry, {}",
    "打错了，{}",
    "不对，是{}",
    "应该是{}吧",
    "Typo. It's {}",
)
_VALUES = (
    ("Dinner is on June {}.", "16", "17", "June 17"),
    ("Die Feier ist am {}. Juni.", "16", "17", "17. Juni"),
    ("Die Feier ist am {}.6. bei uns.", "16", "17", "17.6."),
    ("聚会在6月{}号", "16", "17", "6月17号"),
    ("Call me at {}pm.", "4", "5", "5pm"),
    ("Wir sehen uns um {}:00 Uhr.", "14", "15", "15:00 Uhr"),
    ("The ticket is {} euros.", "54", "45", "45 euros"),
    ("It's ${} each.", "35", "53", "$53"),
    ("他是{}年出生的", "1974", "1947", "1947年"),
    ("Our flat is at {} Merchant Street.", "38", "83", "83"),
    ("Wir wohnen in der Gartenstraße {}", "38", "83", "83"),
    ("The gate is A{}.", "17", "19", "A19"),
    ("我每天吃{}毫克", "20", "40", "40"),
)


def _pairs(*said: str) -> list[tuple[str, str]]:
    return [(one.old, one.new) for one in find_corrections(said)]


@each_row(("cue", "back"), product(_CUES, [0, 2]))
def test_a_bare_number_takes_the_kind_and_unit_of_the_value_that_it_ends(
    cue: str, back: int
) -> None:
    talk = ["Thanks! Do cats like milk?", "Some do."][:back]
    missed = []
    for text, old, new, whole in _VALUES:
        found = _pairs(text.format(old), *talk, cue.format(new))
        if [one[1] for one in found] != [whole] or old not in found[0][0]:
            missed.append((text, found))
    assert missed == []


@each_row(
    ("said", "number", "new"),
    [
        ("typo, it ends in {}", "07700 900143", "134"),
        ("sorry, hinten {}", "0176 4455 901", "910"),
        ("打错了，尾号是{}", "13800901434", "443"),
    ],
)
def test_the_end_of_a_long_number_may_be_named_alone(said: str, number: str, new: str) -> None:
    whole = number[: -len(new)] + new
    assert _pairs(f"My number is {number}", said.format(new)) == [(number, whole)]


@each_row(
    ("first", "said", "new"),
    [
        ("add 3 onions and 4 eggs", "better make it 5 onions", ("3", "5")),
        ("setz 3 Zwiebeln und 4 Eier auf die Liste", "mach lieber 5 Eier draus", ("4", "5")),
        ("I'm at 5 Alder Close, flat 3", "sry, flat 8", ("3", "8")),
        ("清单加3个洋葱，4个鸡蛋", "洋葱改5个", ("3", "5")),
        ("The flight is LH 2034", "hmm no, LH 2043", ("2034", "2043")),
    ],
)
def test_words_beside_the_new_value_choose_the_old_one(
    first: str, said: str, new: tuple[str, str]
) -> None:
    assert _pairs(first, said) == [new]


@each_row(
    ("old", "said", "new"),
    [
        ("My boss is called Aidan", "oh and it's spelled Aiden", "Aiden"),
        ("Sie heißt Marlene Hoffer", "mit einem f: Marlene Hofer", "Marlene Hofer"),
        ("我老板叫李伟", "对了是李玮，打错字", "李玮"),
    ],
)
def test_a_name_is_ended_by_one_of_which_the_spelling_is_told(
    old: str, said: str, new: str
) -> None:
    assert [one[1] for one in _pairs(old, "ok", said)] == [new]


def test_a_value_that_is_corrected_twice_by_bare_numbers_is_whole() -> None:
    for first, cues, new in (
        ("Dinner is on June 16.", ("oops, 17", "no, 18"), "June 18"),
        ("Der Tisch ist um 14:00 Uhr.", ("nee, 15", "quatsch, 16"), "16:00 Uhr"),
        ("聚会在6月16号", ("打错了，17", "不对，18"), "6月18号"),
    ):
        held = in_force(find_corrections([first, *cues]))
        assert {one.new for one in held} == {new}


@each_row(
    "said",
    [
        "and {} chairs",
        "also at {}",
        "{} more to go, sorry",
        "sorry for the {} questions",
        "wait, how many days is that until the {}th?",
        "my brother has {}",
        "no {} is not it",
        "if it was {}, then no",
        "noch {}, sorry",
        "dazu {} Stühle",
        "nicht {}, das weiß ich",
        "waren nur {} falsch, ich werd nice",
        "hab ne {} in Mathe!!",
        "再加{}个",
        "错了{}个，菜",
        "两天就是{}",
        "抱歉问这么多，还有{}个问题",
        '"no, {}" is what he said',
    ],
)
def test_what_adds_asks_counts_or_speaks_of_another_thing_is_no_bare_correction(said: str) -> None:
    heard = ParsedMessage(said.format(14))
    for first in ("We are 12.", "Dinner is on June 12.", "Wir sind 12.", "一共12个"):
        assert [*find_bare(heard, [ParsedMessage("ok"), ParsedMessage(first)])] == [], first


@each_row("cue", ["sorry, {}", "ach, {}", "抱歉，{}"])
def test_an_answer_to_a_question_is_no_correction(cue: str) -> None:
    said = ParsedMessage(cue.format(14))
    assert [*find_bare(said, [ParsedMessage("How many?"), ParsedMessage("Room 12.")])] == []
    assert [*find_bare(said, [ParsedMessage("For 12 or 14?")])] == []


def test_of_values_that_are_equally_like_the_new_one_none_ends() -> None:
    for first in ("A table for 6 at 8:00", "We have 12 chairs and 15 stools", "room 41 or 17"):
        assert [*find_bare(ParsedMessage("sorry, 14"), [ParsedMessage(first)])] == []


def test_a_number_of_another_size_is_another_thing() -> None:
    for old, new in product(("900", "1974", "13800901434"), ("3", "17", "45")):
        assert _pairs(f"It is {old}.", f"sorry, {new}") == []


@each_row(
    ("text", "kind"),
    [
        ("We run Python 3.12.", "number"),
        ("It costs 3.12. Fine.", "number"),
        ("Wir nutzen Version 3.11.", "number"),
        ("Treffen am 3.12.", "date"),
        ("Vom 3.12. bis 5.12.", "date"),
        ("Lieferung 3.12. wie immer", "date"),
        ("3.12.", "date"),
        ("Es war der 3.12.2024.", "date"),
    ],
)
def test_a_number_at_the_end_of_a_sentence_is_a_date_behind_a_word_of_dates(
    text: str, kind: str
) -> None:
    assert {one.kind for one in find_values(text)} - {"name"} == {kind}


_HOSTILE = ("no, " * 75, "typo " * 60, "*" * 300, "不对" * 150, "sorry 1 " * 37, "the a an " * 33)


@pytest.mark.parametrize("said", _HOSTILE)
def test_a_hostile_message_has_few_values_looked_at(
    said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def note(one: BareValue, old: Value) -> int | None:
        looks.append(old)
        return measure(one, old)

    monkeypatch.setattr(correction_bare, "measure", note)
    before = [ParsedMessage("12 13 14 15 16 17 18 " * 500)] * BACK
    assert [*find_bare(ParsedMessage(f"{said[:280]} 19"), before)] == []
    assert len(looks) <= 60
