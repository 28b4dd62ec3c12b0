"""Markdown as Slack's rich text: complete, valid, and without mentions."""

from __future__ import annotations

import re
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.kit.platform import Button, Post, Traits
from channels.slack.rendering import LONGEST, blocks, content, length, plain_blocks, shown
from channels.splitting import split
from tests.fakes.slack_blocks import check_blocks, is_too_long, visible
from tests.fakes.slack_people import BOT_USER, SlackMessage


def said(markdown: str) -> SlackMessage:
    """Return a message as Slack shows it, after it has accepted it."""
    made = blocks(markdown)
    check_blocks(made)
    message = SlackMessage("1.1", "D1", BOT_USER)
    message.show("", made)
    return message


def test_words_keep_their_look_also_within_a_word() -> None:
    message = said("a **bold**, an *italic*, a ~~gone~~ and `a_code*` and foo**bar**baz")
    assert message.text == "a bold, an italic, a gone and a_code* and foobarbaz"
    assert message.marked("bold") == ["bold", "bar"]
    assert message.marked("italic") == ["italic"]
    assert message.marked("strike") == ["gone"]
    assert message.marked("code") == ["a_code*"]


def test_what_is_no_markdown_is_shown_as_it_stands_and_mentions_nobody() -> None:
    for text in [
        "<!channel> and <@U123> and <#C1|general> & co",
        "@here :smile: 10:100:2 and ~/foo ~/bar",
        "List<String> and <b>tags</b>",
        "2 * 3 * 4 and snake_case_name",
        "[a]: https://example.org",
    ]:
        message = said(text)
        assert message.text == text, text
        words = chain(*(element["elements"] for element in message.blocks[0]["elements"]))
        assert {one["type"] for one in words} <= {"text", "link"}, text
        assert not re.search(r"<[@#!]", content(Post(text))["text"]), text


def test_lists_count_on_over_code_and_lists_within_them() -> None:
    message = said("3. one\n   - inner\n4. two\n\n   ```py\n   x = 1\n   ```\n5. three")
    kinds = [
        (one["type"], one.get("indent"), one.get("offset")) for one in message.blocks[0]["elements"]
    ]
    assert kinds == [
        ("rich_text_list", 0, 2),
        ("rich_text_list", 1, None),
        ("rich_text_list", 0, 3),
        ("rich_text_preformatted", None, None),
        ("rich_text_list", 0, 4),
    ]
    assert message.text == "3. one\n• inner\n4. two\nx = 1\n5. three"


def test_a_table_is_aligned_also_with_wide_signs() -> None:
    message = said("| A | B |\n|---|---|\n| 你好 | **x** |\n| y | [z](https://z.org) |")
    assert message.marked("pre") == [
        "A    | B\n-----+------------------\n你好 | x\ny    | z (https://z.org)"
    ]


def test_quotes_and_rules_and_headings() -> None:
    message = said("# Title\n\n> said **so**\n\n---\n\nend")
    assert message.text == "Title\nsaid so\n────────────\n\nend"
    assert message.marked("bold") == ["Title", "so"]
    assert [one["type"] for one in message.blocks[0]["elements"]] == [
        "rich_text_section",
        "rich_text_quote",
        "rich_text_section",
    ]


def test_links_are_links_and_what_leads_nowhere_says_where() -> None:
    message = said(
        "[Slack](https://slack.com/a?b=1&c) [file](a/b.txt) https://x.org/y_z, ![p](https://p.q/r.png)"
    )
    assert message.text == "Slack file (a/b.txt) https://x.org/y_z, p"
    links = [one for one in message.blocks[0]["elements"][0]["elements"] if one["type"] == "link"]
    assert [one["url"] for one in links] == [
        "https://slack.com/a?b=1&c",
        "https://x.org/y_z",
        "https://p.q/r.png",
    ]


def test_text_of_which_nothing_would_be_seen_is_shown_as_it_stands() -> None:
    assert visible(blocks("```\n```")) == "```\n```"
    assert visible(blocks("\u200b")) == "\u200b"
    for blank in ("&nbsp;", "` `", "&nbsp;\n\n&#32;"):
        assert visible(blocks(blank)) == blank
        assert content(Post(blank))["text"].strip()


