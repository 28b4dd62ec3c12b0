"""Tests of values that a summary moves to somebody else, and of choices, limits, roles, exceptions
and postponed deeds that it turns round."""

from __future__ import annotations

from memory.audit.exchanged import Clauses
from memory.audit.judge import Audit, Candidate, audit
from memory.audit.moved import find_moved
from memory.audit.source import AuditSource
from memory.text.request_signs import is_postponed
from memory.text.wording import WordIndex
from tests.memory.audit_turns import turns_of
from tests.tables import each_row


def judge(lines: list[str], text: str) -> Audit:
    turns = turns_of(lines)
    source = AuditSource(lines[::2], lines[1::2], 4_000, turns=turns)
    return audit(Candidate(text, 40), source)


MOVED = [
    ("{a} pays 300 a month, {b} hasn't said yet what she can pay.", "{} pays 300 a month."),
    ("{a} cleans the bathroom, {b} is away.", "{} cleans the bathroom."),
    ("Then {a} is allergic to nuts, {b} eats everything.", "{} is allergic to nuts."),
    ("{a} zahlt 300 Euro Miete, {b} weiß es noch nicht.", "{} zahlt 300 Euro Miete."),
    ("Das Bad putzt diese Woche {a}, {b} ist im Urlaub.", "Das Bad putzt diese Woche {}."),
]
PEOPLE = [("Anna", "Ben"), ("Ravi", "Marta"), ("Jelena", "Tom")]


@each_row(("said", "told"), MOVED)
def test_what_was_said_of_one_must_not_be_told_of_another(said: str, told: str) -> None:
    for a, b in PEOPLE:
        source = Clauses([f"There are {a} and {b}.", said.format(a=a, b=b), "…"])
        assert find_moved(Clauses([told.format(b)]), source), b
        assert find_moved(Clauses([told.format(a)]), source) == [], a


@each_row(
    ("said", "told"),
    [
        ("The gym is open until 10. Make it 11, please.", "The gym is open until 11."),
        ("Anna pays 300. No, Ben pays 300, I was wrong.", "Ben pays 300."),
        (
            "The alert comes 14 days before. Better 10 days before.",
            "The alert comes 10 days before.",
        ),
        ("The camera costs 180 a day, the lights 95.", "The lights cost 95 a day."),
    ],
)
def test_a_value_that_was_changed_or_said_otherwise_is_not_moved(said: str, told: str) -> None:
    assert find_moved(Clauses([told]), Clauses([said])) == []


TWISTED = [
    (
        ["We took {a} instead of {b} for the office.", "Good, {a} then."],
        ["{a} was taken instead of {b}.", "They took {a}, not {b}."],
        ["{b} was taken instead of {a}.", "They took {b} rather than {a}."],
        [("Kyomo", "Brandis"), ("Debian", "Alma"), ("Rutter", "Holst")],
    ),
    (
        ["Die Laube streiche ich {a}, nicht {b}.", "Gut, {a}."],
        ["Die Laube wird {a} gestrichen, nicht {b}.", "Die Laube wird {a}."],
        ["Die Laube wird {b} gestrichen, nicht {a}."],
        [("grün", "blau"), ("gelb", "grau")],
    ),
    (
        ["我们选了{a}而不是{b}。", "好的，{a}。"],
        ["用户选了{a}，没选{b}。"],
        ["用户选了{b}而不是{a}。", "用户选了{b}，没选{a}。"],
        [("火车", "大巴"), ("青驰", "远行")],
    ),
    (
        ["{a} can't come to the rehearsal on Friday, but {b} can.", "OK."],
        ["{a} can't come to the rehearsal on Friday, but {b} can."],
        ["{b} can't come to the rehearsal on Friday, but {a} can."],
        [("Marta", "Owen"), ("Ute", "Rolf")],
    ),
    (
        ["先{a}后{b}，一共五天。", "好的。"],
        ["先{a}后{b}。"],
        ["先{b}后{a}。"],
        [("大理", "丽江"), ("成都", "重庆")],
    ),
    (
        ["{a} asked me whether {b} may drive.", "I see."],
        ["{a} asked the user whether {b} may drive."],
        ["The user asked {a} whether {b} may drive."],
        [("Petra", "Hideo"), ("Mbali", "Kerr")],
    ),
    (
        ["Frau {a} hat mich gefragt, ob {b} mitkommt.", "Ja."],
        ["Frau {a} hat den Nutzer gefragt, ob {b} mitkommt."],
        ["Der Nutzer hat Frau {a} gefragt, ob {b} mitkommt."],
        [("Wendt", "Pohl"), ("Merz", "Obi")],
    ),
    (
        ["{a}请我代{b}的课。", "好。"],
        ["{a}请用户代{b}的课。"],
        ["用户请{a}代{b}的课。"],
        [("马老师", "周四"), ("何军", "周一")],
    ),
]


