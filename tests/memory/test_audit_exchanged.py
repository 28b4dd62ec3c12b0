"""Tests of roles and values that a summary exchanges, rejected things that it presents as agreed,
invented dates, units and names, and omitted orders."""

from __future__ import annotations

from itertools import permutations

import pytest

from memory.audit.exchanged import Clauses, find_exchanged
from memory.audit.judge import Audit, Candidate, audit
from memory.audit.source import AuditSource
from memory.text.receipt import SourceFacts
from memory.text.requests import find_requests
from memory.text.wording import split_sentences
from tests.memory.audit_turns import turns_of
from tests.tables import each_row

PEOPLE = {
    "en": (("Anna", "Ben"), ("books the flights", "cleans the boat")),
    "de": (("Greta", "Holger"), ("bucht die Flüge", "putzt das Boot")),
    "zh": (("陈雨", "赵磊"), ("预订机票", "打扫船舱")),
}
PRICES = {
    "en": (("The ferry", "the bus"), ("costs 1,450 euros", "costs 320 euros")),
    "de": (("Die Fähre", "der Bus"), ("kostet 1.450 Euro", "kostet 320 Euro")),
    "zh": (("渡轮票价", "大巴票价"), ("是1450元", "是320元")),
}
SAID = ("{a} {x}, {b} {y}.", "{a} {x}. {b} {y}.")
TOLD = (
    *SAID,
    "{b} {y}, {a} {x}.",
    "- {b}: {y}\n- {a}: {x}",
    "{a} ({x}), {b} ({y})",
    "{x}: {a}; {y}: {b}",
)


def cases(of: dict[str, tuple[tuple[str, str], tuple[str, str]]]) -> list[tuple[str, ...]]:
    return [(*things, *told) for things, told in of.values()]


@each_row(("a", "b", "x", "y"), cases(PEOPLE) + cases(PRICES))
def test_what_is_told_of_two_must_not_be_exchanged(a: str, b: str, x: str, y: str) -> None:
    for form in SAID:
        said = Clauses([form.format(a=a, b=b, x=x, y=y), "…"])
        for told in TOLD:
            assert find_exchanged(Clauses([told.format(a=a, b=b, x=x, y=y)]), said) == [], told
            assert find_exchanged(Clauses([told.format(a=a, b=b, x=y, y=x)]), said), told
            assert find_exchanged(Clauses([told.format(a=b, b=a, x=x, y=y)]), said), told


@each_row(("a", "b", "x", "y"), cases(PEOPLE) + cases(PRICES))
def test_an_exchange_that_a_person_wants_is_none(a: str, b: str, x: str, y: str) -> None:
    for wish in ("No, the other way round.", "Swap the two.", "Nein, umgekehrt.", "不对，反过来。"):
        said = Clauses([SAID[0].format(a=a, b=b, x=x, y=y), "…", wish])
        for told in TOLD:
            assert find_exchanged(Clauses([told.format(a=b, b=a, x=x, y=y)]), said) == [], wish


@each_row(
    ("said", "told"),
    [
        ("Anna and Ben pay and cook. Later Ben pays, Anna cooks.", "Ben pays, Anna cooks."),
        ("Anna pays, Ben cooks. No, Ben pays, Anna cooks.", "Ben pays, Anna cooks."),
        ("Anna pays, Ben cooks.", "Anna and Ben pay and cook respectively."),
        ("Anna pays, Ben cooks.", "Anna pays, and Ben is told."),
        ("Read the old file, write the new file.", "The new file is read, the old file written."),
    ],
)
def test_words_that_stood_both_ways_or_that_name_nothing_are_not_exchanged(
    said: str, told: str
) -> None:
    assert find_exchanged(Clauses([told]), Clauses([said])) == []


