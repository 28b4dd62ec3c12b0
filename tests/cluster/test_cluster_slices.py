"""Slices: which conversation is in which, and which worker should have which."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from plugins.cluster.slices import SLICES, allot, slice_of

NAMES = [f"slice.{number}" for number in range(SLICES)]
WORKERS = st.sets(st.text(min_size=1, max_size=8), min_size=1, max_size=70)


@given(st.text(max_size=20), st.integers(2, 500))
def test_a_chat_its_threads_and_its_branches_are_in_one_slice(chat: str, number: int) -> None:
    home = f"telegram/{chat.replace('/', '%2F')}"
    for other in (f"{home}//{number}", f"{home}/7", f"{home}/7//{number}"):
        assert slice_of(other) == slice_of(home)
    assert 0 <= slice_of(home) < SLICES


def test_the_slice_of_a_conversation_is_the_same_in_every_release() -> None:
    assert [slice_of(f"telegram/{number}") for number in range(4)] == [35, 20, 32, 25]


@given(WORKERS)
def test_no_worker_has_more_than_one_slice_more_than_another(workers: set[str]) -> None:
    places = allot(NAMES, workers)
    counts = Counter(place.owner for place in places.values())
    assert len(places) == SLICES
    assert set(counts) <= workers
    each = [counts[worker] for worker in workers]
    assert max(each) - min(each) <= 1


@given(WORKERS)
def test_all_workers_work_out_the_same(workers: set[str]) -> None:
    assert allot(NAMES, sorted(workers)) == allot(NAMES, sorted(workers, reverse=True))


@given(WORKERS)
def test_whoever_stands_by_is_another_worker(workers: set[str]) -> None:
    for place in allot(NAMES, workers).values():
        assert place.standby != place.owner
        assert place.standby in workers or len(workers) == 1


@given(st.integers(1, 30))
def test_when_a_worker_comes_most_slices_stay_where_they_are(count: int) -> None:
    workers = [f"worker-{number}" for number in range(count)]
    before, after = allot(NAMES, workers), allot(NAMES, [*workers, "new"])
    moved = sum(before[name].owner != after[name].owner for name in NAMES)
    must = sum(place.owner == "new" for place in after.values())
    assert must <= moved <= must + SLICES // 2


def test_without_workers_nobody_has_a_slice() -> None:
    assert allot(NAMES, []) == {}
