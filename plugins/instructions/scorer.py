"""The score of a sentence: how surely it is a standing instruction.

A linear model over words: each word, pair and triple of neighbours, and each beginning and end of a
word has a weight, and the weights of a sentence are added. They are learnt from sentences that were
written for this, by `python -m benchmarks.instructions`, and are in `weights.bin`, behind their
checksum: where that file is missing or damaged, nothing is found. Patterns could
not foresee in how many ways people say what they want; the model finds most of what it has never
seen, and takes a tenth of a millisecond for a sentence.
"""

from __future__ import annotations

import logging
import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from importlib.resources import files
from math import sqrt
from zlib import crc32

from memory.patterns import lazy
from plugins.instructions.sentences import SaidSentence

log = logging.getLogger(__name__)

NAME = "weights.bin"
DETECTION = "the detection of standing instructions"
STEP = 1 / 4
"""The value of one step of a stored weight, which is a signed byte."""
LENGTH = 20
"""Features that are added to a sentence's own before the sum is divided by their root: a long
sentence does not count for more than a short one, and a very short one not for much more."""

_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;—-]")
_CJK = ("\u3400", "\u9fff")


def score(sentence: SaidSentence, language: str) -> float:
    """Return the score of a sentence; more than 0 is an instruction, more than 1 surely one."""
    hashes, weights = _table()
    found = set(features(sentence, language))
    total = 0
    for feature in found:
        hashed = crc32(feature.encode())
        at = bisect_left(hashes, hashed)
        if at < len(hashes) and hashes[at] == hashed:
            total += weights[at]
    return total * STEP / sqrt(len(found) + LENGTH)


def features(sentence: SaidSentence, language: str) -> Iterator[str]:
    """Yield the features of a sentence, some of them more than once."""
    found = _TOKEN.findall(sentence.text)
    tokens = ["0" if token.isdigit() else token for token in found]
    yield f"@{language}"
    yield f"#{min(len(tokens) // 4, 8)}"
    if sentence.is_question:
        yield "#?"
    for token in tokens[:3]:
        yield f"# {token}"
    row = ["^", *tokens, "$", "", ""]
    for at in range(len(tokens) + 1):
        one, two, three = row[at : at + 3]
        yield one
        yield f"{one} {two}"
        if three:
            yield f"{one} {two} {three}"
            yield f"{one} _ {three}"
        if len(one) > 4:
            yield f"{one[:4]}-"
            yield f"-{one[-3:]}"
        elif three and _CJK[0] <= one <= _CJK[1] and row[at + 3]:
            yield one + two + three + row[at + 3]


def pack(hashes: bytes, weights: bytes) -> bytes:
    """Return the content of `weights.bin`: hashes of four bytes each, little-endian and in order,
    and their weights."""
    content = hashes + weights
    return crc32(content).to_bytes(4, "little") + content


def is_there() -> bool:
    """Return whether the weights could be read."""
    return bool(_table()[0])


@lru_cache(maxsize=1)
def _table() -> tuple[array[int], array[int]]:
    """Return the hashes of the features that have a weight, in order, and the weights; none where
    the file is missing or damaged."""
    hashes, weights = array("I"), array("b")
    try:
        stored = files(__package__).joinpath(NAME).read_bytes()
    except OSError as error:
        log.error("%s is off: %s", DETECTION, error)
        return hashes, weights
    checksum, content = stored[:4], stored[4:]
    if not content or crc32(content).to_bytes(4, "little") != checksum:
        log.error("%s is off: %s is damaged", DETECTION, NAME)
        return hashes, weights
    count = len(content) // 5
    hashes.frombytes(content[: 4 * count])
    weights.frombytes(content[4 * count :])
    if sys.byteorder == "big":
        hashes.byteswap()
    return hashes, weights
