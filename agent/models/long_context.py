"""The quality of models in long contexts, by published benchmarks: `long_context.toml`.

All models get worse in long contexts, most of them long before their window is full. NoLiMa asks
for content of the text in other words, RULER for several things at once; each reports the length up
to which a model's quality holds.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from memory.patterns import lazy

_FILE = Path(__file__).with_suffix(".toml")
USUAL = 32_000
"""Tokens from which on the measured models get worse: at 32k, 11 of NoLiMa's 13 are below half of
their score for short texts, and half of RULER's 17 are below its threshold of effectiveness."""
_TESTED = 128
_WORDS = lazy(r"\d+[a-z]*|[a-z]+")
_SAME = lazy(
    r"\d+|latest|preview|exp|instruct|it|chat|text|hf|gguf|awq|gptq|fp\d*|bf\d*|q\d*|[kms]"
)
"""The suffixes of a family's name: a date or a quantisation."""


class LongContext(Struct, frozen=True):
    """The length in `tokens` up to which a model's quality holds, by `benchmark` of `year` ("":
    there are no figures, and `tokens` is the usual value). `finding` completes "up to that …"."""

    tokens: int = USUAL
    benchmark: str = ""
    year: int = 0
    finding: str = ""


UNKNOWN = LongContext()


@lru_cache(maxsize=256)
def long_context_of(model: str) -> LongContext:
    """Return the known facts of a model. The name may have its maker before a slash."""
    words = _words(model.rpartition("/")[2])
    found = [(len(name), known) for name, known in _families() if _is_of(words, name)]
    return max(found, key=lambda one: one[0])[1] if found else UNKNOWN


def _words(name: str) -> tuple[str, ...]:
    words = tuple(_WORDS.findall(name.lower()))
    return words[1:] if words[:1] == ("meta",) else words


def _is_of(words: tuple[str, ...], family: tuple[str, ...]) -> bool:
    rest = words[len(family) :]
    return words[: len(family)] == family and all(map(_SAME.fullmatch, rest))


@cache
def _families() -> tuple[tuple[tuple[str, ...], LongContext], ...]:
    data = tomllib.loads(_FILE.read_text())
    return tuple(
        (_words(name), _read(benchmark, part["year"], entry))
        for benchmark, part in data.items()
        for entry in part["models"]
        for name in entry["names"]
    )


def _read(benchmark: str, year: int, entry: Mapping[str, Any]) -> LongContext:
    if "effective" in entry:
        tokens = entry["effective"]
        finding = (
            "is all that was measured"
            if tokens == _TESTED
            else "it is above 85.6 %, and below that in longer ones"
        )
        return LongContext(tokens * 1_000, benchmark, year, finding)
    tokens, share = max(_held(entry))
    last = max(map(int, entry["scores"]))
    finding = (
        f"is all that was measured, and there it finds {share:.0%} of what it finds in a short text"
        if tokens == last
        else "it finds at least half of what it finds in a short text, and beyond that less"
    )
    return LongContext(tokens * 1_000, benchmark, year, finding)


def _held(entry: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    """Yield (thousands of tokens, share of the score for short texts) as long as the share is at
    least half."""
    for length, score in sorted((int(length), score) for length, score in entry["scores"].items()):
        if score < entry["base"] / 2:
            return
        yield length, score / entry["base"]
