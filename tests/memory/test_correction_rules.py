"""Rules that find corrections, each with values of several kinds: an abbreviated value, a plain
word, a thing repeated with another word, a digit, an apology alone.
"""

from __future__ import annotations

import pytest

from memory.corrections.finder import find_corrections
from tests.tables import each_row


def _pairs(*said: str) -> list[tuple[str, str]]:
    return [(one.old, one.new) for one in find_corrections(said)]


@each_row(
    ("first", "said", "pair"),
    [
        ("The exam is on {0} March at nine.", "{1} March, not on the {0}th", "{} March"),
        ("The exam is on {0} March at nine.", "not on the {0}th, {1} March", "{} March"),
        ("The exam is on {0} March at nine.", "on the {1}th, not the {0}th", "{} March"),
        ("Die Prüfung ist am {0}. Mai.", "nicht am {0}., sondern am {1}.", "{}. Mai"),
        ("Die Prüfung ist am {0}. Mai.", "am {1}., nicht am {0}.", "{}. Mai"),
        ("考试在6月{0}号", "不是{0}号，是{1}号", "6月{}号"),
        ("考试在6月{0}号", "是{1}号，不是{0}号", "6月{}号"),
    ],
)
def test_a_date_may_be_named_by_its_day(first: str, said: str, pair: str) -> None:
    for old, new in (("14", "17"), ("25", "26"), ("10", "18")):
        found = _pairs(first.format(old, new), "Noted.", said.format(old, new))
        assert found == [(pair.format(old), pair.format(new))]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("Das Treffen ist um {} Uhr.", "nicht um {}, um {}"),
        ("The call is at {}pm.", "not at {}, at {}"),
        ("The call is at {}pm.", "sorry, not {}, {}"),
    ],
)
@pytest.mark.parametrize("hours", [("8", "9"), ("3", "5")])
def test_a_time_that_is_named_in_short_is_ended_as_it_was_said(
    first: str, said: str, hours: tuple[str, str]
) -> None:
    old, new = hours
    ((ended, holds),) = _pairs(first.format(old), "Noted.", said.format(old, new))
    assert ended in (f"{old} Uhr", f"{old}pm")
    assert new in holds


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("Bring the {} folder tomorrow.", "no, the {1} one"),
        ("Bring the {} folder tomorrow.", "the {1} folder, not the {0} one"),
        ("Bring the {} folder tomorrow.", "not the {0} one, the {1} one"),
    ],
)
@pytest.mark.parametrize("colours", [("red", "blue"), ("sage green", "mint green")])
def test_one_colour_takes_the_place_of_another(
    first: str, said: str, colours: tuple[str, str]
) -> None:
    assert _pairs(first.format(*colours), "Will do.", said.format(*colours)) == [colours]


@each_row(
    ("first", "said", "pair"),
    [
        ("Nimm den roten Ordner", "nein, den blauen", ("roten", "blauen")),
        ("用红色的文件夹", "不对，是蓝色的", ("红色", "蓝色")),
        ("Order a large pizza", "medium, sorry", ("large", "medium")),
        ("Book an aisle seat", "oops, a window seat", ("aisle", "window")),
        ("An der Ampel links", "Stopp, an der Ampel rechts!", ("links", "rechts")),
        ("Theo is my cousin", "Theo is my nephew, not my cousin", ("cousin", "nephew")),
    ],
)
def test_plain_words_of_a_class_end_each_other(
    first: str, said: str, pair: tuple[str, str]
) -> None:
    assert _pairs(first, "Noted.", said) == [pair]


@each_row(
    "said",
    [
        "sorry, the blue car is mine",
        "wait, my blue pen is empty",
        "Is the blue one nicer?",
        "The blue one costs more",
    ],
)
def test_a_colour_of_another_thing_ends_none(said: str) -> None:
    assert _pairs("Bring the red folder tomorrow.", "Will do.", said) == []