def test_of_three_people_any_two_that_are_exchanged_are_found() -> None:
    names, deeds = ("Mira", "Oskar", "Yvonne"), ("drives", "sings", "paints")
    said = Clauses([", ".join(map(" ".join, zip(names, deeds, strict=True)))])
    for order in permutations(names):
        told = "\n".join(f"- {who} {what}" for who, what in zip(order, deeds, strict=True))
        kept = sum(a == b for a, b in zip(order, names, strict=True))
        if kept != 0:  # a rotation of all three exchanges no two
            assert bool(find_exchanged(Clauses([told]), said)) is (kept == 1), order


def judge(lines: list[str], text: str) -> Audit:
    turns = turns_of(lines)
    source = AuditSource(lines[::2], lines[1::2], 4_000, turns=turns)
    return audit(Candidate(text, 40), source)


TURNED_DOWN = {
    "en": (
        ["The {} is too long for us. We don't want any {}.", "All right, no {} then."],
        ["There will be no {}.", "The {} was dropped.", "They decided against the {}."],
        ["They will do the {}.", "The {} is planned for Sunday."],
        ("glacier hike", "boat tour", "church service"),
    ),
    "de": (
        ["Eine {} machen wir doch nicht.", "Gut, keine {}."],
        ["Es gibt keine {}.", "Die {} entfällt.", "Auf die {} wird verzichtet."],
        ["Es gibt eine {}.", "Die {} findet am Sonntag statt."],
        ("Tombola", "Stadtführung", "Weinprobe"),
    ),
    "zh": (
        ["我们不去{}了。", "好的，那就不去{}。"],
        ["不去{}。", "{}取消了。"],
        ["还要去{}。", "周日去{}。"],
        ("玉龙雪山", "博物馆", "天文台"),
    ),
}


@each_row("language", list(TURNED_DOWN))
def test_what_was_turned_down_must_not_be_told_as_agreed(language: str) -> None:
    turn, kept, turned, things = TURNED_DOWN[language]
    for thing in things:
        lines = [one.replace("{}", thing) for one in turn]
        for one in kept:
            assert "affirmed" not in judge(lines, one.format(thing)).kinds, one
        for one in turned:
            assert "affirmed" in judge(lines, one.format(thing)).kinds, one
        again = [*lines, turned[0].format(thing), "OK."]
        assert "affirmed" not in judge(again, turned[0].format(thing)).kinds, "they want it again"


ORDERS = [
    (
        ["Never touch the migrations folder.", "Understood, I leave that folder alone."],
        ["The migrations folder is off limits.", "Nothing in migrations may be changed."],
        "The export is quick now.",
    ),
    (
        ["From now on always use British spelling.", "British spelling it is."],
        ["British spelling.", "Texts are always spelled the British way."],
        "The quiz has ten questions.",
    ),
    (
        ["Ruf nie beim Vermieter an.", "Gut, den Vermieter rufe ich nicht an."],
        ["Keine Anrufe beim Vermieter.", "Den Vermieter ruft nur der Nutzer an."],
        "Der Umzug ist am 15. Mai.",
    ),
    (
        ["以后都不要给客户打电话。", "好的，不给客户打电话。"],
        ["不给客户打电话。", "客户只能写邮件。"],
        "会议在周四下午。",
    ),
]


@each_row(("turn", "kept", "other"), ORDERS)
def test_an_order_that_holds_is_left_out_where_nothing_tells_of_it(
    turn: list[str], kept: list[str], other: str
) -> None:
    lines = [*turn, f"{other}", "OK."]
    for one in kept:
        assert "orders" not in judge(lines, f"{other} {one}").kinds, one
    found = judge(lines, other)
    assert found.kinds == ("orders",)
    assert found.accepts(), "it is added to the text"


def invented(said: str, told: str) -> bool:
    new = SourceFacts([said], [], []).find_invented(told)
    return bool(new.others) and sum(new.weights) >= 3


