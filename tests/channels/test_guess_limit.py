"""The limit for guesses at secrets, over made-up sequences of guesses."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.guess_limit import (
    FIRST_LOCK,
    IN_ALL,
    MOST,
    OF_ONE,
    TRIES,
    WINDOW,
    CrowdedError,
    GuessQueues,
    Throttle,
)
from tests.waiting import PATIENCE

RIGHT = "right"
GUESSERS = ("203.0.113.7", "2001:db8::1", "2001:db8::ffff", "telegram/42", "login 7")
SECRETS = ("wrong", "other", RIGHT)
GUESS = st.tuples(
    st.sampled_from(GUESSERS), st.sampled_from(SECRETS), st.sampled_from((0.0, 1.0, 70.0, 1_000.0))
)


class Clock:
    """Seconds, which pass when they are told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def execute(throttle: Throttle, clock: Clock, guesses: Sequence[tuple[str, str, float]]) -> None:
    for guesser, secret, seconds in guesses:
        clock.now += seconds
        throttle.check(guesser, secret, secret == RIGHT)


@given(st.lists(GUESS, max_size=80))
def test_the_right_secret_of_a_calm_guesser_never_waits_for_what_others_guess(
    guesses: Sequence[tuple[str, str, float]],
) -> None:
    clock = Clock()
    throttle = Throttle(clock=clock)
    execute(throttle, clock, guesses)
    assert throttle.wait("198.51.100.1") == 0
    assert throttle.is_calm("198.51.100.1")
    assert throttle.check("198.51.100.1", RIGHT, is_right=True) == 0


@given(st.lists(GUESS, max_size=120))
def test_wrong_guesses_of_one_guesser_are_refused_after_so_many_whatever_else_happens(
    guesses: Sequence[tuple[str, str, float]],
) -> None:
    """Between two locks at most so many are answered, also where right ones come in between, and
    within a lock none."""
    clock = Clock()
    throttle = Throttle(clock=clock)
    answered: dict[str, int] = defaultdict(int)
    last: dict[str, float] = {}
    for guesser, secret, seconds in guesses:
        clock.now += seconds
        one = "2001:db8::/64" if guesser.startswith("2001") else guesser
        if clock.now - last.get(one, clock.now) > WINDOW:
            answered[one] = 0
        is_known = throttle.wait(guesser, RIGHT) == 0
        is_locked = throttle.wait(guesser) > 0
        wait = throttle.check(guesser, secret, secret == RIGHT)
        if secret == RIGHT:
            assert (wait > 0) == (is_locked and not is_known)
            continue
        assert not is_locked or wait > 0
        last[one] = last[one] if is_locked else clock.now
        answered[one] = 0 if wait else answered[one] + 1
        assert answered[one] < TRIES


def test_the_same_wrong_guess_counts_each_time_but_where_programs_repeat_it() -> None:
    throttle = Throttle()
    same = [throttle.check("203.0.113.7", "same", is_right=False) for _ in range(TRIES)]
    assert [wait > 0 for wait in same] == [False] * (TRIES - 1) + [True]
    for _ in range(3 * TRIES):
        assert throttle.check("203.0.113.8", "old", is_right=False, may_repeat=True) == 0
    for number in range(TRIES - 2):
        assert throttle.check("203.0.113.8", f"{number}", is_right=False, may_repeat=True) == 0
    assert throttle.check("203.0.113.8", "one more", is_right=False, may_repeat=True) > 0


def test_who_was_let_in_before_goes_on_while_their_address_is_locked_out() -> None:
    throttle = Throttle()
    assert throttle.check("203.0.113.7", RIGHT, is_right=True) == 0
    for _ in range(TRIES):
        throttle.check("203.0.113.7", "wrong", is_right=False)
    assert throttle.wait("203.0.113.7") > 0
    assert throttle.wait("203.0.113.7", RIGHT) == 0
    assert throttle.check("203.0.113.7", RIGHT, is_right=True) == 0
    assert throttle.check("203.0.113.7", "another right one", is_right=True) > 0


def test_each_lock_is_longer_and_ends() -> None:
    clock = Clock()
    throttle = Throttle(clock=clock)
    waits = []
    for round_ in range(9):
        for n in range(TRIES):
            seconds = throttle.check("203.0.113.7", f"{round_} {n}", is_right=False)
        waits.append(seconds)
        clock.now += seconds + 1
        assert throttle.check("203.0.113.7", "first of the next", is_right=False) == 0
        clock.now += WINDOW + 1
    assert waits[:3] == [FIRST_LOCK, 2 * FIRST_LOCK, 4 * FIRST_LOCK]
    assert waits[-1] == waits[-2] == 3600


def test_typing_errors_of_a_whole_day_lock_nobody_out() -> None:
    clock = Clock()
    throttle = Throttle(clock=clock)
    for n in range(10 * TRIES):
        clock.now += WINDOW + 1
        assert throttle.check("203.0.113.7", f"{n}", is_right=False) == 0


def test_any_number_of_guessers_is_remembered_in_bounded_memory() -> None:
    throttle = Throttle()
    for n in range(2 * MOST):
        throttle.check(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}", "guess", is_right=False)
        throttle.check(f"11.{n >> 16}.{n >> 8 & 255}.{n & 255}", "right", is_right=True)
    assert len(throttle._guesses) == len(throttle._known) == MOST


async def test_who_guessed_wrong_waits_in_a_lane_of_their_own() -> None:
    throttle = Throttle()
    lanes = GuessQueues(throttle)
    for number in range(IN_ALL + 1):
        throttle.check(f"203.0.113.{number}", "wrong", is_right=False)
    held, entered = asyncio.Event(), asyncio.Event()

    async def look(guesser: str) -> None:
        async with lanes.enter(guesser):
            entered.set()
            await held.wait()

    waiting = [asyncio.create_task(look(f"203.0.113.{number}")) for number in range(IN_ALL)]
    await entered.wait()
    with pytest.raises(CrowdedError):
        async with asyncio.timeout(PATIENCE), lanes.enter(f"203.0.113.{IN_ALL}"):
            raise AssertionError
    async with asyncio.timeout(PATIENCE), lanes.enter("198.51.100.1"):
        assert not held.is_set()  # nobody else was waited for
    held.set()
    await asyncio.gather(*waiting)
    assert not lanes._waiting


async def test_one_guesser_takes_few_places() -> None:
    lanes = GuessQueues(Throttle())
    held = asyncio.Event()

    async def look() -> None:
        async with lanes.enter("203.0.113.7"):
            await held.wait()

    waiting = [asyncio.create_task(look()) for _ in range(OF_ONE)]
    await asyncio.sleep(0)
    with pytest.raises(CrowdedError):
        async with asyncio.timeout(PATIENCE), lanes.enter("203.0.113.7"):
            raise AssertionError
    held.set()
    await asyncio.gather(*waiting)
