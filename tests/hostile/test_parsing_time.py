"""No text takes a parser more than its length: CPU at 10 KB and 100 KB, over all of `texts.py`."""

from __future__ import annotations

import pytest

from tests.hostile.measure import MOST, Cost, costs
from tests.hostile.parsers import PARSERS
from tests.hostile.texts import TEXTS


@pytest.mark.parametrize("parser", PARSERS)
def test_ten_times_the_text_takes_at_most_fifteen_times_the_cpu(parser: str) -> None:
    slow = [str(cost) for cost in costs(parser) if not cost.is_linear]
    assert slow == []


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


def test_what_the_terminal_draws_takes_no_more_either() -> None:
    assert [str(cost) for cost in costs("the terminal", DRAWN_TEXTS) if not cost.is_linear] == []


TERSE_TEXTS = tuple(name for name in TEXTS if "terse" in name or "backticks" in name)


def test_a_reply_that_comes_letter_by_letter_takes_no_more_either() -> None:
    found = costs("the terse tag, streaming", TERSE_TEXTS)
    assert [str(cost) for cost in found if not cost.is_linear] == []


def test_what_is_not_linear_is_seen() -> None:
    assert not Cost("never ends").is_linear
    assert not Cost("quadratic", 0.1, MOST * 0.1 + 0.01).is_linear
    assert Cost("linear", 0.1, 1.0).is_linear
