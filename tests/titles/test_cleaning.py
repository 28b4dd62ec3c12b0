"""A title is one line of plain words, or none, whatever a model writes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from bot.listing import LONGEST_TITLE
from plugins.titles.cleaning import clean_title

TITLES = (
    *("Lisbon in autumn", "Fixing __init__ imports", "my_func_name fails", "Reise nach Köln"),
    *(
        "里斯本秋季旅行",
        "C# or F#",
        "What is 2 * 3?",
        "Don't panic",
        "Costs 3.14 of 12",
        "Q3 – plan",
        "می\u200cخواهم کتاب بخوانم",
        "👨\u200d👩\u200d👧 trip",
    ),
)
AROUND = (
    *("{}", "**{}**", '"{}"', "“{}”", "„{}“", "«{}»", "# {}", "## {} ##", "`{}`", "```\n{}\n```"),
    *(
        "Title: {}",
        "**Title:** {}",
        "Titel: „{}“",
        "标题：《{}》",
        "*{}*",
        "__{}__",
        "- {}",
        "1. {}",
    ),
    *("> {}", "<title>{}</title>", "[{}](http://example.org)", "{}.", "{}\n\nI hope it fits!"),
    *("Here is a title for it:\n\n**{}**", "Sure! A title:\n{}", "<think>Hm. A?</think>\n{}"),
    *("\n\n  {}  \n", "\u202e{}\u200b", "{}\x00\x1b", "({})", "Title:\n{}", "'{}'", "~~{}~~"),
)


@given(st.sampled_from(TITLES), st.sampled_from(AROUND), st.sampled_from(AROUND))
def test_a_title_is_found_in_what_stands_around_it(title: str, inner: str, outer: str) -> None:
    assume("__" not in title or "__" not in inner + outer)
    assert clean_title(inner.format(title)) == title
    is_of_one_line = "\n" not in inner and not inner.startswith("<")
    if is_of_one_line and not (inner == "{}." and outer.endswith("{}")):
        assert clean_title(outer.format(inner.format(title))) == title


PIECES = st.sampled_from(
    [
        *("#", "*", "**", "_", "`", "```", '"', "“", "”", "'", "[", "](x)", "<b>", "\n", "\r"),
        *("\u2028", "\x00", "\u202e", "\ud800", "|", ":", ".", "…", " ", "a", "Ab", "12", "中文"),
        *("é", "word " * 9, "Title:", "<think>", "</think>", "-", "(", ")", "{", "}", "x" * 90),
    ]
)


@given(st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=200))
@example("I'm sorry, but I can't help with that.")
@example("<think>only a thought")
def test_a_title_is_short_has_one_line_and_is_stable(written: str) -> None:
    title = clean_title(written)
    assert len(title) <= LONGEST_TITLE
    assert len(title.splitlines()) <= 1
    assert title == title.strip()
    assert not set(title) & set('"“”„«»`\u202e\u2028\x00\ud800')
    assert not any(unicodedata.category(sign) in ("Cc", "Cs") for sign in title)
    assert "**" not in title or title.count("**") == 1
    assert not title.startswith(("# ", "- ", "> "))
    assert not title or any(sign.isalnum() for sign in title)


def test_what_is_no_title_is_none() -> None:
    for written in (
        *("", "  \n ", "***", "“”", "Title:", "<think>The user wants a title", "Some titles:"),
        "I'm sorry, but I can't help with that request.",
    ):
        assert clean_title(written) == "", written


@pytest.mark.parametrize("piece", ["*", "<!--", "[", "a:", "- ", "(", "`", "<think>", "x:\n"])
def test_an_answer_of_a_megabyte_is_read_in_part(piece: str) -> None:
    assert len(clean_title(piece * (1_000_000 // len(piece)))) <= LONGEST_TITLE
    assert clean_title(f"<think>{'hm ' * 300_000}</think>Lisbon in autumn") == "Lisbon in autumn"