@each_row(("lines", "right", "wrong", "pairs"), TWISTED)
def test_what_is_turned_round_is_noticed(
    lines: list[str], right: list[str], wrong: list[str], pairs: list[tuple[str, str]]
) -> None:
    for a, b in pairs:
        said = [one.format(a=a, b=b) for one in lines]
        for told in right:
            assert "swapped" not in judge(said, told.format(a=a, b=b)).kinds, told
        for told in wrong:
            assert "swapped" in judge(said, told.format(a=a, b=b)).kinds, told


@each_row(
    ("said", "right", "wrong"),
    [
        ("Viewings only before {} pm.", "Viewings are before {} pm.", "Viewings are after {} pm."),
        (
            "At most {} people in the boat.",
            "The boat takes at most {} people.",
            "The boat: at least {} people.",
        ),
        (
            "Rechnungen bis {} Euro frei.",
            "Rechnungen bis {} Euro frei.",
            "Rechnungen ab {} Euro frei.",
        ),
        ("房租最多{}元。", "房租最多{}元。", "房租至少{}元。"),
    ],
)
def test_a_limit_must_not_be_turned_round(said: str, right: str, wrong: str) -> None:
    for number in ("5", "12", "800"):
        lines = [said.format(number), "OK."]
        assert "swapped" not in judge(lines, right.format(number)).kinds
        assert "swapped" in judge(lines, wrong.format(number)).kinds


EXCEPTIONS = [
    (
        "Owners with an unpaid bill get no appointment unless it's an emergency.",
        "Owners with an unpaid bill get an appointment only in an emergency.",
        "Owners with an unpaid bill never get an appointment.",
    ),
    (
        "Knochen bekommt der Hund keine, außer am Sonntag.",
        "Knochen bekommt der Hund nur am Sonntag.",
        "Knochen bekommt der Hund jeden Tag, außer am Sonntag.",
    ),
    (
        "医生说她周四可以出院，除非又发烧。",
        "如果不发烧，医生说她周四可以出院。",
        "医生说她周四可以出院。",
    ),
]


@each_row(("said", "right", "wrong"), EXCEPTIONS)
def test_an_exception_must_be_kept(said: str, right: str, wrong: str) -> None:
    assert "condition" not in judge([said, "OK."], right).kinds
    assert "condition" in judge([said, "OK."], wrong).kinds


@each_row(
    ("said", "right", "wrong"),
    [
        (
            "The bank said no to the loan.",
            "The bank refused the loan.",
            "The bank agreed to the loan.",
        ),
        (
            "Die Bank hat den Kredit abgelehnt.",
            "Kein Kredit von der Bank.",
            "Die Bank hat den Kredit bewilligt.",
        ),
        (
            "客户要求降价两成，我们没答应。",
            "客户要求降价两成，没有答应。",
            "客户要求降价两成，已经答应。",
        ),
    ],
)
def test_a_refusal_is_no_consent(said: str, right: str, wrong: str) -> None:
    assert "affirmed" not in judge([said, "I see."], right).kinds
    assert "affirmed" in judge([said, "I see."], wrong).kinds


@each_row(
    ("lines", "right", "wrong"),
    [
        (
            ["Wait with sending the reminder until Sethi has read it.", "I hold it back."],
            "The reminder will be sent once Sethi has read it.",
            "The reminder was sent.",
        ),
        (
            ["Schick den Widerspruch erst, wenn der Arztbrief da ist.", "Gut, ich warte."],
            "Der Widerspruch wird geschickt, sobald der Arztbrief da ist.",
            "Der Widerspruch wurde abgeschickt.",
        ),
        (
            ["押金还没付，等签了合同再付。", "好的。"],
            "押金等签了合同再付。",
            "押金已经付了。",
        ),
    ],
)
def test_what_was_put_off_is_not_done(lines: list[str], right: str, wrong: str) -> None:
    assert "undone" not in judge(lines, right).kinds
    assert "undone" in judge(lines, wrong).kinds


def test_a_day_of_the_week_that_nobody_said_is_invented() -> None:
    lines = ["The certificate comes on Tuesday.", "Noted."]
    assert "invented" in judge(lines, "The certificate comes on Thursday.").kinds
    assert "invented" not in judge(lines, "The certificate comes on Tuesdays.").kinds
    lines[1] = "It is sent two days after, tomorrow at the latest."
    assert "invented" not in judge(lines, "The certificate is sent on Thursday.").kinds


@each_row(
    "asked",
    [
        "Next week I need release notes, don't write them yet.",
        "Ich brauche Notizen, schreib sie noch nicht.",
        "周报你先别发。",
    ],
)
def test_not_yet_postpones_a_request(asked: str) -> None:
    assert is_postponed(asked, "OK.", WordIndex().heads(asked))
