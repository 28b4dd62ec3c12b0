"""Kinds of corrections, and of sentences that only look like one, each with values of several
kinds: a slip repaired at once, a change without the old value, a fact denied, an unreal condition,
the belief or the thing of another person, and values told side by side."""

from __future__ import annotations

from itertools import permutations

import pytest

from memory.corrections.finder import CorrectionFinder, find_corrections
from memory.corrections.sentences import content_words
from memory.text.values import find_values
from tests.tables import each_row

_VALUES = {
    "en": ("9:15", "10:30", "14:45"),
    "de": ("9 Uhr", "10 Uhr", "14 Uhr"),
    "zh": ("9点", "10点", "14点"),
}


def _pairs(*said: str) -> list[tuple[str, str]]:
    return [(one.old, one.new) for one in find_corrections(said)]


def _numbers(text: str) -> list[str]:
    return [value.text for value in find_values(text) if value.kind == "number"]


@each_row(
    "text",
    [
        "not {}, but {}",
        "rather {} than {}",
        "{} or {}",
        "from {} to {}",
        "let's do {} nights rather than {}",
    ],
)
def test_number_words_beside_other_words_are_values(text: str) -> None:
    for one, other in permutations(("three", "seven", "twelve", "twenty-two", "forty"), 2):
        assert _numbers(text.format(one, other)) == [one, other]


@each_row(
    ("language", "said"),
    [
        ("en", "The call is at {}, no, sorry, at {} on Thursday"),
        ("en", "The call is at {} - I mean {}"),
        ("en", "The call is at {}, or rather at {}"),
        ("de", "Der Anruf ist um {}, ach nein, um {} am Donnerstag"),
        ("de", "Der Anruf ist um {} – Quatsch, {}"),
        ("zh", "电话在{}，哦不，{}"),
        ("zh", "电话在{}，说错了，{}"),
    ],
)
def test_a_slip_that_the_speaker_repairs_at_once_is_ended(language: str, said: str) -> None:
    for old, new in permutations(_VALUES[language], 2):
        assert _pairs(said.format(old, new)) == [(old, new)]


@each_row(
    ("first", "said"),
    [
        ("I take {} mg of it every morning.", "My doctor has lowered the dose to {} mg"),
        ("Ich nehme morgens {} mg.", "Die Ärztin hat die Dosis auf {} mg gesenkt"),
        ("我每天早上吃{}毫克。", "医生把药量减到{}毫克了"),
        ("We are {} people for dinner on Saturday.", "Two cancelled, so we're {}"),
        ("Am Samstag sind wir {} Leute.", "Lena hat abgesagt, also sind wir nur noch {}"),
        ("周六一共{}个人。", "小陈不来了，只剩{}个人"),
    ],
)
def test_a_change_ends_the_value_of_the_same_thing(first: str, said: str) -> None:
    for old, new in permutations(("12", "15", "18"), 2):
        ((ended, holds),) = _pairs(first.format(old), "Noted.", said.format(new))
        assert old in ended
        assert new in holds


@each_row(
    ("first", "said"),
    [
        ("I take {} mg of it every morning.", "The car park was raised to {} euros"),
        ("We are {} people for dinner.", "So the hall has {} chairs"),
        ("Der Weg ist {} km lang.", "Die Miete wurde auf {} Euro erhöht"),
        ("我跑了{}公里。", "房租涨到{}元"),
    ],
)
def test_a_change_of_another_thing_ends_nothing(first: str, said: str) -> None:
    for old, new in permutations(("12", "15", "18"), 2):
        assert _pairs(first.format(old), "Noted.", said.format(new)) == []


@each_row(
    ("first", "said"),
    [
        ("{} is the code.", "Forget {}. We were given {}."),
        ("Our stand is {}.", "It's not {}. It's {}."),
        ("Unser Stand ist {}.", "Vergiss {}. Wir haben {}."),
        ("Unser Stand ist {}.", "Es ist nicht {}. Es ist {}."),
    ],
)
def test_the_old_value_may_be_ended_in_the_sentence_before(first: str, said: str) -> None:
    for old, new in permutations(("C12", "D04", "B17"), 2):
        assert _pairs(first.format(old), "Noted.", said.format(old, new)) == [(old, new)]


