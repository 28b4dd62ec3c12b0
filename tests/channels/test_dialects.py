"""Texts in each platform's dialect, and split if they are too long for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from html import escape, unescape
from html.parser import HTMLParser
from itertools import count, product
from typing import Any
from urllib.parse import unquote

import pytest
import regex
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from channels.discord import rendering as discord
from channels.feishu.reading import converted, size
from channels.kit.markdown import join_links, render_html
from channels.slack import rendering as slack
from channels.splitting import Length, split
from channels.telegram import rendering as telegram
from channels.terminal import display
from channels.whatsapp import letters as whatsapp
from tests.tables import each_row

_VOID = {"br", "hr", "img"}


def _in_discord(markdown: str) -> str:
    text = discord.rendered(markdown)
    # A backslash escapes a character; one without a special meaning is a mark.
    assert text.count("```") % 2 == 0, text
    marks = re.sub(r"\\.|```.*?```|`+[^`]+`+|<http[^>]*>", "", text, flags=re.DOTALL)
    assert all(marks.count(mark) % 2 == 0 for mark in ("**", "~~")), text
    return text


def _in_slack(markdown: str) -> str:
    return " ".join(_told(slack.blocks(markdown)))


def _told(value: Any) -> Iterator[str]:
    """Yield the texts and addresses in blocks."""
    if isinstance(value, dict):
        yield from (
            str(value[name]) for name in ("text", "url") if isinstance(value.get(name), str)
        )
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from _told(one)


def _in_whatsapp(markdown: str) -> str:
    text = whatsapp.rendered(markdown)
    assert text.count("```") % 2 == 0, text
    # A character within a word is no mark.
    plain = re.sub(r"```.*?```|`[^`]+`|(?<=[^\W_])[*_~](?=[^\W_])", "", text, flags=re.DOTALL)
    for line in plain.split("\n"):
        assert all(line.count(sign) % 2 == 0 for sign in "*_~"), text
    return text


def _in_telegram(markdown: str) -> str:
    shown = telegram.rendered(markdown)
    ends = len(shown.text.encode("utf-16-le")) // 2
    assert all(0 <= one.offset < one.offset + one.length <= ends for one in shown.entities)
    return " ".join((shown.text, *(str(one.url) for one in shown.entities)))


class _Balanced(HTMLParser):
    """A reader of HTML that requires each tag to be closed by its own."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.told: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not (tag == "a" and "a" in self.open), "a link within a link"
        self.open += [] if tag in _VOID else [tag]
        self.told += [value for _name, value in attrs if value]

    def handle_endtag(self, tag: str) -> None:
        assert tag in _VOID or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.told.append(data)


def _in_html(markdown: str) -> str:
    reader = _Balanced()
    reader.feed(render_html(markdown) or escape(markdown))
    assert not reader.open
    return unquote(" ".join(reader.told))


def _in_feishu(markdown: str) -> str:
    return unescape(converted(markdown))


def _at_the_terminal(markdown: str) -> str:
    # A word or an address that is wider than the screen continues below.
    return re.sub(r"\s+", " ", display.markdown(markdown, 2_000))


DIALECTS: dict[str, tuple[Callable[[str], str], Length]] = {
    "discord": (_in_discord, discord.length),
    "slack": (_in_slack, slack.length),
    "whatsapp": (_in_whatsapp, lambda text: whatsapp.units(whatsapp.rendered(text))),
    "telegram": (_in_telegram, telegram.measure),
    "html": (_in_html, len),
    "feishu": (_in_feishu, size),
    "terminal": (_at_the_terminal, len),
}

# In a text, each "@" becomes a different word, and each "%" a different address.
_SPANS = st.sampled_from(
    [
        *(
            "@",
            "@ @",
            "**@**",
            "*@*",
            "~~@~~",
            "***@***",
            "`@`",
            "@**@**@",
            "**@ *@* @**",
            "*@***@**",
        ),
        *("[@](%)", "**[@](%)**", "[**@** `@`](%)", "[@](% '@')", "<%>", "%", "![@](%)"),
        *("[![@](%)](%)", "[@][1]", "@\\*@", "@_@", "@ & @ < @ > @", "@\n@", "@  \n@", "2*@*4"),
    ]
)
_LINES = st.lists(_SPANS, min_size=1, max_size=5).map(" ".join)
_ROWS = st.lists(
    st.sampled_from(["@", "[@](%)", "`@`", "**@**", "", "重@"]), min_size=1, max_size=4
)


def _in_lines(mark: str) -> Callable[[str], str]:
    margin = " " * len(mark) if mark != "> " else mark
    return lambda text: mark + text.replace("\n", f"\n{margin}")


