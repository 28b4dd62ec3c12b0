"""No text takes a parser more than its length: CPU at 4 KB and 40 KB, over all of `texts.py`.

`python -m benchmarks.hostile` measures the same at 10 KB and 100 KB.
"""

from __future__ import annotations

import pytest

from tests.hostile.measure import LARGE, MOST, Cost, measured
from tests.hostile.parsers import PARSERS
from tests.hostile.texts import TEXTS

SIZE = 40_000
DRAWN_TEXTS = (
    "backticks, a run",
    "quotes, nested",
    "lists, nested",
    "a table, wide",
    "a table of one wide cell",
    "strings in code",
    "bold within bold",
    "lists and quotes, nested",
)
TERSE_TEXTS = tuple(name for name in TEXTS if "terse" in name or "backticks" in name)


@pytest.mark.usefixtures("processes")
def test_ten_times_the_text_takes_at_most_fifteen_times_the_cpu() -> None:
    read = [(parser, text) for parser in PARSERS for text in TEXTS]
    drawn = [("the terminal", text) for text in DRAWN_TEXTS]  # a table is linear from 2 KB on
    streamed = [("the terse tag, streaming", text) for text in TERSE_TEXTS]
    found = (*measured(read + streamed, SIZE), *measured(drawn))
    assert [f"{cost.parser}: {cost}" for cost in found if not cost.is_linear] == []


def test_what_is_not_linear_is_seen() -> None:
    assert not Cost("a", "never ends").is_linear
    assert not Cost("a", "quadratic", 0.1, MOST * 0.1 + 0.01).is_linear
    assert Cost("a", "linear", 0.1, 1.0).is_linear
    assert Cost("a", "costs next to nothing", 0.0, 0.1, LARGE).is_linear
    assert not Cost("a", "costs too much for its size", 0.0, 0.1, LARGE // 10).is_linear
