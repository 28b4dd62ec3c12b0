"""Words: what is stored and looked for is cut alike, in every script."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime

import pytest

from memory.record.search import words
from memory.record.search.words import LANGUAGES, Term, question


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't PANIC: 4,5 C++", ["don", "t", "panic", "4", "5", "c"]),
        ("Straße ﬁne ＡＢＣ１２", ["strasse", "fine", "abc12"]),
        ("私は猫", ["私は", "は猫", "猫"]),
        ("GPT模型 v2", ["gpt", "模型", "型", "v2"]),
        ("snake_case('x')", ["snake", "case", "x"]),
        ("x" * 100, ["x" * 64]),
        ("?! 🎉 \x00", []),
    ],
)
def test_a_text_is_cut_into_words(text: str, expected: list[str]) -> None:
    assert words.words(text) == expected


def test_what_is_one_word_here_is_one_word_to_sqlite() -> None:
    """Else the index, which keeps no positions, would refuse to look for it."""
    letters = (chr(code) for code in range(1, sys.maxunicode + 1))
    every = {word for letter in letters for word in words.words(f"x{letter}y 字{letter}")}
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE a USING fts5(t, tokenize='porter unicode61')")
        database.execute("CREATE VIRTUAL TABLE b USING fts5vocab(a, instance)")
        assert len(every) > 100_000
        database.executemany("INSERT INTO a (t) VALUES (?)", ((word,) for word in every))
        (most,) = database.execute("SELECT MAX(offset) FROM b").fetchone()
    assert most == 0


def test_a_question_looks_for_what_says_something() -> None:
    asked = question("When did Ann go to the pottery class?", {"ann"})
    assert asked.terms == (
        Term("go", 0.6),
        Term("pottery"),
        Term("potte", 0.3, is_prefix=True),
        Term("class"),
        Term("class", 0.3, is_prefix=True),
    )
    assert asked.asks_when
    assert not asked.asks_many


def test_names_and_stop_words_are_looked_for_where_there_is_nothing_else() -> None:
    assert question("Ann?", {"ann"}).terms == (Term("ann"),)
    assert [term.word for term in question("Who is it?", set()).terms] == ["who", "is", "it"]
    assert question("", set()).terms == ()


def test_a_question_as_long_as_a_book_looks_for_its_first_words() -> None:
    terms = question(" ".join(f"w{n}" for n in range(10_000)), set()).terms
    assert [term.word for term in terms] == [f"w{n}" for n in range(32)]


def test_a_lone_chinese_character_is_looked_for_as_a_beginning() -> None:
    assert question("猫", set()).terms == (Term("猫", is_prefix=True),)
    assert question("小猫", set()).terms == (Term("小猫"),)


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("Where did we go for the weekend?", "where"),
        ("Wann fahren wir nach Lissabon?", "nach"),
        ("Quand est-ce que nous partons pour Lyon ?", "nous"),
        ("¿Dónde está mi pasaporte?", "mi"),
        ("我们什么时候去北京？", "什么"),
        ("京都に行きましたか", "した"),
    ],
)
def test_a_text_is_told_by_its_small_words(text: str, stops: str) -> None:
    found = words.language_of(words.words(text))
    assert stops in found.stop
    assert sum(stops in language.stop for language in LANGUAGES) == 1


def test_a_date_is_named_by_day_month_and_year() -> None:
    day = datetime(2023, 5, 8, tzinfo=UTC)
    named = [word for word in ("may", "mai", "8", "2023", "june", "5") if words.dates(word, day)]
    assert named == ["may", "mai", "8", "2023"]
