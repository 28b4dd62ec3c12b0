"""The gradient descent and the weight file, for the scripts that learn linear models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memory.linear import STEP, pack

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STEPS = 300
RATE = 0.3


def descend(weights: Floats, find_slope: Callable[[Floats], Floats]) -> Floats:
    """Return weights with a smaller loss, by Adam over all messages at once."""
    mean, square = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(1, STEPS + 1):
        slope = find_slope(weights)
        mean = 0.9 * mean + 0.1 * slope
        square = 0.999 * square + 0.001 * slope**2
        rate = RATE * (1 - step / STEPS)
        weights = weights - rate * (mean / (1 - 0.9**step)) / (
            np.sqrt(square / (1 - 0.999**step)) + 1e-8
        )
    return weights


def write(path: Path, hashes: Integers, weights: Floats) -> int:
    """Write the nonzero weights, in the order of the hashes; return their number."""
    order = np.argsort(hashes, kind="stable")
    stored = np.clip(np.rint(weights[order] / STEP), -127, 127).astype(np.int8)
    is_kept = stored != 0
    packed = pack(hashes[order][is_kept].astype("<u4").tobytes(), stored[is_kept].tobytes())
    path.write_bytes(packed)
    return int(np.count_nonzero(is_kept))
