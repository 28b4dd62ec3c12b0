"""Tests of counting texts of any length."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.meter import LONGEST_PIECE, Meter
from tests.memory.harness import Looked


async def test_a_text_is_counted_alike_wherever_it_is_counted() -> None:
    own = Meter()
    await own.ready()
    said = "What did we say about the plan for this week?"
    for text in (said, "你好，世界", "ありがとう", "half \ud83d", "a" * 300, "x " * LONGEST_PIECE):
        assert own.count(text) == await own.text(text)
    assert own.count("hello world") == 2
    assert own.clip(said, 100) == said
    assert own.count(own.clip(said, 5)) == 5


HUGE = ("x", "what we said, ", "a\n", "\n", "明天中午", "\N{GRINNING FACE}é", '{"a":1.5},')


@pytest.mark.parametrize("piece", HUGE)
@pytest.mark.parametrize("tokens", [1, 100, 5_000])
async def test_of_a_huge_text_no_more_is_looked_at_than_is_kept(piece: str, tokens: int) -> None:
    own = Meter()
    await own.ready()
    text = Looked(piece * (2_000_000 // len(piece)))
    kept = await own.clip_in_thread(text, tokens)
    assert text.startswith(kept)
    assert text.looked <= 2 * len(kept) + 2 * LONGEST_PIECE
    longer = str(text)[: len(kept) + 1]
    assert own.count(kept) <= tokens
    assert own.count(longer) >= tokens, "there is no longer one"


@given(st.text(max_size=60), st.integers(1, 40), st.integers(1, 3_000))
def test_what_is_kept_of_a_text_counts_as_much_as_is_allowed(
    piece: str, times: int, tokens: int
) -> None:
    own, text = Meter(), piece * times
    asyncio.run(own.ready())
    kept = own.clip(text, tokens)
    assert text.startswith(kept)
    if kept == text:
        assert own.count(text) <= tokens
    else:
        assert own.count(text) > tokens
