"""Tests of the facts that a summary kept: they are found, in several languages and quickly."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from memory.text.names import find_names
from memory.text.receipt import MOST, Receipt, SourceFacts, sentence_with
from tests.tables import each_row

ASKED = (
    "Please book a table for Anna Schmidt at the Yeatman in Lisbon on March 14th at 7pm. My "
    "booking number is 4711-XZ and the budget is $1,200. Mail me at anna@example.org, and see "
    "https://example.com/a/b?x=1. However, Thursday is fine."
)


def make_receipt(
    asked: Sequence[str], answered: Sequence[str], touched: Sequence[str], summary: str
) -> Receipt:
    return SourceFacts(asked, answered, touched).receipt(summary)


def missing(asked: str, summary: str, answered: str = "", touched: str = "") -> set[str]:
    return set(make_receipt([asked], [answered], [touched], summary).missing)


def test_all_that_can_be_looked_for_is_found() -> None:
    assert missing(ASKED, "Nothing.") == {
        "Anna Schmidt",
        "Yeatman",
        "Lisbon",
        "March 14th",
        "7pm",
        "4711-XZ",
        "$1,200",
        "anna@example.org",
        "https://example.com/a/b?x=1",
    }


def test_a_summary_that_has_them_in_other_words_has_kept_them() -> None:
    said = (
        "Table for Schmidt at the Yeatman (lisbon), 2026-03-14, 19:00; 4711-xz; 1200 USD; "
        "anna@example.org; example.com/a/b?x=1"
    )
    assert make_receipt([ASKED], [], [], said) == Receipt(9, ())


@each_row(
    ("said", "kept"),
    [
        ("It costs 1.200,50 euros.", "1200.5"),
        ("50k rows", "50,000 rows"),
        ("am 14. März", "14.03."),
        ("on 3/14/2026", "14 March"),
        ("3月14日", "2026-03-14"),
        ("at 6:30 pm", "18:30"),
        ("see notes/trip.md", "in trip.md"),
        ("the function parse_config", "`parse_config`"),
    ],
)
def test_the_same_in_another_form_is_kept(said: str, kept: str) -> None:
    receipt = make_receipt([said], [], [], kept)
    assert receipt.total
    assert not receipt.missing
    assert make_receipt([said], [], [], "Nothing.").missing


@each_row(
    ("said", "fact"),
    [
        ("Call me on 020 7946 0812 today.", "020 7946 0812"),
        ("It is 555-0134, I think", "555-0134"),
        ("Die Nummer ist 089 / 231 44 70.", "089 / 231 44 70"),
        ("Meine IBAN ist DE44 5001 0517 5407 3249 31", "DE44 5001 0517 5407 3249 31"),
        ("Die Steuernummer ist 27/453/01288", "27/453/01288"),
        ("policy VX/2291/07", "VX/2291/07"),
        ("the referral R-2209/44", "R-2209/44"),
        ("We have v2.11.3.", "v2.11.3"),
        ("Build release-2.4.", "release-2.4"),
        ("Das Kennwort ist Kürbis-Suppe_88", "Kürbis-Suppe_88"),
        ("门禁密码是5527。", "5527"),
        ("电话13800138000，下周二去看", "13800138000"),
        ("南京西路1266号", "1266"),
        ("一共299元", "299元"),
        ("2026年5月18日", "5月18日"),
    ],
)
def test_a_number_is_one_fact_whatever_stands_in_it_and_around_it(said: str, fact: str) -> None:
    lost = missing(said, "Nothing.")
    assert fact in lost
    assert len(lost) <= 2
    assert not missing(said, said)


def test_a_phone_number_is_kept_with_other_signs_between_its_digits() -> None:
    assert not missing("Call 020 7946 0812.", "The number is 020-79460812.")
    assert missing("Call 020 7946 0812.", "The number is 020 7946 0821.")


@each_row(
    "text",
    [
        r"So $\frac{12}{p_i} = 1200$ holds",
        r"and \(x_{10} + 3517\) or \[ 4411 \]",
        "where p_i is small",
        "$$ 12 \n 1000 $$",
    ],
)
def test_formulas_have_no_facts(text: str) -> None:
    assert make_receipt([text], [], [], "Nothing.").total == 0


def test_prices_in_dollars_are_no_formula() -> None:
    assert missing("It is $50, and $60 more.", "Nothing.") == {"$50", "$60"}


def test_german_nouns_are_no_names() -> None:
    text = (
        "Ich fahre mit dem Zug nach Lissabon, mit Herrn Müller und Anna Schmidt. Das Hotel ist "
        "nicht weit von der Stadt, und die Reise nach Hause dauert einen Tag."
    )
    assert set(find_names(text)) == {"Lissabon", "Müller", "Anna Schmidt"}


def test_chinese_has_names_too() -> None:
    text = "我叫王小明，要去北京市。请联系李经理，入住希尔顿酒店，带上《三体》。"
    assert set(find_names(text)) == {"王小明", "北京市", "李经理", "希尔顿酒店", "三体"}
    assert missing(f"{text}预算3000元。", "王小明去北京市，希尔顿酒店，3000元") == {
        "李经理",
        "三体",
    }


def test_the_beginning_of_a_sentence_is_no_name_unless_it_is_one_elsewhere() -> None:
    assert find_names("However, it rains. Lisbon is nice. I love Lisbon.") == ["Lisbon", "Lisbon"]
    assert find_names("Yes. OK! # Trip\n- Hotels are full") == []


def test_of_tool_calls_only_paths_and_addresses_count() -> None:
    touched = '{"path": "src/main.py", "limit": 20, "query": "John Doe", "url": "https://a.b/c"}'
    assert missing("", "", touched=touched) == {"src/main.py", "https://a.b/c"}


def test_what_the_person_said_comes_first_and_there_is_an_end_to_it() -> None:
    replies = " ".join(f"id{number}x" for number in range(100, 400))
    receipt = make_receipt(["My code is zz99."], [replies], [], "")
    assert receipt.missing[0] == "zz99"
    assert receipt.total == MOST


def test_nothing_to_keep_is_all_kept() -> None:
    assert make_receipt([], [], [], "").share == 1.0
    assert make_receipt(["yes, why not"], ["ok"], [], "").total == 0


def test_the_sentence_of_a_fact_is_found() -> None:
    texts = ["Hello.", "It rains. The booking number is 4711. Bye."]
    assert sentence_with("4711", texts) == "The booking number is 4711."
    assert sentence_with("nowhere", texts) == ""
    assert len(sentence_with("4711", ["x" * 5_000 + " 4711 " + "y" * 5_000])) <= 202


@given(st.lists(st.text(max_size=80), max_size=4), st.text(max_size=200))
def test_any_text_has_a_receipt_and_keeps_itself(texts: list[str], summary: str) -> None:
    receipt = make_receipt(texts, texts, texts, summary)
    assert 0 <= receipt.share <= 1
    whole = make_receipt(texts, [], [], "\n".join(texts))
    assert whole.kept == whole.total


@each_row("piece", ["1.", "a.b@a.", "王", "a\\", "“"])
def test_hostile_texts_take_little_time(piece: str) -> None:
    """A search that restarted at every position would not end."""
    text = piece * (200_000 // len(piece))
    make_receipt([text] * 2, [text] * 2, [text], text[:8_000])
