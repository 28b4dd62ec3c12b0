"""Tests of the comparison of a benchmark's figures with those that were committed last."""

from __future__ import annotations

from pathlib import Path

from benchmarks import figures


def test_what_got_worse_by_more_than_runs_differ_is_told() -> None:
    before = {"CPU": 8.0, "memory": 90.0, "gone": 1.0}
    assert figures.compare(before, {"CPU": 9.0, "memory": 60.0, "new": 5.0}) == []
    (said,) = figures.compare(before, {"CPU": 12.0, "memory": 90.0})
    assert said == "CPU: 12.00, and it was 8.00 (1.50 times as much)."


def test_what_is_counted_may_not_grow_at_all() -> None:
    before = {"tokens": 100_000.0}
    assert figures.compare(before, {"tokens": 100_400.0}, figures.EXACT) == []
    assert len(figures.compare(before, {"tokens": 101_000.0}, figures.EXACT)) == 1


def test_each_program_keeps_its_own_figures(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    figures.write("one", {"a": 1.234}, path)
    figures.write("two", {"b": 2}, path)
    figures.write("one", {"a": 3}, path)
    assert figures.read(path) == {"one": {"a": 3}, "two": {"b": 2}}
    assert figures.read(tmp_path / "none.json") == {}


def test_the_committed_figures_can_be_compared() -> None:
    kept = figures.read()
    assert {"message", "cost"} <= kept.keys()
    assert all(value > 0 for group in kept.values() for value in group.values())
    assert figures.compare(kept["cost"], kept["cost"], figures.EXACT) == []
