"""Values that a person has corrected. Found without a model. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct


class Correction(Struct, frozen=True):
    """A value that took the place of another, as both were written; `at` is the index of the
    message that says so."""

    old: str
    new: str
    at: int


_VALUE = r"(\w[\w.:/@-]*(?: \w[\w.:/@-]*){0,2}?)"
_PATTERNS = (
    re.compile(rf"\b(?:it['’]s|is|are|on|at) {_VALUE}, not {_VALUE}(?=[.,;!?)]|$)", re.IGNORECASE),
    re.compile(
        rf"\b(?:ist|sind|heißt|am|um) {_VALUE}, nicht {_VALUE}(?=[.,;!?)]|$)", re.IGNORECASE
    ),
    re.compile(r"是([\w/.:]{1,12})[，,]\s*(?:而)?不是([\w/.:]{1,12})(?=[。，,.；;！!？?]|$)"),
)


def find_corrections(said: Sequence[str]) -> list[Correction]:
    """Find the corrections in messages of a person, oldest first."""
    found = []
    for at, text in enumerate(said):
        for pattern in _PATTERNS:
            found += [Correction(one[2], one[1], at) for one in pattern.finditer(text[:20_000])]
    return found
