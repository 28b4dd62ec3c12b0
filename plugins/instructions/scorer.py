"""The score of a sentence: how surely it is a standing instruction.

A linear model over words: each word, pair and triple of neighbours, and each beginning and end of a
word has a weight, and the weights of a sentence are added. They are learnt from sentences that were
written for this, by `python -m benchmarks.instructions`, and are in `weights.bin`. Patterns could
not foresee in how many ways people say what they want; the model finds most of what it has never
seen, and takes a tenth of a millisecond for a sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from memory.linear import read_weights
from memory.patterns import lazy
from plugins.instructions.sentences import SaidSentence

NAME = "weights.bin"
LENGTH = 20
"""Features that are added to a sentence's own before the sum is divided by their root: a long
sentence does not count for more than a short one, and a very short one not for much more."""

_TOKEN = lazy(r"[^\W\d_\u3400-\u9fff]+(?:'[a-z]+)?|\d+|[\u3400-\u9fff]|[?,:;—-]")
_CJK = ("\u3400", "\u9fff")


def score(sentence: SaidSentence, language: str) -> float:
    """Return the score of a sentence; more than 0 is an instruction, more than 1 surely one."""
    found = set(features(sentence, language))
    return read_weights(__package__, NAME).total(found) / sqrt(len(found) + LENGTH)


def is_there() -> bool:
    """Return whether the weights could be read."""
    return read_weights(__package__, NAME).is_whole


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