@each_row(
    ("said", "told"),
    [
        ("We fly on 5 May.", "The flight is on May 5."),
        ("We stay from 5 to 7 June.", "They leave on 7 June."),
        ("The dentist is on 10 June. No, it is the 12th.", "Dentist: 12 June."),
        ("We arrive on 11 March and leave the next day.", "They leave on 12 March."),
        ("Der Termin ist am 4.6., der andere am 12.", "Termine: 4. und 12. Juni."),
        ("10月2日到8日去云南。", "10月8日回来。"),
        ("It takes 90 minutes, for 2 hours of rest.", "90 min, 2 h of rest"),
        ("Zehn Jahre aufbewahren, in 10 Tagen zahlen.", "10 Jahre, 10 Tage"),
        ("Two kilos of lamb at 160 °C.", "2 kg of lamb, 160 °C"),
    ],
)
def test_a_day_or_a_unit_that_was_said_in_other_words_is_not_invented(said: str, told: str) -> None:
    assert not invented(said, told)


@each_row(
    ("said", "told"),
    [
        ("We fly on 5 May.", "The flight is on 5 June."),
        ("The wedding is on 6 September, 9 tables.", "The wedding is on 9 September."),
        ("Der Termin ist am 4. Juni um 9 Uhr.", "Termin: 9. Juni"),
        ("我们10月2日出发，8个人。", "10月8日出发。"),
        ("Braise it at 160 °C.", "Braise it at 160 °F."),
        ("The notice period is 3 months.", "The notice period is 3 weeks."),
        ("Drei Tage in der Beize.", "3 Wochen in der Beize."),
        ("The tent costs 480 euros.", "The tent costs $480. It costs 480 dollars."),
        ("每天吃5毫克。", "每天吃5克。"),
    ],
)
def test_a_day_or_a_unit_that_nobody_said_is_invented(said: str, told: str) -> None:
    assert invented(said, told)


def test_a_whole_name_of_which_nobody_said_any_part_is_invented() -> None:
    lines = ["The choir sings in March, Oscar lends us the keyboard.", "Noted."]
    told = "The choir sings in March. The keyboard is lent by {}."
    assert "invented" in judge(lines, told.format("Margaret Oduya")).kinds
    assert "invented" not in judge(lines, told.format("Oscar Oduya")).kinds


@pytest.mark.parametrize(
    "reply", ["I'll plan it once the draft is done.", "Once it is sent I'll do it."]
)
def test_what_waits_for_something_to_be_done_is_open(reply: str) -> None:
    asked = "The sequel we could plan once the first draft is done."
    found = find_requests(turns_of([asked, reply, "It rains.", "So I heard."]))
    assert [one.turn for one in found.open] == [1]


@each_row(
    ("asked", "reply"),
    [
        ("Did the results come by post?", "I can't see your post. Tell me once they are there."),
        ("Kam das Paket an?", "Das kann ich leider nicht sehen."),
        ("快递到了吗？", "我看不到快递信息。"),
    ],
)
def test_what_the_bot_cannot_do_is_not_finished(asked: str, reply: str) -> None:
    assert find_requests(turns_of([asked, reply, "It rains.", "So I heard."])).finished == ()


@each_row(
    ("lines", "told"),
    [
        (
            ["Never restart the printer during office hours.", "No restarts of the printer then."],
            "The printer was repaired after a restart.",
        ),
        (
            ["Never give my number to anyone.", "I won't give your number to anyone."],
            "Strict: the number is never passed on.",
        ),
    ],
)
def test_a_ban_with_a_condition_or_in_other_words_is_no_fault(lines: list[str], told: str) -> None:
    assert set(judge(lines, told).kinds) <= {"orders"}


def test_a_date_is_not_said_already_by_another_number() -> None:
    lines = [
        *("Dad sees the cardiologist on 3 March at 10:15.", "Noted: cardiologist, 3 March."),
        *("He takes 2.5 mg in the morning.", "2.5 mg in the morning."),
        *("The cardiologist called, it's moved to 5 March.", "Changed: 5 March at 10:15."),
    ]
    assert "corrected" in judge(lines, "The cardiologist is on 3 March; 2.5 mg.").kinds
    assert "corrected" not in judge(lines, "The cardiologist is on 5 March; 2.5 mg.").kinds


def test_a_sentence_may_end_with_not() -> None:
    assert split_sentences("Ben doesn't. Ann does.") == ["Ben doesn't.", "Ann does."]
