"""Tests of statements that a summary turns round: comparisons, denials, plans and open requests."""

from __future__ import annotations

from itertools import product

from memory.audit.judge import Audit, Candidate, audit
from memory.audit.source import AuditSource
from memory.text.requests import find_requests
from tests.memory.audit_turns import turns_of
from tests.tables import each_row


@each_row(
    ("agrees", "begins"),
    [*product(["好，", "好的，", "行，", "没问题，"], ["我", "马上", "这就", "我来", "现在就"])],
)
def test_a_promise_in_chinese_needs_no_verb_of_its_own(agrees: str, begins: str) -> None:
    lines = ["帮我找三家卖窗帘的店，要在朝阳区。", f"{agrees}{begins}找三家朝阳区的窗帘店。"]
    assert [one.turn for one in find_requests(turns_of(lines)).open] == [1]


def judge(lines: list[str], text: str) -> Audit:
    source = AuditSource(lines[::2], lines[1::2], 4_000, turns=turns_of(lines))
    return audit(Candidate(text, 40), source)


@each_row(
    ("kind", "lines", "right", "wrong"),
    [
        (
            "swapped",
            ["语法比听力难，我听力上次考了45分，语法28分。", "听力45，语法28。"],
            "上次听力45分，语法28分。",
            "上次听力28分，语法45分。",
        ),
        (
            "swapped",
            ["Grammar is harder than listening for me.", "Noted: grammar is harder."],
            "Grammar is harder than listening.",
            "Listening is harder than grammar.",
        ),
        (
            "condition",
            ["如果橱柜周五前不到货，就换成欧派。", "好，周五前不到就换。"],
            "橱柜周五前没到货，换成欧派。",
            "橱柜已经换成欧派了。",
        ),
        (
            "condition",
            [
                "Falls die Bank bis Freitag nicht zusagt, müssen wir zur Sparkasse wechseln.",
                "Verstanden.",
            ],
            "Ohne Zusage der Bank bis Freitag: Wechsel zur Sparkasse.",
            "Wir müssen zur Sparkasse wechseln.",
        ),
        (
            "undone",
            [
                "Monday then. But don't book the boat yet, Raoul has to ask his boss first.",
                "I won't book the boat until Raoul has confirmed.",
            ],
            "The boat is not to be booked before Raoul has asked his boss.",
            "The boat was booked after Raoul confirmed.",
        ),
        (
            "undone",
            [
                "Please compare three dishwashers under 45 cm for me.",
                "I'll compare three slim dishwashers and get back to you.",
            ],
            "Open: a comparison of three dishwashers under 45 cm.",
            "I compared three dishwashers under 45 cm for them.",
        ),
        (
            "undone",
            ["Entwirf bitte ein Plakat fürs Sommerfest.", "Ich entwerfe ein Plakat."],
            "Offen: ein Plakat fürs Sommerfest entwerfen.",
            "Das Plakat fürs Sommerfest habe ich entworfen.",
        ),
        (
            "swapped",
            ["Das Corva wiegt 13,4 kg, das Hagel 11,9. Was meinst du?", "Beide sind gute Räder."],
            "Das Hagel ist leichter als das Corva.",
            "Das Corva ist leichter als das Hagel.",
        ),
        (
            "swapped",
            ["The Aspera or the Nordbook?", "Both fit, but the Aspera is 230 euros cheaper."],
            "The Aspera is cheaper than the Nordbook.",
            "The Nordbook is cheaper than the Aspera.",
        ),
        (
            "swapped",
            ["Die Hüpfburg kostet 180 am Tag.", "Dann bleiben 140 für Essen und Preise."],
            "Die Hüpfburg kostet 180.",
            "Die Hüpfburg kostet 140.",
        ),
        (
            "affirmed",
            ["我爸血压148，他不抽烟，但是每天喝酒", "建议先减酒。"],
            "父亲不抽烟，每天喝酒。",
            "父亲抽烟，每天喝酒。",
        ),
        (
            "undone",
            ["增量更新还没做，明天再弄", "好，可以用最大值做断点。"],
            "增量更新还没做。",
            "增量更新也已经做完了。",
        ),
        (
            "undone",
            ["What's still missing is a restore test on Saturday.", "Good idea."],
            "A restore test is planned for Saturday.",
            "The restore test was carried out on Saturday.",
        ),
        (
            "invented",
            ["The orders table has 14 million rows.", "Noted."],
            "The orders table has 14 million rows.",
            "The orders table has 41 million rows.",
        ),
    ],
)
def test_a_statement_that_is_turned_round_is_noticed(
    kind: str, lines: list[str], right: str, wrong: str
) -> None:
    assert kind not in judge(lines, right).kinds
    assert kind in judge(lines, wrong).kinds


@each_row(
    ("asked", "reply"),
    [
        ("Can you look at the images? I'll paste the code.", "Sure, paste it when you're back."),
        ("Mach mir später eine Liste zum Nachsendeauftrag", "Mache ich, sag einfach Bescheid."),
        ("购物清单还没列，你晚点帮我列", "好的，需要时告诉我。"),
    ],
)
def test_a_request_that_waits_for_the_person_is_open(asked: str, reply: str) -> None:
    found = find_requests(turns_of([asked, reply]))
    assert (len(found.open), len(found.finished)) == (1, 0)


def test_an_open_request_must_not_be_told_as_done() -> None:
    lines = [
        "can you look at why the images are blurry on Safari?",
        "I need the code of the component. Is it next/image?",
        "I'll paste it later, have to run",
        "Sure, paste it when you're back.",
    ]
    assert "undone" in judge(lines, "The blurry images on Safari were fixed.").kinds
    assert judge(lines, "Open: blurry images on Safari; the code is awaited.").accepts()


def test_an_indirect_question_states_nothing() -> None:
    lines = [
        "One thing is open: we don't know yet whether the team reads the replica.",
        "Ask them.",
    ]
    assert judge(lines, "Still open: whether the team reads the replica.").accepts()