@each_row(
    ("first", "said", "pair"),
    [
        ("I'm a smoker.", "I'm no longer a smoker", ("smoker", "no longer a smoker")),
        ("I'm hungry.", "I'm not hungry any more", ("hungry", "not hungry any more")),
        (
            "Ich bin Raucherin.",
            "Ich bin keine Raucherin mehr",
            ("Raucherin", "keine Raucherin mehr"),
        ),
        (
            "Der Weg ist gesperrt.",
            "Der Weg ist nicht mehr gesperrt",
            ("gesperrt", "nicht mehr gesperrt"),
        ),
        ("我吃素。", "我现在不吃素了", ("吃素", "不吃素了")),
    ],
)
def test_a_fact_may_be_denied_without_a_new_one(
    first: str, said: str, pair: tuple[str, str]
) -> None:
    assert _pairs(first, "Noted.", said) == [pair]


@each_row(
    ("first", "said"),
    [
        ("My sister is a smoker.", "I'm no longer a smoker"),
        ("The shop is closed.", "The pool is no longer closed"),
        ("Der Weg ist gesperrt.", "Die Halle ist nicht mehr gesperrt"),
        ("小王抽烟。", "我不抽烟了"),
        ("I'm hungry.", "If I'm not hungry any more, I'll stop"),
    ],
)
def test_a_fact_of_another_is_not_ended(first: str, said: str) -> None:
    assert _pairs(first, "Noted.", said) == []


@each_row(
    ("first", "said"),
    [
        ("I live in {}.", "We've moved and live in {} now"),
        ("Ich wohne in {} mit zwei Kindern.", "Wir sind umgezogen und wohnen jetzt in {}"),
    ],
)
def test_a_speaker_says_again_of_himself(first: str, said: str) -> None:
    for old, new in permutations(("Bremen", "York", "Ghent"), 2):
        assert _pairs(first.format(old), "Noted.", said.format(new)) == [(old, new)]
        other = first.replace("I live", "Anna lives").replace("Ich wohne", "Anna wohnt")
        assert _pairs(other.format(old), "Noted.", said.format(new)) == []


@pytest.mark.parametrize("is_reply", [True, False])
def test_a_reply_may_be_corrected_by_its_contrary_alone(is_reply: bool) -> None:
    """A person's own sentence before may be about another thing."""
    for told, said in (
        ("Your cat is called Mimi.", "She's called Kiki."),
        ("Deine Katze heißt Mimi.", "Sie heißt Kiki."),
    ):
        finder = CorrectionFinder()
        (finder.note if is_reply else finder.find_in)(told)
        found = [(one.old, one.new) for one in finder.find_in(said)]
        assert found == ([("Mimi", "Kiki")] if is_reply else [])


@each_row(
    "said",
    [
        "If the {1} train were the {0} one, I could sleep longer",
        "What if it starts at {1} and not at {0}?",
        "I wish it were at {1} and not at {0}",
        "Wenn es um {1} statt um {0} wäre, ginge es",
        "Ich wünschte, es wäre um {1} und nicht um {0}",
        "要是{1}开而不是{0}开就好了",
        "Jens said he thought it starts at {1}",
        "Jens glaubte, der Anruf wäre um {1}",
        "my brother's call is at {1}",
        "Her best friend's call is at {1}",
        "Der Anruf meines Bruders ist um {1}",
        "我弟弟的电话在{1}",
    ],
)
def test_what_is_unreal_or_of_another_person_ends_nothing(said: str) -> None:
    for values in _VALUES.values():
        for old, new in permutations(values, 2):
            assert _pairs(f"The call is at {old}.", "Noted.", said.format(old, new)) == []


@each_row(
    "said",
    [
        "We're moving from Leeds to Cardiff. Morris wants {} pounds, Blue Van wants {}.",
        "We moved the sofa. Two chairs cost {}, the lamp {}.",
        "Ich habe die Reifen gewechselt. Einer kostet {} Euro, das Wuchten {}.",
        "我们换了沙发。椅子每把{}元，灯{}元。",
    ],
)
def test_values_of_two_things_side_by_side_end_nothing(said: str) -> None:
    for old, new in permutations(("80", "95", "1,540", "1,890"), 2):
        assert _pairs(said.format(old, new)) == []


@each_row(
    ("frame", "is_end"),
    [
        ("question mark{}", False),
        ("Please look at build rc{}", False),
        ("看一下版本rc{}", False),
        ("No, it's rc{}", True),
    ],
)
def test_a_series_ends_nothing(frame: str, is_end: bool) -> None:
    for number in range(1, 120, 17):
        asked = [frame.format(number + at) for at in range(2)]
        first = asked[0] if not is_end else f"The build is rc{number}."
        assert bool(_pairs(first, f"reply to {asked[0]} and so on", asked[1])) == is_end


