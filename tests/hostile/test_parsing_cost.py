"""Tests of the costs that `python -m benchmarks.hostile texts` lets pass."""

from __future__ import annotations

from benchmarks.hostile_parsing import LARGE, MOST, Cost


def test_what_is_not_linear_is_seen() -> None:
    assert not Cost("a", "never ends").is_linear
    assert not Cost("a", "quadratic", 0.1, MOST * 0.1 + 0.01).is_linear
    assert Cost("a", "linear", 0.1, 1.0).is_linear
    assert Cost("a", "costs next to nothing", 0.0, 0.1, LARGE).is_linear
    assert not Cost("a", "costs too much for its size", 0.0, 0.1, LARGE // 10).is_linear
