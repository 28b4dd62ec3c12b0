"""Tests that titles and names are plain text: each character is shown, and none is parsed as
markup, in lists and in sentences. Search hits are shown without Markdown marks."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from io import StringIO

from hypothesis import assume, example, given
from hypothesis import strategies as st
from rich.console import Console

from bot.listing import LONGEST_TITLE, find, title_of
from channels.discord.rendering import rendered as rendered_for_discord
from channels.kit.markdown import render_html
from channels.slack.rendering import blocks, shown
from channels.telegram.rendering import rendered as rendered_for_telegram
from channels.terminal.markdown import Page
from channels.web.markup import html
from channels.whatsapp.letters import rendered as rendered_for_whatsapp
from memory.plain_text import words_of
from memory.record.closeness import Span
from memory.record.conversations import MatchedMessage
from memory.record.search.excerpts import without_markup
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


def test_what_a_search_found_is_words_without_the_marks_of_markdown() -> None:
    table = "| Day | Cost |\n|:---|---:|\n| **Friday** | `24` EUR |"
    fence = "```python\nreturn a * b * c\n```"
    text = f"## Plan\n\n{table}\n\n- *one*\n> two\n{fence}\nsnake_case __init__ f(*args, **kw) -1"
    shown = find(MatchedMessage(1, text), "Friday", is_here=True).text
    code = "return a * b * c snake_case __init__ f(*args, **kw) -1"
    assert f"Plan Day · Cost Friday · 24 EUR one two {code}".startswith(shown.removesuffix("…"))
    assert words_of(text).endswith(code)


def test_marks_within_a_language_without_blanks_are_marks() -> None:
    said = "这是一个**三天的行程**：*先*读`main.py`再**出发**吧，2**3**4"
    words = "这是一个三天的行程：先读main.py再出发吧，2**3**4"
    assert find(MatchedMessage(1, said), "行程", is_here=True).text == words_of(said) == words
    assert title_of("**重点**在哪") == "重点在哪"


@given(titles)
def test_a_search_takes_nothing_but_marks_from_what_it_found(text: str) -> None:
    assume("```" not in text and "~~~" not in text)  # a language name follows these
    shown = find(MatchedMessage(1, text), text.split()[0], is_here=True).text
    left, whole = (re.sub(r"[-#*>+`|:· ]", "", one) for one in (shown, text))
    assert left == whole or whole.startswith(left.removesuffix("…"))


@given(st.lists(st.text("abc", min_size=1, max_size=9), min_size=1, max_size=60), st.data())
def test_a_search_shows_whole_words_around_the_one_that_it_found(
    others: list[str], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(others)))
    words = [*others[:place], "needle", *others[place:]]
    shown = find(MatchedMessage(1, " ".join(words)), "needle", is_here=True).text
    assert "needle" in (found := shown.strip("…").split(" "))
    assert set(found) <= set(words)


wrapped = st.sampled_from(("{}", "**{}**", "`{}`", "*{}*", "- {}", "# {}", "| a | {} |", "> {}"))


@given(st.lists(st.tuples(wrapped, st.booleans()), min_size=1, max_size=8))
def test_the_words_that_were_found_are_found_in_the_text_without_marks(
    lines: list[tuple[str, bool]],
) -> None:
    text, places = "", []
    for line, is_sought in lines:
        at = len(text) + line.index("{}")
        places += [Span(at, at + 6)] if is_sought else []
        text += line.format("needle") + "\n"
    plain, found = without_markup(text, places)
    assert not re.search(r"[*`#>|]|- ", plain)
    assert [plain[one.start : one.end] for one in found] == ["needle"] * len(places)
    assert len({*found}) == len(places)