def test_what_is_forbidden_for_all_is_forbidden_for_one() -> None:
    for name in ("方晓岚", "李明", "王老师"):
        for also in ("也", "都"):
            assert _pairs(f"编辑是{name}。", f"不得向任何人透露，{name}{also}不行。") == []


@each_row(
    ("first", "reply", "said"),
    [
        ("The dentist appointment is on {}.", "Noted, {}.", "Oh wait, they rang: it's {} now"),
        ("The dentist appointment is on {}.", "Noted, {}.", "I meant {} for the dentist"),
        ("Der Zahnarzttermin ist am {}.", "Notiert: {}.", "Nein, am {}"),
    ],
)
def test_a_reply_that_repeats_a_value_is_of_the_same_thing(
    first: str, reply: str, said: str
) -> None:
    """The words of the first sentence tell which others are concerned."""
    for old, new in (("3 May", "4 May"), ("12 May", "21 May")):
        told = [first.format(old), said.format(new)]
        ((one),) = find_corrections(told, [reply.format(old)])
        for sentence in (first.format(old), reply.format(old)):
            assert not one.about or one.about & content_words(sentence), sentence


@each_row(
    ("first", "said"),
    [
        ("My number is {}.", "I've got a new phone, {}, the old one is dead"),
        ("My number is {}.", "Please use {} from now on, the old number is gone"),
        ("Meine Nummer ist {}.", "Bitte ab sofort {} verwenden, die alte Nummer gilt nicht mehr"),
        ("我的手机号是{}。", "我换号了，新号码是{}"),
    ],
)
def test_a_number_is_in_place_of_an_older_one(first: str, said: str) -> None:
    for old, new in permutations(("01715552310", "01605558844", "13800112233"), 2):
        (found,) = find_corrections([first.format(old), said.format(new)])
        assert (found.old, found.new) == (old, new)
        assert found.is_certain
        others = said.replace("I've got", "My wife has got").replace("use", "use my wife's")
        if "wife" in others:
            assert find_corrections([first.format(old), others.format(new)]) == []


@pytest.mark.parametrize("colours", ["浅灰色 豆绿色", "红色 藏蓝色"])
def test_a_colour_is_named_in_full(colours: str) -> None:
    old, new = colours.split()
    assert _pairs(f"墙刷{old}，门刷白色。", "好。", f"墙还是刷{new}吧，不要{old}了") == [(old, new)]


@each_row(
    ("first", "said"),
    [
        (
            "The train leaves at {} from platform {}.",
            "No, {2} from platform {3}, not {0} from platform {1}.",
        ),
        (
            "The train leaves at {} from platform {}.",
            "No, not at {0} from platform {1} but at {2} from platform {3}.",
        ),
        (
            "The train leaves at {} from platform {}.",
            "Sorry, at {2} from platform {3} instead of {0} from platform {1}.",
        ),
        (
            "Der Zug fährt um {} von Gleis {}.",
            "Nein, nicht um {0} von Gleis {1}, sondern um {2} von Gleis {3}.",
        ),
        (
            "Der Zug fährt um {} von Gleis {}.",
            "Nein, um {2} von Gleis {3}, nicht um {0} von Gleis {1}.",
        ),
        ("火车{}从站台{}出发。", "不对，是{2}从站台{3}，不是{0}从站台{1}。"),
    ],
)
def test_values_told_together_end_those_denied_together(first: str, said: str) -> None:
    for times in permutations(("7:45", "8:15", "9:05"), 2):
        for places in permutations(("3", "9", "11"), 2):
            (old, new), (here, there) = times, places
            told = said.format(old, here, new, there)
            assert sorted(_pairs(first.format(old, here), told)) == sorted(
                [(here, there), (old, new)]
            )
            same = said.format(old, here, new, here)
            assert _pairs(first.format(old, here), same) == [(old, new)]