_WORDS = st.text("abcäé你 .,", min_size=1, max_size=12).filter(str.strip)
_INLINE = st.one_of(
    _WORDS,
    _WORDS.map(lambda w: f"**{w.strip()}**"),
    _WORDS.map(lambda w: f"*{w.strip()}*"),
    _WORDS.map(lambda w: f"`{w.strip()}`"),
    _WORDS.map(lambda w: f"[{w.strip()}](https://example.org/a)"),
    st.sampled_from(["<@U1>", "<!here>", "a_b_c", "&amp;", "\\*", "https://a.b/c", "~~x~~", "|"]),
)
_LINE = st.lists(_INLINE, min_size=1, max_size=6).map(" ".join)
_BLOCK = st.one_of(
    _LINE,
    _LINE.map(lambda t: f"## {t}"),
    st.lists(_LINE, min_size=1, max_size=4).map(lambda s: "\n".join(f"- {one}" for one in s)),
    st.lists(_LINE, min_size=1, max_size=4).map(lambda s: "\n".join(f"1. {one}" for one in s)),
    st.lists(_LINE, min_size=1, max_size=3).map(lambda s: "\n".join(f"> {one}" for one in s)),
    _LINE.map(lambda t: f"```\n{t}\n```"),
    st.tuples(_WORDS, _WORDS).map(lambda t: f"| {t[0]} | b |\n|---|---|\n| c | {t[1]} |"),
    st.just("---"),
)
MARKDOWN = st.lists(_BLOCK, min_size=1, max_size=8).map("\n\n".join)


def letters(text: str) -> str:
    return "".join(re.findall(r"[a-zäé你]", text))


@given(MARKDOWN)
def test_no_letter_is_lost_and_slack_takes_it(markdown: str) -> None:
    message = said(markdown)
    expected = letters(markdown.replace("&amp;", "").replace("(https://example.org/a)", ""))
    shown_words = message.text.replace("&amp;", "").replace("(https://example.org/a)", "")
    assert letters(shown_words) == expected


@settings(max_examples=30)
@given(st.text(max_size=300) | MARKDOWN.map(lambda text: text * 8))
def test_each_piece_of_any_text_is_taken_by_slack(text: str) -> None:
    for piece in split(text, LONGEST, length):
        made = blocks(piece)
        check_blocks(made)
        assert not is_too_long(made)
        assert len(content(Post(piece))["text"]) <= 4_000


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=LONGEST))
def test_plain_text_stands_as_it_is(text: str) -> None:
    made = plain_blocks(text)
    check_blocks(made)
    assert visible(made).strip("\n") == text.strip("\n")


def test_markup_that_grows_is_split_before_slack_refuses_it() -> None:
    dense = " ".join(f"**a{n}** *b{n}*" for n in range(300))
    pieces = [*split(dense, LONGEST, length)]
    assert len(pieces) > 1
    assert not any(is_too_long(blocks(piece)) for piece in pieces)
    assert letters("".join(visible(blocks(piece)) for piece in pieces)) == letters(dense)


def test_a_table_with_one_wide_cell_is_not_padded_into_megabytes() -> None:
    rows = "".join(f"| {n} | x |\n" for n in range(200))
    made = blocks(f"| a | b |\n|---|---|\n| {'w' * 2_000} | y |\n{rows}")
    assert len(visible(made)) < 6_000


def test_slack_takes_as_many_buttons_as_there_may_be_and_long_labels_are_cut() -> None:
    buttons = tuple(
        Button(f"{n} {'label ' * 20}", f"/do {n}") for n in range(Traits(1).most_buttons)
    )
    check_blocks(content(Post("Choose", buttons))["blocks"])


def test_those_who_hear_a_message_read_hear_all_of_its_words() -> None:
    made = blocks("Two:\n\n1. first **one**\n   - inner\n2. second")
    assert shown(made[0]["elements"]) == "Two:\n1. first one\n  • inner\n2. second"
