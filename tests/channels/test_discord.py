"""Texts as Discord shows them, and the wait that it asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import discord
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from channels.discord import DiscordSettings
from channels.discord.platform import Discord
from channels.discord.rendering import escaped, length, rendered
from channels.splitting import split
from tests.fakes.discord_markup import read, words

SIGNS = "aB1 é中*_`~|<>@#[]()-+.:!\\/\n\t&\"'"
texts = st.text(st.sampled_from(SIGNS), max_size=80)
pieces = (
    *("word", "a_b", "__init__", "*", "**", "_", "`", "``", "~~", "||", "<@1>", "<t:1>", "@here"),
    *("1. ", "# ", "- ", "> ", ">>> ", "-# ", "```", "[x](", "](http://a.b)", "\\", "<b>", "\n"),
    *("https://a.b/c_d_e", "https://a.b/(c)", "**bold**", "*it*", "`code`", "~~s~~", "***x***"),
    *("[t](https://a.b/c)", "![p](https://a.b/c.png)", "| a | b |", "|---|---|", "中文", "\n\n"),
)
phrases = st.lists(st.sampled_from(pieces), max_size=12).map("".join)


def letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


STYLES = {"strong": "bold", "em": "italic", "s": "strike", "code_inline": "code", "fence": "block"}
STYLES |= {"code_block": "block", "table": "block", "blockquote": "quote"}


def meant(markdown: str) -> list[tuple[str, frozenset[str]]]:
    """Return the letters of a text in Markdown, each with its style."""
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": 100})
    root = SyntaxTreeNode(parser.enable(["table", "strikethrough"]).parse(markdown))
    return [(sign, styles) for text, styles in _walked(root) for sign in text if sign.isalnum()]


def _walked(
    node: SyntaxTreeNode, styles: frozenset[str] = frozenset()
) -> list[tuple[str, frozenset[str]]]:
    if node.type in STYLES:
        styles |= {STYLES[node.type]}
    if node.type == "heading":
        styles |= {f"heading{node.tag[1:]}", "bold"}
    if node.type in ("text", "code_inline", "fence", "code_block", "image"):
        return [(node.content, styles)]
    return [pair for child in node.children for pair in _walked(child, styles)]


@given(st.one_of(texts, phrases))
def test_every_letter_arrives_and_looks_like_nothing_that_nobody_wrote(markdown: str) -> None:
    shown = [
        (sign, one.styles - {"mention"})
        for one in read(rendered(markdown))
        for sign in one.text
        if sign.isalnum()
    ]
    at = 0  # other visible text is numbers of lists, and addresses of links
    for sign, styles in meant(markdown):
        while at < len(shown) and not (shown[at][0] == sign and shown[at][1] <= styles):
            at += 1
        assert at < len(shown), (sign, styles, rendered(markdown))
        at += 1


@given(st.one_of(texts, phrases))
def test_nobody_is_mentioned_and_nothing_is_hidden_or_fetched(markdown: str) -> None:
    looks = {style for one in read(rendered(markdown)) for style in one.styles}
    assert not looks & {"mention", "spoiler", "underline", "subtext", "preview"}, rendered(markdown)


@given(st.one_of(texts, phrases))
def test_a_text_that_stands_as_it_is_shows_just_that(text: str) -> None:
    assert letters(words(escaped(text))) == letters(text)
    styles = {style for one in read(escaped(text)) for style in one.styles}
    assert styles <= {"block"}, escaped(text)


@given(phrases)
def test_what_is_split_fits_piece_by_piece(markdown: str) -> None:
    parts = list(split(markdown * 20, 200, length))
    assert all(length(part) <= 200 for part in parts)
    assert all(rendered(part).strip() for part in parts)


def test_markdown_in_discords_words() -> None:
    for markdown, sent in [
        ("**bold** and *slanted*", "**bold** and _slanted_"),
        ("__bold__, snake_case and __init__", "**bold**, snake\\_case and **init**"),
        ("un*believ*able", "un*believ*able"),
        ("##### Small print", "**Small print**"),
        ("# Title\n\nText", "# Title\nText"),
        ("[Docs](https://a.b/c)", "[Docs](<https://a.b/c>)"),
        ("[ann.example](https://evil.example/)", "ann.example (<https://evil.example/>)"),
        ("See https://a.b/c_d.", "See <https://a.b/c_d>."),
        ("[mail](mailto:ann@a.b)", "mail (mailto:ann@a.b)"),
        ("||hidden|| <@123> @everyone", "\\|\\|hidden\\|\\| \\<@123> @everyone"),
        ("> one\n> > two", "> one\n> \n> two"),
        ("``a`b``", "``a`b``"),
        ("1\\. no list", "1\\. no list"),
        ("---", "⎯" * 12),
        ("| a | bc |\n|---|---|\n| 中 | d |", "```\na  | bc\n---+---\n中 | d\n```"),
        ("| n |\n|--:|\n| 1 |\n| 10 |", "```\n n\n--\n 1\n10\n```"),
        ("- a\n  - b\n\n  ```sh\n  ls\n  ```", "- a\n  - b\n```sh\nls\n```"),
        ("[only]: https://a.b 'a definition'", "[only]: <https://a.b> 'a definition'"),
    ]:
        assert rendered(markdown) == sent, markdown


def test_code_that_contains_a_fence_stays_one_block() -> None:
    blocks = [
        one for one in read(rendered("````\na\n```\nb\n````\nafter")) if "block" in one.styles
    ]
    assert [one.text.replace("\u200b", "") for one in blocks] == ["a\n```\nb"]


def test_a_line_that_begins_far_to_the_right_costs_no_markup() -> None:
    drawn = f"**Look**\n```\n{' ' * 130}^ here\n```"
    assert rendered(drawn).startswith("**Look**\n")


def test_what_nests_too_deeply_or_has_a_vast_table_is_shown_as_it_stands() -> None:
    assert words(rendered("> " * 40 + "deep")).endswith("deep")
    vast = "|a" * 300 + "|\n" + "|-" * 300 + "|\n" + "|b\n" * 300
    assert letters(words(rendered(vast))) == letters(vast)


def test_a_limit_is_understood_however_its_time_is_written() -> None:
    for said, seconds in [
        ({"Retry-After": "12"}, 12),
        ({"Retry-After": "1.5"}, 1.5),
        ({"Retry-After": "Mon, 23 Nov 2026 10:00:00 GMT"}, 5),
        ({"Retry-After": "-3"}, 5),
        ({"Retry-After": "nan"}, 5),
        ({}, 5),
    ]:
        answer: Any = SimpleNamespace(status=429, reason="Too Many Requests", headers=said)
        failure = Discord("token", DiscordSettings()).explain(
            discord.HTTPException(answer, "slowly")
        )
        assert (failure.kind, failure.seconds) == ("wait", seconds), said
