"""The signs of Markdown, which stand in no cell of a table and in no search result."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from memory.plain_text import without_marks
from memory.record.search.excerpts import pieces
from memory.record.search.said import Span

PLAIN = {
    "**`x`**, `**kw` and `**o`": "x, **kw and **o",
    "# Head\n```python\na = **b\n```\nend": "Head\npython\na = **b\n\nend",
    "__init__, my_func, *args, **kwargs, a**b**c": "__init__, my_func, *args, **kwargs, a**b**c",
    "`a` **b** c** ** d": "a b c** ** d",
    "**a": "**a",
    "`": "`",
    "``x`y``": "x`y",
    "#1 is no heading, # nor is this": "#1 is no heading, # nor is this",
}
PIECES = some.lists(
    some.sampled_from(("**", "`", "``", "# ", "```\n", " ", "\n", "tea", "x_y")), max_size=20
)


def test_signs_in_pairs_are_left_out_and_names_stay_whole() -> None:
    assert {text: without_marks(text) for text in PLAIN} == PLAIN


@given(PIECES)
def test_words_that_were_found_stay_whole(parts: list[str]) -> None:
    text, words = "".join(parts), []
    for at, part in enumerate(parts):
        if part == "tea":
            start = len("".join(parts[:at]))
            words.append(Span(start, start + len(part)))
    shown = pieces(text, words)
    apart = "".join(" " if found else said for said, found in shown)
    assert "tea" not in apart
    assert "".join(said for said, found in shown if found) == "tea" * len(words)
    if words:
        assert "".join(said for said, _found in shown).strip("…") in without_marks(text)
