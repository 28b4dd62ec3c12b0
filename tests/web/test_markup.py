"""Markdown as the page shows it: correctly rendered, and harmless."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.splitting import split
from channels.web.markup import blocks, html
from tests.tables import each_row

ROOT = Path(__file__).parents[2]


def test_code_of_a_known_language_has_colours_and_any_other_stays_as_it_is() -> None:
    assert '<span class="k">def</span>' in html("```python\ndef f(): ...\n```")
    assert '<code class="language-ruritanian">def f' in html("```ruritanian\ndef f()\n```")
    assert "<span" not in html("```js\n" + "a" * 2_000 + "\n```")


@each_row("language", ["java", "make", "typescript"])
def test_all_of_the_code_is_there_also_where_colours_would_take_too_long(language: str) -> None:
    for text in ("a\n" * 2_000, "'\\" * 2_000, "<a\n" * 1_300, "{\n" * 2_000):
        code = html(f"```{language}\n{text}```")
        assert code.count("a") >= text.count("a")
        assert code.count("\n") >= text.count("\n")


def test_formulas_are_mathml_and_money_is_none() -> None:
    for formula in ("$x^2$", "\\(x^2\\)", "$$x^2$$", "\\[x^2\\]", "$$\nx^2\n$$"):
        assert "<msup><mi>x</mi><mn>2</mn></msup>" in html(formula)
    for text in ("$5 and $6", "it costs $5, or $6", "$ x $", "\\$x$", "$$", "`$x$`"):
        assert "<math" not in html(text)


def test_a_formula_of_several_lines_is_no_list() -> None:
    said = html("> $$\n> a\n> - b\n> = c\n> $$")
    assert "<li>" not in said
    assert said.count("<mi>") == 3


@each_row("text", ["$\\frac{$", "$" + "{" * 1_900 + "$", "$$x_a_b$$"])
def test_what_can_t_be_read_as_a_formula_is_shown_as_it_was_written(text: str) -> None:
    said = html(text)
    assert "<math" not in said
    assert text in said


def test_the_columns_of_a_table_have_their_sides_without_a_style() -> None:
    said = html("| a | b |\n|:-:|--:|\n| 1 | 2 |")
    assert '<td class="center">1</td>' in said
    assert '<td class="right">2</td>' in said
    assert "style" not in said


@pytest.mark.parametrize("empty", ["", "  ", "<!-- -->"])
def test_a_heading_of_a_table_has_words(empty: str) -> None:
    said = html(f"| {empty} | b |\n|---|--:|\n| 1 | 2 |")
    assert said.count("<th") - said.count("<thead") == (2 if empty.strip() else 1)
    assert said.count("<td") == said.count("</td>") == (2 if empty.strip() else 3)
    assert '<th class="right">b</th>' in said


def test_tasks_have_boxes_that_are_read_aloud() -> None:
    said = html("- [x] one\n- [ ] two")
    assert 'aria-label="done"' in said
    assert 'aria-label="to do"' in said


def test_footnotes_stand_at_the_end() -> None:
    said = html("One[^a] two.\n\n[^a]: The note.\n\nThree.")
    assert said.index("Three") < said.index("The note")


EVIL = (
    '$\\text{<img src=x onerror="alert(1)">}$ $\\href{javascript:alert(1)}{x}$ '
    '```html"><script>\n<script>\n``` [^<b>] - [ ] <input> $\\class{evil}{x}\\style{color:red}{y}$'
)


@each_row("text", [EVIL, EVIL.replace(" ", "\n"), f"```html\n{EVIL}\n```"])
def test_nothing_that_could_do_something_gets_through(text: str) -> None:
    said = html(text)
    assert "<script" not in said
    assert "<img" not in said
    assert "<input" not in said
    assert "style=" not in said
    assert "javascript:" not in said.replace("javascript:alert(1)}", "")


@given(st.text("ab $\\[]()`*-|#>\n1x^_{}", max_size=200))
def test_blocks_are_the_whole(text: str) -> None:
    pieces = blocks(text)
    assert "".join(pieces) == html(text)
    assert len(pieces) <= len(list(split(text, 8_000))) * 201


def test_of_a_text_that_grows_only_the_last_blocks_change() -> None:
    text = "One.\n\n- two\n- three\n\n```py\nfour\n```\n\nFive and"
    assert blocks(text)[:3] == blocks(text + " more.\n\nSix.")[:3]


@pytest.mark.parametrize("option", ["--unset", "-c", "--keep-going"])
def test_a_line_does_not_end_inside_an_option(option: str) -> None:
    whole = f'<span class="option">{option}</span>'
    assert f"<code>[a-b] [{whole}]</code>" in html(f"`[a-b] [{option}]`")
    assert whole not in html(f"```\nrun {option}\n```") + html(f"run {option}")


@pytest.mark.usefixtures("processes")
def test_what_is_slow_to_load_waits_for_the_first_code_and_formula() -> None:
    program = (
        "import sys; from channels.web.markup import html; html('**a** `b`');"
        "print([n for n in ('pygments', 'latex2mathml') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
