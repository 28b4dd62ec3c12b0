"""Words: stored texts and searches are tokenised alike, in every script; cues and patterns."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.audit import superseded
from memory.patterns import lazy
from memory.record.search import words
from memory.record.search.words import LANGUAGES, NamedDate, Term, find_dates, language_of, question
from memory.text import facts, request_signs
from memory.text.wording import CuedPattern, WordIndex, stems

CUT: list[tuple[str, list[str]]] = [
    ("Don't PANIC: 4,5 C++", ["don", "t", "panic", "4", "5", "c"]),
    ("Straße ﬁne ＡＢＣ１２", ["strasse", "fine", "abc12"]),
    ("私は猫", ["私は", "は猫", "猫"]),
    ("GPT模型 v2", ["gpt", "模型", "型", "v2"]),
    ("snake_case('x')", ["snake", "case", "x"]),
    ("x" * 100, ["x" * 64]),
    ("?! 🎉 \x00", []),
]


def test_a_text_is_cut_into_words() -> None:
    for text, expected in CUT:
        assert words.words(text) == expected


def test_what_is_one_word_here_is_one_word_to_sqlite() -> None:
    """Otherwise the index, which stores no positions, would refuse to search for it."""
    codes = (*range(1, 0x3100), *range(0x3100, sys.maxunicode + 1, 97))
    letters = map(chr, codes)
    every = {word for letter in letters for word in words.words(f"x{letter}y 字{letter}")}
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE a USING fts5(t, tokenize='porter unicode61')")
        database.execute("CREATE VIRTUAL TABLE b USING fts5vocab(a, instance)")
        assert len(every) > 5_000
        database.executemany("INSERT INTO a (t) VALUES (?)", ((word,) for word in every))
        (most,) = database.execute("SELECT MAX(offset) FROM b").fetchone()
    assert most == 0


def test_a_question_looks_for_what_says_something() -> None:
    asked = question("When did Ann go to the pottery class?", {"ann"})
    assert asked.terms == (
        Term("go"),
        Term("pottery"),
        Term("class"),
        Term("potte", is_prefix=True),
        Term("class", is_prefix=True),
    )
    assert asked.asks_when
    assert not asked.asks_self
    assert question("What did I say of my class?", set()).asks_self


def test_names_and_stop_words_are_looked_for_where_there_is_nothing_else() -> None:
    assert question("Ann?", {"ann"}).terms == (Term("ann"),)
    assert [term.word for term in question("Who is it?", set()).terms] == ["who", "is", "it"]
    assert question("", set()).terms == ()


def test_a_question_as_long_as_a_book_looks_for_its_last_words() -> None:
    terms = question(" ".join(f"w{n}" for n in range(10_000)), set()).terms
    assert [term.word for term in terms] == [f"w{n}" for n in range(9_968, 10_000)]
    repeated = question("tea " + " ".join(f"w{n}" for n in range(99)) + " tea", set()).terms
    assert repeated[30:] == (Term("w98"), Term("tea"))


def test_a_lone_chinese_character_is_looked_for_as_a_beginning() -> None:
    assert question("猫", set()).terms == (Term("猫", is_prefix=True),)
    assert question("谁", set()).terms == (Term("谁", is_prefix=True),)


SMALL: list[tuple[str, str]] = [
    ("Where did we go for the weekend?", "where"),
    ("Wann fahren wir nach Lissabon?", "nach"),
    ("Quand est-ce que nous partons pour Lyon ?", "nous"),
    ("¿Dónde está mi pasaporte?", "mi"),
    ("我们什么时候去北京？", "什么"),
    ("京都に行きましたか", "した"),
]


def test_a_text_is_told_by_its_small_words() -> None:
    for text, stops in SMALL:
        found = language_of(words.words(text))
        assert stops in found.stop
        assert sum(stops in language.stop for language in LANGUAGES) == 1


DATES: list[tuple[str, list[tuple[int, int, int]]]] = [
    ("on 8 May, 2023?", [(2023, 5, 8)]),
    ("on May 8th", [(0, 5, 8)]),
    ("MAY 8, 2023", [(2023, 5, 8)]),
    ("the 10th of February 2024", [(2024, 2, 10)]),
    ("on Jan. 7", [(0, 1, 7)]),
    ("am 8. Mai 2023", [(2023, 5, 8)]),
    ("le 1er août", [(0, 8, 1)]),
    ("el 8 de mayo de 2023", [(2023, 5, 8)]),
    ("02.01.2024 and 3.1.24", [(2024, 1, 2), (2024, 1, 3)]),
    ("2024-04-17 19:00", [(2024, 4, 17)]),
    ("13/4/2024", [(2024, 4, 13)]),
    ("5/8/2023", [(2023, 8, 5), (2023, 5, 8)]),
    ("2024年4月17日，５月３０日", [(2024, 4, 17), (0, 5, 30)]),
    ("in June, or in May 2023", [(2023, 5, 0), (0, 6, 0)]),
    ("im März", [(0, 3, 0)]),
    ("2023年5月", [(2023, 5, 0)]),
    ("You may march. 31 February, 30.2.2024, 0/0/2024, 1.2.3, 192.168.1.1, 5 mayors", []),
    ("8 May 0000", [(0, 5, 8)]),
    ("8 May 2023" + " 1" * 5_000, []),
    ("1 " * 5_000 + "8 May 2023", [(2023, 5, 8)]),
    (" ".join(f"{n}.1.2024" for n in range(1, 32)), [(2024, 1, n) for n in range(1, 6)]),
]


def test_dates_are_read_as_people_write_them() -> None:
    for text, expected in DATES:
        assert list(find_dates(text)) == expected


OFF: list[tuple[NamedDate, date, int]] = [
    (NamedDate(2023, 5, 8), date(2023, 5, 8), 0),
    (NamedDate(2023, 5, 8), date(2022, 5, 8), 365),
    (NamedDate(0, 5, 8), date(2022, 5, 6), 2),
    (NamedDate(0, 1, 1), date(2022, 12, 30), 2),
    (NamedDate(0, 2, 29), date(2023, 3, 1), 1),
    (NamedDate(2023, 5, 0), date(2023, 5, 31), 0),
    (NamedDate(2023, 5, 0), date(2023, 4, 28), 3),
    (NamedDate(0, 12, 0), date(9999, 12, 31), 0),
    (NamedDate(0, 12, 0), date(1, 1, 1), 334),
]


def test_a_date_is_so_many_days_off_in_the_year_that_is_nearest() -> None:
    for named, day, off in OFF:
        assert named.days_off([day]) == {day: off}


@given(st.dates(min_value=date(1000, 1, 1)), st.sampled_from(("%Y-%m-%d", "%d.%m.%Y", "%Y/%m/%d")))
def test_every_day_of_the_calendar_is_read(day: date, form: str) -> None:
    (found,) = find_dates(f"What was on {day.strftime(form)}?")
    assert found == (day.year, day.month, day.day)
    assert found.days_off([day]) == {day: 0}


@given(st.text(alphabet="0123456789 ./-月日年maydefbrth,", max_size=60), st.dates())
def test_any_text_may_name_dates(text: str, day: date) -> None:
    assert all(0 <= named.days_off([day])[day] < 4_000_000 for named in find_dates(text))


CUES = {
    "LATER": request_signs.LATER,
    "PROMISES": request_signs.PROMISES,
    "DONE": request_signs.DONE,
    "DEED": request_signs.DEED,
    "PROMISES_BY": request_signs.PROMISES_BY,
    "COMMITS": request_signs.COMMITS,
    "WAITS": request_signs.WAITS,
    "NOT_NOW": request_signs.NOT_NOW,
    "CHANGES": superseded.CHANGES,
    "SO_NOW": superseded.SO_NOW,
}
PIECES = st.sampled_from(
    [
        *(
            "4 May",
            "May 4th",
            "4. Mai",
            "04.05.2026",
            "4.5.",
            "12:30",
            "3pm",
            "10 Uhr",
            "$5",
            "20 €",
        ),
        *("1,234.50", "12%", "5k", "v2.1", "ABC-12", "snake_case", "camelCase", "x1", "31/12/24"),
        *(
            "https://x.org/a?b=1",
            "a@b.co",
            "/etc/passwd",
            "5月4日",
            "下午3点",
            "and",
            "Mai",
            "(",
            ",",
        ),
        *("a" * 70 + "1", "\n", "“", "-", "2026-05-04"),
    ]
)
TEXTS = st.lists(st.tuples(PIECES, st.sampled_from([" ", "", "  "])), max_size=12).map(
    lambda pairs: "".join(map("".join, pairs))
)


@pytest.mark.parametrize("name", CUES)
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_cue_has_a_word_of_each_match(name: str, data: st.DataObject) -> None:
    cue: CuedPattern = CUES[name]
    pattern = re.compile(cue.pattern.pattern, cue.pattern.flags)
    text = data.draw(st.from_regex(pattern)) + data.draw(st.sampled_from(["", " and", "。"]))
    assert cue.is_in(text, WordIndex().heads(text)) == bool(pattern.search(text))


@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_words_have_the_stems_of_their_text(text: str) -> None:
    assert WordIndex().stems([text, "Hotels 酒店"]) == stems(f"{text}\nHotels 酒店")


@pytest.mark.parametrize(
    ("kind", "pattern"), [("url", facts._URL), ("time", facts._TIME), ("number", facts._NUMBER)]
)
@settings(max_examples=60, deadline=None)
@given(TEXTS)
def test_facts_stand_at_their_signs(kind: str, pattern: re.Pattern[str], text: str) -> None:
    (finder,) = (one for one in (*facts._EXACT, *facts.IN_PROSE) if one.kind == kind)
    there = {found.start() for found in pattern.finditer(text)}
    found = [start for start, *_ in finder.find(text)]
    assert found == sorted(there & set(found))
    plain = {m.start() for m in pattern.finditer(text) if len(re.findall(r"\d", m[0])) > 1}
    assert kind != "number" or plain <= set(found)


def test_a_pattern_is_compiled_with_its_first_use() -> None:
    lazily = lazy("(", re.IGNORECASE)
    assert lazily.pattern == "("
    with pytest.raises(re.error):
        lazily.search("")
