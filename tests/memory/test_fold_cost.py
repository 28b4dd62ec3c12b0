"""Tests of when `slim` folds: at the distance that is cheapest, and whatever is said, nothing is
missing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from memory.context.change import Change
from memory.context.limits import Limits
from memory.context.meter import PrefixTokens
from memory.context.strategies import slim
from memory.context.view import LogLine, View
from memory.messages import Message
from memory.turns import Entry, Turn

START = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)
LIMITS = Limits().but(strategy="slim", fold_turns=0, window=10**9)
LINE = 20
SIZES = st.lists(st.integers(3, 30_000), min_size=1, max_size=60)


def hold(sizes: list[int], limits: Limits, steps: int = 0) -> Iterator[tuple[View, frozenset[int]]]:
    """A conversation of turns of these sizes, a third of each the question: what is seen when the
    next turn asks, and the turns that fold then. Each calls a tool so many times first."""
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
        """Of a turn, in fresh tokens: what is read anew, and what stays until it folds."""
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
