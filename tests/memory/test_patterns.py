"""Patterns that are compiled when they are needed, and the words without which none can match."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.patterns import PatternList, lazy, needed_words
from plugins.instructions import detect_chinese, detect_english, detect_german

WORDS = st.text("ab 好", min_size=1, max_size=3)
SIGNS = st.sampled_from([".", r"\w", r"\b", r"\.", "[ab]", "[^]a]", "$", "^", r"\u597d", "é"])
TIMES = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{0,2}", "{1,}", "{,2}", "??"])
OPENINGS = st.sampled_from(["(?:", "(", "(?=", "(?!", "(?:"])


def with_more(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    branches = st.lists(inner, min_size=1, max_size=3).map("|".join)
    groups = st.builds(lambda opening, text: f"{opening}{text})", OPENINGS, branches)
    repeated = st.builds(str.__add__, st.one_of(groups, st.just("(?:a)")), TIMES)
    return st.lists(st.one_of(inner, repeated), min_size=1, max_size=4).map("".join)


REPEATED = st.builds(str.__add__, st.one_of(WORDS, SIGNS.filter(lambda s: s not in "^$")), TIMES)
SOURCES = st.recursive(st.one_of(WORDS, SIGNS, REPEATED), with_more, max_leaves=12)


def compiled(source: str) -> re.Pattern[str]:
    try:
        return re.compile(source)
    except (re.error, OverflowError):  # "\b*" and the like
        return re.compile("")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_list_finds_what_its_pattern_finds(data: st.DataObject) -> None:
    pattern = compiled(data.draw(SOURCES))
    listed = PatternList(pattern.pattern)
    for texts in (st.text("ab .好é", max_size=8), st.from_regex(pattern)):
        text = data.draw(texts)
        assert PatternList(pattern.pattern).match(text) == bool(pattern.match(text))
        assert listed.search(text) == bool(pattern.search(text))


@pytest.mark.parametrize("module", [detect_chinese, detect_english, detect_german])
def test_all_orders_are_read(module: object) -> None:
    sources = module._ORDERS._sources  # type: ignore[attr-defined]
    assert all(map(needed_words, sources))


@pytest.mark.parametrize(
    ("source", "needed"),
    [
        ("call me (?!back)", [{"call me "}]),
        ("(?:do|please do?) not", [{" not"}, {"do", "please d"}]),
        ("(?:and )?(?=.*ever)x", [{"ever"}]),
        (r"(?:never|\w+)", []),
        ("(?i:never)", []),
        ("从.{1,3}(?:起|开始)", [{"从"}, {"起", "开始"}]),
    ],
)
def test_the_words_are_those_of_each_alternative(source: str, needed: list[set[str]]) -> None:
    assert sorted(map(sorted, needed_words(source))) == sorted(map(sorted, needed))


def test_a_pattern_is_compiled_with_its_first_use() -> None:
    lazily = lazy("(", re.IGNORECASE)
    assert lazily.pattern == "("
    with pytest.raises(re.error):
        lazily.search("")