def _table(rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "--:|" * len(rows[0]), *lines[1:]])


_BLOCKS = st.recursive(
    st.one_of(
        _LINES,
        st.tuples(st.integers(1, 6), _SPANS).map(
            lambda one: "#" * one[0] + " " + one[1].replace("\n", "")
        ),
        st.sampled_from(["---", "```py\n@\n\n@ **@\n```", "    @\n    @", "~~~\n@ ``` @\n~~~"]),
        st.sampled_from(["[@]: %", "[1]: %", "> ", "[@]: % '@'"]),
        st.lists(_ROWS, min_size=1, max_size=4).map(_table),
    ),
    lambda blocks: st.lists(blocks, min_size=1, max_size=3).flatmap(
        lambda some: st.sampled_from(
            [
                "\n".join(map(_in_lines("- "), some)),
                "\n".join(_in_lines(f"{n}. ")(one) for n, one in enumerate(some, 3)),
                _in_lines("> ")("\n\n".join(some)),
            ]
        )
    ),
    max_leaves=6,
)


def _address(number: int) -> str:
    """Return a web address, or every third time a path, which few platforms link to."""
    return f"https://a{number}.example/b" if number % 3 else f"files/a{number}.txt"


def _numbered(shape: str) -> str:
    """Return the text of a shape, with different words and addresses."""
    number = count(100)
    return re.sub(
        "[@%]",
        lambda found: f"w{next(number)}x" if found[0] == "@" else _address(next(number)),
        shape,
    )


TEXTS = st.lists(_BLOCKS, min_size=1, max_size=5).map("\n\n".join).map(_numbered)


def _lost(markdown: str, shown: Iterable[str]) -> list[str]:
    told = " ".join(shown)
    names = re.findall(r"w\d+x|https://a\d+\.example/b|files/a\d+\.txt", markdown)
    titles = re.findall(r"\(\S+ '(\w+)'\)", markdown)  # shown by hovering, if the platform can
    return [name for name in names if name not in told and name not in titles]


@pytest.mark.parametrize("name", DIALECTS)
@given(markdown=TEXTS)
@settings(max_examples=60)
def test_no_word_and_no_address_is_lost_and_no_mark_left_open(name: str, markdown: str) -> None:
    show, _length = DIALECTS[name]
    assert not _lost(markdown, [show(markdown)]), markdown


@pytest.mark.parametrize("name", DIALECTS)
@given(markdown=TEXTS)
@settings(max_examples=15)
def test_neither_is_in_pieces(name: str, markdown: str) -> None:
    show, length = DIALECTS[name]
    # Code within a list, once it is split, may begin in a place where code can't begin.
    assume(not re.search(r"^[ >\-\d.]+[`~]{3}", markdown, re.MULTILINE))
    pieces = [*split(markdown, 300, length)]
    assert all(length(piece) <= 300 for piece in pieces)
    shown = [show(piece) for piece in pieces]
    assert not _lost(markdown, shown), pieces


@each_row(
    ("markdown", "joined"),
    [
        ("[a][1] b\n\n[1]: x://y", "[a](<x://y>) b\n\n"),
        ("[a] b\n\n[A]: x://y", "[a](<x://y>) b\n\n"),
        ("[a][]\n[a]: <x://y>", "[a](<x://y>)\n"),
        ("[a][2]\n\n[1]: x://y", "[a][2]\n\n[1]: x://y"),
        ("`[a][1]`\n\n[1]: x://y", "`[a][1]`\n\n[1]: x://y"),
        ("```\n[1]: x://y\n```\n[a][1]", "```\n[1]: x://y\n```\n[a][1]"),
        ("[1](z) \\[1]\n\n[1]: x://y", "[1](z) \\[1]\n\n[1]: x://y"),
        ("[a][1]\n\n[1]: x://y 'title'", "[a][1]\n\n[1]: x://y 'title'"),
    ],
)
def test_an_address_comes_to_the_words_that_lead_there(markdown: str, joined: str) -> None:
    assert join_links(markdown) == joined


@each_row("name", DIALECTS)
def test_what_has_no_words_shows_its_address(name: str) -> None:
    for markdown in ("![](https://a.example/b)", "x [](https://a.example/b)"):
        assert "https://a.example/b" in DIALECTS[name][0](markdown)


