"""In a search, whole words rank above parts of words, and consecutive words above scattered
ones."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume, example, given
from hypothesis import strategies as st

from memory.record.closeness import (
    MOST_WORDS,
    NOWHERE,
    MatchScore,
    closeness,
    fold,
    measure,
)

WHOLE = (
    *("12", "2012", "3.14", "a-17", "2026-11-27", "27.11.2026", "12:30", "1,500", "3/4", "v1.2.3"),
    *("hotel", "lisbon", "c++", "my_func", "don't", "straße", "c#", "é", "№5", "$12", "50%", "x"),
)
WORDS = st.sampled_from(WHOLE)
FILLER = st.lists(st.sampled_from(["and", "the", "so", "of", "well"]), min_size=2, max_size=4)
SIGNS = st.sampled_from([" ", ". ", ", ", "! ", "\n", " (", ") ", ": ", "; ", " “", "” ", " - "])
LONGER = st.sampled_from(["0", "7", "x", "ab", "_", ".5", "-3", ",000", "/2", ":45"])


def near(text: str, words: str) -> MatchScore:
    return closeness(text.casefold(), fold(words))


@given(WORDS, SIGNS, SIGNS)
def test_a_word_number_or_code_is_whole_between_signs(word: str, before: str, after: str) -> None:
    assert near(f"it{before}{word}{after}is", word).whole == 1
    assert near(word, word).whole == near(f"{word}.", word).whole == 1


@given(WORDS, LONGER, st.booleans(), FILLER)
@example("12", "20", False, ["the"])
def test_what_is_longer_comes_after_what_is_whole(
    word: str, more: str, is_behind: bool, filler: Sequence[str]
) -> None:
    longer = word + more if is_behind else more.strip(".,/:-") + word
    edge = word[-1] if is_behind else word[0]
    assume(edge.isdigit() or (edge.isalnum() and more[0].isalnum()) or more == "_")
    assume(edge.isalnum())
    part, whole = f"{longer} {' '.join(filler)}", f"{' '.join(filler)} {word}"
    assert near(part, word).whole == 0
    assert NOWHERE < near(part, word) < near(whole, word)


@given(st.lists(WORDS, min_size=2, max_size=5, unique=True), FILLER, SIGNS, st.randoms())
def test_a_phrase_comes_before_scattered_words(
    words: list[str], filler: list[str], sign: str, random: object
) -> None:
    phrase = f"{' '.join(filler)} {sign.join(words)} {' '.join(filler)}"
    scattered = f" {' '.join(filler)} ".join(words)
    backwards = " ".join(reversed(words))
    asked = " ".join(words)
    for other in (scattered, backwards):
        assert near(other, asked) < near(phrase, asked)
        assert near(other, asked).held == near(phrase, asked).held
    _, place = measure(f"{scattered} and {phrase}".casefold(), fold(asked))
    assert place == len(f"{scattered} and {' '.join(filler)} ".casefold())


@given(st.lists(WORDS, min_size=1, max_size=4, unique=True), FILLER)
def test_who_holds_more_of_the_words_comes_first(words: list[str], filler: list[str]) -> None:
    assume(not any(one in other for one in words for other in [*words, *filler] if one != other))
    assert near(" ".join(filler), " ".join(words)) == NOWHERE
    all_of_them = near(f" {' '.join(filler)} ".join(words), " ".join(words))
    assert all_of_them.held == 2 * len(words)
    for word in words:
        rest = f" {' '.join(filler)} ".join(one for one in words if one != word)
        assert near(rest, " ".join(words)) < all_of_them


def test_a_language_without_blanks_has_its_words_whole_anywhere() -> None:
    for text, word in (
        ("我在东京都住", "东京"),
        ("ฉันรักกรุงเทพมาก", "กรุงเทพ"),
        ("彼はリスボンへ", "リスボン"),
    ):
        assert near(text, word).whole == 1
    assert near("我有2012年的", "12").whole == 0
    assert near("我有12年的", "12").whole == 1


@given(st.text(max_size=60), st.text(max_size=12))
def test_any_text_can_be_measured(text: str, words: str) -> None:
    found, place = measure(text.casefold(), fold(words))
    assert 0 <= place <= len(text.casefold())
    assert 0 <= found.whole <= found.held <= 2 * len(fold(words))


def test_very_many_words_are_measured_by_the_first_of_them() -> None:
    assert fold("a b " * 100_000) == ["a", "b"] * (MOST_WORDS // 2)
    assert fold("Bora Bora") == ["bora", "bora"], "a word that comes twice makes another phrase"


@given(st.lists(WORDS, min_size=1, max_size=4), st.sampled_from(['""', "“”", "„“", "«»", "「」"]))
def test_what_stands_in_quotation_marks_is_looked_for_as_one(words: list[str], marks: str) -> None:
    phrase = " ".join(words)
    quoted = f"{marks[0]}{phrase}{marks[1]}"
    assert fold(quoted) == fold(f" {quoted} ") == [phrase.casefold()]
    assert fold(f"so {quoted} and") == ["so", phrase.casefold(), "and"]
    assert fold(quoted[:-1]) == fold(phrase), "a mark that is still alone"


def test_a_quotation_mark_within_a_word_or_alone_is_looked_for() -> None:
    assert fold('5"2 x') == ['5"2', "x"]
    assert fold('" “') == ['"', "“"]
