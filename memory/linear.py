"""Linear models over words, learnt by the scripts in `benchmarks/`.

A weight is stored as a signed byte, in quarters, beside the hash of its feature's name, in the
order of the hashes. So a table of twenty thousand takes 100 kB and is read without unpacking.
"""

from __future__ import annotations

import logging
import sys
from array import array
from bisect import bisect_left
from collections.abc import Collection
from functools import lru_cache
from importlib.resources import files
from zlib import crc32

log = logging.getLogger(__name__)

STEP = 1 / 4
"""The value of one step of a stored weight."""
_KNOWN = 4_096  # features whose weights are looked up once


def pack(hashes: bytes, weights: bytes) -> bytes:
    """Return the content of a file: a checksum, then hashes of four bytes each, little-endian and
    in order, then their weights."""
    content = hashes + weights
    return crc32(content).to_bytes(4, "little") + content


class LearntWeights:
    """The weights of a model; empty if the content of its file is damaged."""

    def __init__(self, stored: bytes = b"") -> None:
        content = stored[4:]
        self.is_whole = bool(content) and crc32(content).to_bytes(4, "little") == stored[:4]
        count = len(content) // 5 if self.is_whole else 0
        self._hashes = array("I", content[: 4 * count])
        self._weights = array("b", content[4 * count :] if count else b"")
        if sys.byteorder == "big":
            self._hashes.byteswap()
        self._known: dict[str, int] = {}

    def total(self, features: Collection[str]) -> float:
        """Return the sum of the weights of features; an unknown feature has the weight 0."""
        known = self._known
        if new := set(features).difference(known):
            if len(known) + len(new) > _KNOWN:  # another thread may be using the old one
                known, new = {}, set(features)
            known.update((feature, self._look_up(feature)) for feature in new)
            self._known = known
        return sum(map(known.__getitem__, features)) * STEP

    def _look_up(self, feature: str) -> int:
        hashed = crc32(feature.encode())
        at = bisect_left(self._hashes, hashed)
        is_there = at < len(self._hashes) and self._hashes[at] == hashed
        return self._weights[at] if is_there else 0


@lru_cache
def read_weights(package: str, name: str) -> LearntWeights:
    """Return the weights in a file of a package; empty if it is missing or damaged."""
    try:
        found = LearntWeights(files(package).joinpath(name).read_bytes())
    except OSError as error:
        log.error("nothing is found by %s of %s: %s", name, package, error)
        return LearntWeights()
    if not found.is_whole:
        log.error("nothing is found by %s of %s: it is damaged", name, package)
    return found
