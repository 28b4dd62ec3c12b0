"""Titles, names and what a search found are plain text: every sign of them is shown, none is read
as markup, in lists and in sentences."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from io import StringIO

from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from bot.listing import LONGEST_TITLE, find, title_of
from channels.discord.rendering import rendered as rendered_for_discord
from channels.kit.html import render_html
from channels.slack.rendering import blocks, shown
from channels.telegram.rendering import rendered as rendered_for_telegram
from channels.terminal.markdown import Page
from channels.web.markup import html
from channels.whatsapp.rendering import rendered as rendered_for_whatsapp
from memory.record.conversations import Matched
from plugins.wording import cell, clip, literal, name_branch, table
from tests.fakes.discord_markup import words

WORDS = (
    *("snake_case", "__init__", "_x_", "*args", "**kwargs", "*it*", "`code`", "``", "~~s~~", "~"),
    *("$x$", "$5", "\\(x\\)", "\\[x\\]", "[draft]", "[a](b)", "[^1]", "![p](q)", "<b>", "&amp;"),
    *("#", "##", "1.", "2)", "-", "+", "=", "---", ">", "|", "a|b", "\\", "C:\\new", "tea", "中文"),
)
titles = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
titles |= st.text("ab1_*`~$[]()<>&|#\\.-+=!: ", min_size=1, max_size=30)
titles = titles.map(lambda text: " ".join(text.split())).filter(bool)


def on_the_page(markdown: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", html(markdown)))


def in_html(markdown: str) -> str:
    return unescape(re.sub(r"<[^>]*>", "", render_html(markdown) or markdown))


def in_the_terminal(markdown: str) -> str:
    written = StringIO()
    Console(file=written, width=1_000, color_system=None).print(Page(markdown))
    return written.getvalue()


def on_slack(markdown: str) -> str:
    (block,) = blocks(markdown)
    return shown(block["elements"]) if "elements" in block else str(block["text"]["text"])


RENDERERS: dict[str, Callable[[str], str]] = {
    "web": on_the_page,
    "html": in_html,
    "terminal": in_the_terminal,
    "slack": on_slack,
    "discord": lambda markdown: words(rendered_for_discord(markdown)),
    "telegram": lambda markdown: rendered_for_telegram(markdown).text,
    "whatsapp": rendered_for_whatsapp,
}


@given(titles)
@example("snake_case and *args, **kwargs")
@example("[draft] of \\[x\\]")
def test_a_title_in_a_sentence_or_a_table_is_shown_as_it_is(title: str) -> None:
    sentence = f"You are in {name_branch(2, title)} now."
    listed = table(("what", "when"), [(cell(literal(clip(title))), "now")])
    for name, show in RENDERERS.items():
        assert f"“{clip(title)}”" in show(sentence), name
        assert show(literal(title)).strip() == title, name
    for name in ("web", "html", "terminal"):
        assert clip(title) in RENDERERS[name](listed), name


@given(titles)
@example("snake_case and *args, **kwargs")
@example("__init__.py or `x`")
def test_a_conversation_is_called_by_its_first_words_with_all_their_signs(text: str) -> None:
    called, whole = title_of(f"\n  {text}\nand more"), text
    if re.search(r"^(#{1,6}|[-*>]) |\*\*.+\*\*", text):
        called, whole = (re.sub(r"[-#*> ]", "", one) for one in (called, text))
    assert called == whole or (len(text) > LONGEST_TITLE and whole.startswith(called[:-1]))


def test_only_what_makes_a_heading_an_item_or_bold_words_goes() -> None:
    assert title_of("## **What** about *args?") == "What about *args?"
    for text in ("#tag", "-5 degrees", "- 5 degrees", "> 3", "2**3**2", "2 ** 3", "C# or F#"):
        assert title_of(text) == text


@given(titles)
def test_what_a_search_found_is_shown_with_all_its_signs(text: str) -> None:
    shown = find(Matched(1, text), [text.split()[0]], is_here=True).text
    if "**" in text:
        shown, text = shown.replace("*", ""), text.replace("*", "")
    assert shown == text or text.startswith(shown.removesuffix("…"))
