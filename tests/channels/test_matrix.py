"""Tests of Matrix: its markup, its events, and a real server with the platform."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any
from urllib.parse import unquote

from hypothesis import given
from hypothesis import strategies as st

from channels.kit.markdown import render_html
from channels.kit.platform import Author, IncomingMessage, Location, Reaction
from channels.matrix.reading import LONGEST, BotUser, make_content, make_edit, read

ME = BotUser("@parley:parley.test", "Parley", frozenset({"help", "context"}))
ANN = Author("@ann:parley.test", "Ann")
ROOM = Location("!room:parley.test", message="$1", is_group=True)
ALLOWED = {
    *("del", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "p", "a", "ul", "ol", "sup", "sub"),
    *("li", "b", "i", "u", "strong", "em", "s", "code", "hr", "br", "div", "table", "thead"),
    *("tbody", "tr", "th", "td", "caption", "pre", "span", "img", "details", "summary"),
}
"""The tags of "m.room.message msgtypes" in the specification (1.15)."""

markdown = st.lists(
    st.sampled_from(
        [
            *("# ", "## ", "> ", "- ", "1. ", "\n", "\n\n", "    ", "**", "*", "_", "~~", "`"),
            *("```\n", "```python\n", "|", "\n|---|---|\n", "[", "](", ")", "](https://a.example)"),
            *(
                "![",
                "<",
                ">",
                "&",
                "&amp;",
                "<b>",
                "</b>",
                "<script>",
                "\\",
                "word",
                "Ωμέγα",
                "你好",
            ),
            *("[a]: https://b.example\n", "---\n", '"', "'", "List<String>", "a\tb", "😀"),
        ]
    )
    | st.text(max_size=5),
    max_size=30,
).map("".join)


def words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+", text)


@given(markdown)
def test_no_word_is_lost_and_no_tag_is_there_that_matrix_does_not_know(text: str) -> None:
    html = render_html(text)
    assert {tag.lower() for tag in re.findall(r"</?([A-Za-z0-9]+)", html)} <= ALLOWED
    if html:
        attributes = " ".join(re.findall(r'(?:href|title|class)="([^"]*)"', html))
        shown = unescape(unquote(f"{re.sub(r'<[^>]*>', '', html)} {attributes}"))
        # "&amp;" is a symbol, which may be between words and within them.
        letters = "".join(words(shown)).replace("amp", "")
        assert all(word.replace("amp", "") in letters for word in words(unescape(text)))


def test_a_table_is_sent_as_it_stands_where_a_row_has_more_cells_than_are_shown() -> None:
    assert "<table>" in render_html("| a |\n|---|\n| one |")
    assert render_html("| a |\n|---|\n| one | lost |") == ""


@given(st.text(max_size=200))
def test_tags_that_were_written_are_words(text: str) -> None:
    html = render_html(f"<script>{text}</script> **b**")
    assert "<script" not in html


def test_what_is_nested_too_deep_is_sent_as_it_stands() -> None:
    for text in ["> " * 200 + "deep", "- " * 200 + "deep"]:
        assert "formatted_body" not in make_content(text), text
    assert "deep" in render_html(" " * 500 + "deep")


@given(st.text(min_size=1, max_size=300))
def test_the_longest_message_and_its_edit_fit_into_an_event(text: str) -> None:
    content = make_content(text * (LONGEST // len(text.encode("utf-8", "replace"))))
    for one in (content, make_edit("$1", content)):
        assert len(json.dumps(one, ensure_ascii=False).encode("utf-8", "replace")) < 64_000


def message(body: object, **more: Any) -> dict[str, Any]:
    content = {"msgtype": "m.text", "body": body, **more}
    return {"type": "m.room.message", "content": content, "origin_server_ts": 1_700_000_000_000}


def heard(event: dict[str, Any], place: Location = ROOM, answered: Any = None) -> IncomingMessage:
    found = read(event, ANN, place, ME, answered)
    assert isinstance(found, IncomingMessage)
    return found


def test_who_names_the_bot_in_front_speaks_to_it() -> None:
    for text in [
        "Parley: what?",
        "parley, what?",
        "@parley:parley.test what?",
        "@Parley what?",
        "@parley what?",
    ]:
        found = heard(message(text))
        assert (found.text, found.is_for_bot) == ("what?", True), text


def test_who_only_speaks_of_it_does_not() -> None:
    for text in ["Parleying is what?", "what Parley says", "hello", "@parley2 hi"]:
        found = heard(message(text, **{"m.mentions": {}}))
        assert (found.text, found.is_for_bot) == (text, False), text


def test_a_mention_is_one_wherever_it_stands() -> None:
    mentions = {"m.mentions": {"user_ids": [ME.id]}}
    assert heard(message("what does Parley say?", **mentions)).is_for_bot
    pill = f'ask <a href="https://matrix.to/#/{ME.id}">Parley</a>'
    assert heard(message("ask Parley", formatted_body=pill)).is_for_bot  # an app from before 2023


def test_a_command_begins_with_an_exclamation_mark_as_well() -> None:
    assert heard(message("!context detail")).text == "/context detail"
    assert heard(message("!context detail")).is_for_bot
    assert heard(message("!nonsense")).text == "!nonsense"
    assert not heard(message("!nonsense")).is_for_bot


def test_a_reply_brings_the_words_that_it_answers() -> None:
    relation = {"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}}
    first = {"sender": "@bob:parley.test", "content": {"body": "Tea is ready."}}
    event = message("> <@bob:parley.test> Tea is ready.\n\nParley: is it?", **relation)
    found = heard(event, answered=first)
    assert (found.text, found.quoted) == ("is it?", ("@bob:parley.test", "Tea is ready."))
    mine = heard(message("and then?", **relation), answered={"sender": ME.id, "content": {}})
    assert mine.is_for_bot
    assert mine.quoted is None


def test_another_bot_is_not_answered() -> None:
    assert read(message("hello", msgtype="m.notice"), ANN, ROOM, ME) is None


def test_a_file_has_its_name_and_its_caption() -> None:
    info = {"size": 3, "mimetype": "image/png"}
    more = {"url": "mxc://parley.test/abc", "info": info, "msgtype": "m.image"}
    (file,) = heard(message("x.png", **more)).files
    assert (file.id, file.name, file.media_type, file.size) == (
        *("mxc://parley.test/abc", "x.png", "image/png"),
        3,
    )
    found = heard(message("look!", filename="x.png", **more))
    assert (found.text, found.files[0].name) == ("look!", "x.png")


def test_what_no_model_is_given_is_named() -> None:
    assert heard(message("film.mp4", msgtype="m.video")).left_out == ("videos",)
    assert heard({"type": "m.sticker", "content": {}}).left_out == ("stickers",)


names = st.sampled_from(
    [
        *("msgtype", "body", "m.relates_to", "m.in_reply_to", "event_id", "rel_type", "m.mentions"),
        *("user_ids", "info", "size", "mimetype", "url", "filename", "key", "m.new_content"),
    ]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
kinds = st.sampled_from(["m.text", "m.image", "m.file", "m.audio", "m.video", "m.emote"])


@given(
    st.dictionaries(names, json_values, max_size=6),
    st.sampled_from(["m.room.message", "m.reaction", "m.sticker"]),
    kinds | st.none(),
    json_values,
)
def test_whatever_a_server_sends_is_read_or_left(
    content: dict[str, Any], kind: str, msgtype: str | None, stamp: Any
) -> None:
    event = {"type": kind, "content": {**content, **({"msgtype": msgtype} if msgtype else {})}}
    found = read({**event, "origin_server_ts": stamp}, ANN, ROOM, ME, content)
    assert found is None or isinstance(found, IncomingMessage | Reaction)
    if isinstance(found, IncomingMessage):
        assert isinstance(found.text, str)
        assert all(isinstance(file.size, int) and file.size >= 0 for file in found.files)


def test_a_quotation_is_left_out_only_in_front_of_a_reply() -> None:
    relation = {"m.in_reply_to": {"event_id": "$0"}}
    for body, text in {"> a\n> b\n\nc\n> d\ne": "c\n> d\ne", "c\n> d\ne": "c\n> d\ne"}.items():
        content = {"msgtype": "m.text", "body": body, "m.relates_to": relation}
        heard = read({"content": content}, ANN, ROOM, ME)
        assert isinstance(heard, IncomingMessage)
        assert heard.text == text
