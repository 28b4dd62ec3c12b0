"""Patterns that are compiled when they are needed."""

from __future__ import annotations

import re

import pytest

from memory.patterns import lazy


def test_a_pattern_is_compiled_with_its_first_use() -> None:
    lazily = lazy("(", re.IGNORECASE)
    assert lazily.pattern == "("
    with pytest.raises(re.error):
        lazily.search("")