_AGAIN = (
    ("Rehearsal's in the {} every week.", "the rehearsal is in the {}", "church hall", "scout hut"),
    ("Lunch with {} on Tuesday", "lunch is with {}", "Farida", "Fatima"),
    ("Probe im {}, Konzert in der Kirche", "Die Probe ist jetzt im {}", "Pfarrsaal", "Turnhalle"),
    ("Unser Bus hält am {}", "der Bus hält am {}", "Neumarkt", "Altmarkt"),
    ("Das Dampfbügeleisen ist ein {}", "das Bügeleisen ist ein {}", "Rowenta", "Tefal"),
    ("我家猫叫{}", "猫叫{}啦", "团子", "丸子"),
    ("楼上邻居姓{}，对门姓唐", "楼上那位姓{}", "冯", "洪"),
)


@each_row(("first", "said", "old", "new"), _AGAIN)
def test_what_is_said_again_of_a_thing_holds(first: str, said: str, old: str, new: str) -> None:
    assert _pairs(first.format(old), "Noted.", said.format(new)) == [(old, new)]


@each_row(
    ("first", "said"),
    [
        ("The rehearsal is in the church hall.", "Her rehearsal is in the scout hut"),
        ("The rehearsal is in the church hall.", "the rehearsal is also in the scout hut"),
        ("The rehearsal is in the church hall.", "the concert is in the scout hut"),
        ("Die Probe ist im Pfarrsaal.", "Ist die Probe im Gemeindehaus?"),
        ("小王的家乡是北京。", "小李也是同学，他的家乡是上海"),
    ],
)
def test_what_is_said_of_another_thing_ends_nothing(first: str, said: str) -> None:
    assert _pairs(first, "Noted.", said) == []


@pytest.mark.parametrize(
    ("said", "place", "digit"),
    [
        ("the 2nd digit is {}", 1, "7"),
        ("the last digit is a {}", -1, "9"),
        ("die erste Ziffer ist eine {}", 0, "5"),
        ("第二位是{}", 1, "7"),
        ("最后一位是{}", -1, "9"),
    ],
)
@pytest.mark.parametrize("number", ["4821", "306142"])
def test_one_digit_may_be_corrected(said: str, place: int, digit: str, number: str) -> None:
    digits = [*number]
    digits[place] = digit
    found = _pairs(f"My code is {number}", "Noted.", said.format(digit))
    assert found == [(number, "".join(digits))]


@each_row("apology", ["sorry!!", "oops", "Entschuldigung!", "ach Mist", "打错了"])
def test_an_apology_may_come_in_a_message_of_its_own(apology: str) -> None:
    for old, new in (("Tuesday", "Wednesday"), ("9:12", "9:21"), ("5 May", "6 May")):
        assert _pairs(f"The talk is on {old}", "Noted.", apology, new) == [(old, new)]


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("Set the alarm threshold to {} degrees.", "{} is too low, {}"),
        ("Die Schwelle ist {} Grad.", "{} ist zu wenig, lieber {}"),
        ("低温报警阈值设成{}度", "想了想{}度太悬，番茄苗得{}度"),
    ],
)
@pytest.mark.parametrize("values", [("8", "10"), ("35", "45")])
def test_a_value_that_is_found_too_much_or_too_little_is_ended(
    first: str, said: str, values: tuple[str, str]
) -> None:
    ((old, new),) = _pairs(first.format(values[0]), "Noted.", said.format(*values))
    assert old.startswith(values[0])
    assert new.startswith(values[1])


def test_of_several_old_values_that_of_the_same_thing_is_ended() -> None:
    for first, said, pair in (
        (
            "Melken dauert morgens 95 Minuten und abends 80 Minuten",
            "sorry, morgens 70 Minuten",
            ("95", "70"),
        ),
        ("Yoga is Mondays and Wednesdays", "moved from Wednesdays to Fridays", ("Wedn", "Fri")),
        ("Thesis is due on 30 September, poster on 12 August", "nope, 13 September", ("30", "13")),
        ("线上跑的是 v3.2.0，测试环境 v3.3.0", "我记错了，线上是 v3.1.8", ("v3.2.0", "v3.1.8")),
    ):
        ((old, new),) = _pairs(first, "Noted.", said)
        assert old.startswith(pair[0])
        assert new.startswith(pair[1])