@each_row(
    ("frame", "subjects", "values"),
    [
        ("The {} shift now starts at {}.", ("early", "late", "night"), ("6:00", "14:00")),
        ("{} number is 555{}.", ("Dad's", "Mum's", "My"), ("231", "213")),
        ("The {} instalment is {} euros.", ("first", "second", "last"), ("300", "450")),
        ("On {} I have school until {}.", ("Monday", "Tuesday", "Friday"), ("15:00", "13:00")),
        ("Die {}schicht beginnt jetzt um {} Uhr.", ("Früh", "Spät", "Nacht"), ("6", "14")),
        ("{} habe ich bis {} Uhr Schule.", ("Montag", "Dienstag", "Freitag"), ("15", "13")),
        ("Das {} Kabel ist {} m lang.", ("grüne", "rote", "lange"), ("3", "5")),
        ("{}班现在{}点开始。", ("早", "晚", "夜"), ("七", "三")),
        ("{}是{}块。", ("房租", "押金", "水费", "进价"), ("3000", "3300")),
        ("{}的尺码是{}。", ("我", "女儿", "儿子"), ("42", "44")),
        ("{}程航班CA{}。", ("去", "回"), ("123", "124")),
    ],
)
def test_the_same_sentence_about_another_thing_ends_nothing(
    frame: str, subjects: tuple[str, ...], values: tuple[str, str]
) -> None:
    for one, other in permutations(subjects, 2):
        for old, new in permutations(values):
            assert not _pairs(frame.format(one, old), frame.format(other, new))


@each_row(
    ("first", "said"),
    [
        ("The early shift starts at {}.", "The early shift now starts at {}."),
        ("Our standup is at {}.", "The standup is now at {}."),
        ("My train leaves at {}.", "Sorry, my train leaves at {}."),
        ("Grandpa's call is at {}.", "Sorry, his call is at {}."),
        ("Die Frühschicht beginnt um {}.", "Die Frühschicht beginnt jetzt um {}."),
        ("早班{}开始。", "早班改到{}开始了。"),
    ],
)
def test_the_same_thing_in_other_words_is_corrected(first: str, said: str) -> None:
    language = "zh" if "早" in said else "de" if "beginnt" in said else "en"
    for old, new in permutations(_VALUES[language], 2):
        assert _pairs(first.format(old), said.format(new)) == [(old, new)]


@each_row(
    "said",
    [
        "don't change it to {new}",
        "glad it isn't {new}",
        "no, it's not {new}. {old} is right",
        "no need to make it {new}, {old} is perfect",
        "some people say {new}",
        "the error says {new}",
        "it may become {new}, not sure yet",
        "they asked whether {new} is possible",
        "last time it was {new}",
        "the next call is at {new}",
        "my brother said {new} for his",
        "bitte nicht auf {new} ändern",
        "laut Google eher {new} im Schnitt",
        "manche sagen {new}",
        "lass es bei {old}, {new} wäre zu spät",
        "sie fragen, ob {new} möglich ist",
        "der zweite Anruf ist um {new}",
        "das letzte Mal war um {new}",
        "别改成{new}",
        "幸好不是{new}",
        "网上都说{new}",
        "也许{new}",
        "下一次{new}",
    ],
)
def test_a_value_denied_doubted_or_of_another_thing_ends_nothing(said: str) -> None:
    german = ("bitte", "laut", "manche", "lass", "sie", "der", "das")
    is_chinese = any(sign > "\u3400" for sign in said)
    language = "zh" if is_chinese else "de" if said.startswith(german) else "en"
    first = {"en": "The call is at {}", "de": "Der Anruf ist um {}", "zh": "电话在{}"}[language]
    for old, new in permutations(_VALUES[language], 2):
        found = _pairs(first.format(old), said.format(old=old, new=new))
        assert not any(ended == old for ended, _ in found)


@each_row(
    ("first", "said"),
    [
        ("The call is at {}", "it's not {old} but {new}"),
        ("The call is at {}", "the call doesn't start until {new} now"),
        ("The call is at {}", "sorry, the call was never at {old}, it's at {new}"),
        ("Der Anruf ist um {}", "nicht um {old}, sondern um {new}"),
        ("Der Anruf ist um {}", "{old} stimmt nicht, der Anruf ist um {new}"),
        ("电话在{}", "不是{old}，是{new}"),
    ],
)
def test_a_denial_of_the_old_value_corrects_it(first: str, said: str) -> None:
    language = "en" if "call" in first else "de" if "Anruf" in first else "zh"
    for old, new in permutations(_VALUES[language], 2):
        assert _pairs(first.format(old), said.format(old=old, new=new)) == [(old, new)]
