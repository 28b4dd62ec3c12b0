"""Tests of the cost of a change if the provider caches: the calculation, compared with a counting
provider."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.change import Change
from memory.context.cut_cost import CutCost, InputPrice, cut_cost
from memory.context.meter import PrefixTokens
from memory.context.settings import Limits
from memory.context.strategies import slim
from memory.context.view import LogLine, View
from memory.messages import Message
from memory.turns import Entry, Turn

TOKENS = st.integers(0, 200_000)
PRICE = InputPrice(0.01, 0.001)


def bill(sizes: list[int], kept: list[int], price: InputPrice) -> float:
    """Return the cost of these requests, each with this many tokens from the cache."""
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


START = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
LIMITS = Limits().but(strategy="slim", fold_turns=0, window=10**9)
LINE = 20
SIZES = st.lists(st.integers(3, 30_000), min_size=1, max_size=60)


def hold(sizes: list[int], limits: Limits, steps: int = 0) -> Iterator[tuple[View, frozenset[int]]]:
    """A conversation of turns of these sizes, a third of each the question: the view at the next
    turn's request, and the turns that are folded then. Each calls a tool this many times first."""
    view = View((), (), PrefixTokens(0, 0), rendering="exchange")
    for number, size in enumerate(sizes, 1):
        question = Entry(100 * number, number, Message("user"), size // 3, START)
        asked = replace(view, whole=(*view.whole, Turn(number, (question,))), current=number)
        asked = asked.apply(Change())
        plan = slim.plan(asked, limits)
        view = asked.apply(plan.change) if plan else asked
        yield view, frozenset(plan.change.turns("line")) if plan else frozenset()
        calls = [
            Entry(100 * number + i + 1, number, Message("assistant"), 0, START)
            for i in range(steps + 1)
        ]
        calls[-1] = replace(calls[-1], tokens=size - size // 3)
        over = Turn(number, (question, *calls))
        hour = f"{START + timedelta(minutes=7 * number):%Y-%m-%dT%H}"
        line = LogLine(number, f"[t{number}]", 2 * LINE, False, hour, f"t{number}", LINE)
        whole = (*view.whole[:-1], over)
        view = replace(view, whole=whole, lines=(*view.lines, line), newest=number)


@given(st.integers(100, 20_000), st.integers(1, 8), st.integers(0, 4))
def test_turns_of_one_size_fold_at_the_distance_that_is_cheapest(
    size: int, full: int, steps: int
) -> None:
    folds = [len(folded) for _, folded in hold([size] * 60, LIMITS.but(full_turns=full), steps)]
    (distance,) = {count for count in folds if count}
    anew, saved = full * size - (size - size // 3), max(size - LINE, size // 2)

    def cost(turns: int) -> float:
        """Return the cost of a turn in fresh tokens: those read again, and those that stay until it
        is folded."""
        return 0.9 * anew / turns + 0.1 * saved * (steps + 1) * (turns - 1) / 2

    assert cost(distance) <= min(map(cost, range(1, 60))) * (1 + 1e-9)


@given(SIZES, st.integers(1, 5), st.integers(1, 12), st.sampled_from([0, 1, 3]))
def test_every_turn_is_there_in_full_or_as_a_line_or_has_rolled_up(
    sizes: list[int], full: int, most: int, fold_turns: int
) -> None:
    limits = LIMITS.but(full_turns=full, max_terse_entries=most, fold_turns=fold_turns)
    for number, (view, _) in enumerate(hold(sizes, limits), 1):
        shown = [turn.number for turn in view.turns]
        assert set(shown[-1 - full :]) == set(range(max(1, number - full), number + 1))
        first = min((*view.logged, *shown))
        assert sorted((*view.logged, *shown)) == list(range(first, number + 1))
        assert len(view.log) <= most
        least = most if fold_turns == 1 else max(1, most // 4)
        assert len(view.log) >= min(least, shown[0] - 1)


@given(SIZES)
def test_the_log_tells_every_hour_once(sizes: list[int]) -> None:
    for view, _ in hold(sizes, LIMITS):
        stamped = [line.turn for line in view.log if line.text.startswith("[")]
        hours = [line.hour for line in view.lines if line.turn in stamped]
        assert hours == list(dict.fromkeys(line.hour for line in view.log))


def test_long_turns_fold_sooner_than_short_ones_and_wait_behind_long_ones() -> None:
    def first_fold(sizes: list[int]) -> int:
        return next(n for n, (_, folded) in enumerate(hold(sizes, LIMITS), 1) if folded)

    short = first_fold([600] * 40)
    assert first_fold([20_000] + [600] * 40) < short
    assert first_fold([600] * (short - 2) + [20_000] + [600] * 40) > short
