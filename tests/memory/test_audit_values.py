"""Superseded values, and invented numbers, in a summary."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.audit.judge import Audit, Candidate, audit
from memory.audit.source import AuditSource
from memory.audit.superseded import find_stale_values, find_superseded
from memory.text.mentioned import MentionedNumbers
from tests.memory.audit_turns import turns_of
from tests.tables import each_row

CHANGED = {
    "en": (
        ["The ferry to Islay costs {} pounds.", "Noted, {} pounds for the ferry."],
        ["The ferry company has changed the price.", "The ferry costs {} pounds now."],
        ("The ferry to Islay costs {} pounds.", "- Ferry (Islay): {} pounds"),
        "The ferry costs {1} pounds, no longer {0}.",
        "The museum has {} rooms.",
    ),
    "de": (
        ["Die Fähre nach Amrum kostet {} Euro.", "Notiert, {} Euro für die Fähre."],
        ["Der Preis der Fähre stimmt nicht mehr.", "Geändert: Die Fähre kostet jetzt {} Euro."],
        ("Die Fähre nach Amrum kostet {} Euro.", "- Fähre (Amrum): {} Euro"),
        "Die Fähre kostet {1} Euro, nicht mehr {0}.",
        "Das Museum hat {} Räume.",
    ),
    "zh": (
        ["去舟山的渡轮每人{}元。", "好的，渡轮每人{}元。"],
        ["渡轮的票价我记错了。", "已更正，渡轮每人{}元。"],
        ("去舟山的渡轮每人{}元。", "- 渡轮：{}元"),
        "渡轮改为每人{1}元，原来是{0}元。",
        "博物馆有{}间展厅。",
    ),
}
PRICES = st.integers(120, 480)


@given(st.sampled_from(list(CHANGED)), st.lists(PRICES, min_size=2, max_size=2, unique=True))
def test_a_summary_must_not_say_a_value_that_gave_way_and_not_the_one_that_holds(
    language: str, prices: Sequence[int]
) -> None:
    said, change, tellings, of_both, of_others = CHANGED[language]
    old, new = prices
    lines = [*(one.format(old) for one in said), *(one.format(new) for one in change)]
    found = find_superseded([(lines[0], lines[1]), (lines[2], lines[3])])
    for telling in tellings:
        assert find_stale_values(telling.format(old), found), lines
        assert not find_stale_values(telling.format(new), found)
    assert not find_stale_values(of_both.format(old, new), found)
    assert not find_stale_values(of_others.format(old), found)


def test_a_reply_to_a_picture_without_a_text_replaces_a_value() -> None:
    turns = [("The ferry costs 12 pounds.", "Noted."), ("", "Changed: the ferry costs 13 pounds.")]
    (found,) = find_superseded(turns)
    assert (found.old.text, found.new.text) == ("12", "13")


@each_row(
    "turns",
    [
        [("The train costs 120 euros.", "Noted."), ("The hotel costs 140 euros.", "Noted.")],
        [("Der Saal fasst 120 Gäste.", "Gut."), ("Jetzt kommen 140 Stühle dazu.", "Notiert.")],
        [("房租每月3200元。", "好的。"), ("水费每月120元。", "记下了。")],
    ],
)
def test_a_second_value_alone_ends_no_first_one(turns: Sequence[tuple[str, str]]) -> None:
    assert find_superseded(turns) == []


TALK = [
    "The hall costs 1,375 euros, and 218 guests come on 17 May at 3 pm, half past at the latest.",
    "Noted: 1,375 euros for the hall and 261.50 euros for fourteen chairs, order 4471-88.",
]


def judge(text: str) -> Audit:
    lines = [*TALK, "Thanks, that is all about the hall and the guests.", "You are welcome."]
    source = AuditSource(lines[::2], lines[1::2], 400, turns=turns_of(lines))
    return audit(Candidate(text, 40), source)


@each_row(
    "number",
    ["1375", "1.375", "17.05.", "5/17", "15:00", "15:30", "14", "1,636.50", "1.375 k", "218-guest"],
)
def test_a_number_may_be_said_in_another_form(number: str) -> None:
    """A number may be from another country, a numeric date, a whole day, a word, or a sum."""
    assert MentionedNumbers(TALK).has(number.replace(" k", ""))


@given(st.sampled_from(["1375", "218", "26150", "447188"]), st.data())
def test_a_number_with_its_digits_in_another_order_is_a_slip(
    number: str, data: st.DataObject
) -> None:
    said = MentionedNumbers(TALK)
    slip = "".join(data.draw(st.permutations(number)))
    if slip != number and slip[0] != "0":
        assert said.find_like(slip)
        assert not said.has(slip)


@each_row("wrong", ["1,735 euros", "1,475 euros", "8,125 euros"])
def test_one_wrong_price_is_noticed(wrong: str) -> None:
    told = "The hall costs {}, and 218 guests come on 17 May at 3 pm. There are 14 chairs."
    assert judge(told.format("1,375 euros")).kinds == ()
    assert judge(told.format(wrong)).kinds == ("invented",)


KEPT_LINES = [
    "The invoice 4711-A is due on 3 June",
    "Die Wohnung kostet 870 Euro im Monat",
    "Ann's number is 030 555 0199",
    "火车 G102 在 14:30 出发",
]
ELSEWHERE = ["The garden needs more compost this spring.", "Der Hund war gestern beim Tierarzt."]


@each_row("line", KEPT_LINES)
def test_a_summary_that_continues_another_keeps_its_numbers_unless_more_was_said(line: str) -> None:
    source = AuditSource(["Any news?", *ELSEWHERE], ["None."], prior=f"- Ann moves.\n- {line}.")
    dropped = source.find_dropped("Ann moves; the garden and the dog were spoken of.")
    assert [one.rstrip(".") for one in dropped] == [line]
    assert source.find_dropped(f"Ann moves. {line}.") == []
    about = re.sub(r"\d[\d:-]*", "9", line)
    assert source.find_dropped(f"Ann moves. {about}.") == [], "the summary has another value"
    asked = replace(source, asked=(*source.asked, f"{about} now, I think."))
    assert asked.find_dropped("Ann moves.") == [], "a person has said another value"
    task = replace(source, prior=f"- Ann moves.\nOpen: t2: {line}.")
    assert task.find_dropped("Ann moves.") == [], "whether it is open is looked at elsewhere"
