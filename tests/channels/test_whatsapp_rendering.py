"""Markdown as WhatsApp shows it: nothing is lost, and no sign is left that means nothing there."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.splitting import split
from channels.whatsapp.rendering import rendered, units

WORDS = st.sampled_from(
    ["one", "two", "Käse", "重点", "snake_case", "2*3*4", "&lt;b&gt;", "List<T>"]
)
MARKS = st.sampled_from(
    [
        *("**{}**", "*{}*", "_{}_", "~~{}~~", "`{}`", "# {}\n", "\n\n{}", "\n- {}", "\n1. {}"),
        *("\n   - {}", "\n> {}", "\n```\n{}\n```\n", "\n    {}\n", "[{}](http://a.b/c?d=e)", "{}"),
        *(
            "\n\n| {} | b |\n|---|---|\n| c | d | e |\n",
            "![{}](http://a.b/i.png)",
            "<http://x.y/{}>",
        ),
        *("\n[{}]: http://x.y\n", "\n---\n{}", "{}  \n", "\\*{}\\*", "[{}](http://ä.b 'a title')"),
    ]
)


@st.composite
def texts(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(MARKS, WORDS), min_size=1, max_size=12))
    return " ".join(mark.replace("{}", word) for mark, word in parts)


@given(texts() | st.text(max_size=200))
@example("**a** **b**\n\n1. x\n7. y")
@settings(max_examples=300, deadline=None)
def test_no_letter_is_lost(markdown: str) -> None:
    lost = _letters(markdown) - _letters(rendered(markdown))
    infos = "".join(
        line for line in markdown.split("\n") if line.lstrip(" >-").startswith(("```", "~~~"))
    )
    assert not lost - _letters(infos)


@given(texts())
@settings(max_examples=100, deadline=None)
def test_what_is_split_by_its_length_fits_each_time(markdown: str) -> None:
    pieces = split(markdown * 20, 300, lambda text: units(rendered(text)))
    assert all(units(rendered(piece)) <= 300 for piece in pieces)


def test_how_it_is_shown() -> None:
    for markdown, shown in [
        ("**bold** *it* ~~no~~", "*bold* _it_ ~no~"),
        ("# A **title**\n\ntext", "*A title*\n\ntext"),
        ("***both***", "_*both*_"),
        ("**two\nlines**", "*two*\n*lines*"),
        ("这是**重点**内容 a**b**c 2*3*4", "这是重点内容 abc 2*3*4"),
        ("`a*b`", "`a*b`"),
        ("```python\nx = 1\n```", "```\nx = 1\n```"),
        ("- a\n- b\n  1. c\n  2. d", "- a\n- b\n   1. c\n   2. d"),
        ("> a\n>\n> b", "> a\n>\n> b"),
        (
            "[here](http://a.b) <http://c.d> [http://e.f](http://e.f)",
            "here (http://a.b) http://c.d http://e.f",
        ),
        ("| a | bb |\n|---|---|\n| 1 | 2 |", "```\na  bb\n1  2\n```"),
        (f"| a | b |\n|---|---|\n| 1 | {'x' * 60} |", f"- a: 1\n- b: {'x' * 60}"),
        ("List<String> &amp; <b>", "List<String> &amp; <b>"),
        ("", ""),
        ("\\*as it is\\*", "*as it is*"),
    ]:
        assert rendered(markdown) == shown, markdown


def test_no_text_takes_long() -> None:
    for text in ["> " * 4000, "- " * 4000, "|" * 8000 + "\n|-|\n" * 9, "*a " * 2600, "[" * 8000]:
        assert rendered(text)


def _letters(text: str) -> Counter[str]:
    return Counter(filter(str.isalnum, text))
