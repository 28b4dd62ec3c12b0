"""Sums of learnt weights."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory import linear
from memory.linear import STEP, LearntWeights, pack

WORDS = st.text("abc", max_size=3)


@given(st.dictionaries(WORDS, st.integers(-128, 127)), st.lists(st.lists(WORDS), max_size=5))
def test_the_sum_is_of_the_stored_weights(stored: dict[str, int], asked: list[list[str]]) -> None:
    rows = sorted((crc32(word.encode()), weight) for word, weight in stored.items())
    hashes = b"".join(hashed.to_bytes(4, "little") for hashed, _ in rows)
    weights = LearntWeights(pack(hashes, b"".join(w.to_bytes(1, signed=True) for _, w in rows)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "_KNOWN", 4)
        for words in asked:
            assert weights.total(words) == sum(stored.get(word, 0) for word in words) * STEP