@each_row(
    ("name", "markdown"),
    product(
        DIALECTS,
        [
            "*w1x " * 240 + "w2x* " * 240,
            "![" * 240 + "w1x" + "](a)" * 240,
            "".join("  " * level + "- w1x\n" for level in range(100)),
            "> " * 25 + "w1x\n" + "*a " * 150 + "w2x" + " a*" * 150,
            "".join("  " * level + "- a\n" for level in range(28))
            + " " * 58
            + "*a _b " * 50
            + "w1x",
        ],
    ),
)
def test_no_text_is_nested_too_deeply_to_be_shown(name: str, markdown: str) -> None:
    assert not _lost(markdown, [DIALECTS[name][0](markdown)])


@given(st.text("*_~`[]()|<>!#-+.\\ \n1a", max_size=60))
def test_what_looks_like_markup_and_is_none_stays_balanced(markdown: str) -> None:
    _in_html(markdown)
    for show in (discord.rendered, whatsapp.rendered):
        letters = [sign for sign in show(markdown) if sign == "a"]
        assert len(letters) >= markdown.count("a"), markdown


WORDS = st.text("abc äß中文。, .!\n😀\u0301\u200d👩", max_size=600)
LINES = st.lists(st.text("abc {}|`-", max_size=40), max_size=40)


def bare(text: str) -> str:
    """Return a text without white space."""
    return "".join(text.split())


def utf16(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


@given(WORDS, st.integers(20, 200))
def test_the_pieces_of_a_plain_text_are_the_text(text: str, longest: int) -> None:
    pieces = list(split(text, longest))
    assert bare("".join(pieces)) == bare(text)
    assert all(0 < len(piece) <= longest for piece in pieces)


@given(WORDS, st.integers(20, 200))
def test_no_piece_is_longer_than_allowed_in_the_units_of_the_platform(
    text: str, longest: int
) -> None:
    assert all(utf16(piece) <= longest for piece in split(text, longest, utf16))


@given(LINES, st.sampled_from(("```", "~~~", "````")), st.integers(60, 200))
def test_code_that_is_split_is_code_in_every_piece(
    lines: list[str], fence: str, longest: int
) -> None:
    code = [line for line in lines if fence not in line and "```" not in line]
    text = f"Look:\n\n{fence}py\n" + "\n".join(code) + f"\n{fence}\n\nThat was it."
    pieces = list(split(text, longest))
    fences = [piece.count(fence) for piece in pieces]
    assert all(count % 2 == 0 for count in fences)
    without = [re.sub(rf"^{fence}(py)?$", "", piece, flags=re.MULTILINE) for piece in pieces]
    assert bare("".join(without)) == bare("Look:" + "".join(code) + "That was it.")
    assert all(len(piece) <= longest for piece in pieces)


@given(st.text("ab`~|-\n> \\", max_size=400), st.integers(20, 60))
def test_any_markup_is_split_into_pieces_that_fit(text: str, longest: int) -> None:
    assert all(len(piece) <= longest for piece in split(text, longest))


def test_it_splits_between_paragraphs_then_lines_then_sentences_then_words() -> None:
    for text, pieces in [
        ("One two.\n\nThree four five.", ["One two.", "Three four five."]),
        ("One two three.\nFour five six.", ["One two three.", "Four five six."]),
        ("It is so. And so it goes on.", ["It is so.", "And so it goes on."]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("x" * 45, ["x" * 20, "x" * 20, "x" * 5]),
    ]:
        assert [piece.strip() for piece in split(text, 20)] == pieces, text


def test_a_table_that_is_split_has_its_header_in_every_piece() -> None:
    rows = "\n".join(f"| {n} | {n * n} |" for n in range(40))
    pieces = list(split(f"| n | square |\n|---|---:|\n{rows}\n", 120))
    assert len(pieces) > 3
    assert all(piece.startswith("| n | square |\n|---|---:|\n| ") for piece in pieces)


def test_a_split_comes_before_code_that_fits_into_the_next_piece() -> None:
    text = "word " * 14 + "\n\n```py\n" + "line\n" * 12 + "```"
    first, second = split(text, 100)
    assert "```" not in first
    assert second.startswith("```py")


FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
TANNED = "\U0001f469\U0001f3fd\u200d\U0001f4bb"
ENGLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
GERMANY = "\U0001f1e9\U0001f1ea"
KEYCAP = "1\ufe0f\u20e3"


@given(
    st.lists(st.sampled_from([FAMILY, TANNED, ENGLAND, GERMANY, KEYCAP, "a"]), max_size=60),
    st.integers(14, 60),
)
def test_what_is_one_sign_to_the_eye_is_never_torn(signs: list[str], longest: int) -> None:
    pieces = list(split("".join(signs), longest))
    seen = [sign for piece in pieces for sign in regex.findall(r"\X", piece)]
    assert seen == signs
    assert all(len(piece) <= longest for piece in pieces)
