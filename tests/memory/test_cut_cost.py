"""Tests of the cost of a change where the provider caches: the arithmetic, beside a provider that
counts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.context.cut_cost import CutCost, InputPrice, cut_cost

TOKENS = st.integers(0, 200_000)
PRICE = InputPrice(0.01, 0.001)


def bill(sizes: list[int], kept: list[int], price: InputPrice) -> float:
    """Return the cost of these requests, of each of which so many tokens come from the cache."""
    pairs = zip(sizes, kept, strict=True)
    return sum(price.kept * (size - kept) + price.cached * kept for size, kept in pairs)


@given(
    TOKENS, TOKENS, TOKENS, st.integers(0, 50_000), st.floats(0.01, 1), st.sampled_from([1, 1.25])
)
def test_after_as_many_requests_as_it_says_a_cut_is_cheaper_and_not_before(
    kept: int, broken: int, anew: int, besides: int, share: float, written: float
) -> None:
    price = InputPrice(1.0, share, written)
    before, after = kept + broken, kept + anew
    cost = cut_cost(broken, anew, price, besides)
    assert (cost.broken, cost.anew) == (broken, anew)
    assert cost.requests is not None
    for count in (1, 2, 5, 40):
        left = bill([before] * count, [before] * count, price)
        cut = besides * price.fresh + bill([after] * count, [kept] + [after] * (count - 1), price)
        if count > cost.requests * (1 + 1e-9):
            assert cut <= left * (1 + 1e-9)
        elif count < cost.requests * (1 - 1e-9):
            assert cut >= left * (1 - 1e-9)


def test_a_cut_that_frees_nothing_never_pays() -> None:
    assert cut_cost(8_000, 8_000, PRICE).requests == math.inf


def test_what_is_kept_from_then_on_costs_what_writing_it_costs() -> None:
    claude = InputPrice(3.0, 0.3, 3.75)
    assert cut_cost(8_000, 2_000, claude, besides=100).dollars == (3.75 - 0.3) * 2_000 + 300


def test_where_the_price_is_unknown_only_tokens_are_told() -> None:
    assert cut_cost(8_000, 2_000, None) == CutCost(8_000, 2_000)


def test_what_is_read_anew_costs_the_difference_and_the_summary_its_reading() -> None:
    cost = cut_cost(8_000, 2_000, PRICE, besides=6_000)
    assert cost.dollars == pytest.approx(2_000 * 0.009 + 6_000 * 0.01)
    assert cost.requests == pytest.approx((2_000 * 0.009 + 60) / (6_000 * 0.001))
