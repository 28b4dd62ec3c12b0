"""A placeholder for the detector, which is written elsewhere and takes the place of this file."""

from __future__ import annotations

import re

from msgspec import Struct

_ORDER = re.compile(
    r"(?:^|(?<=[.!?\n。！]))\s*"
    r"((?:never|always|from now on|immer|nie|niemals|ab jetzt|永远|以后|请不要)"
    r"[^.!?\n。！]{3,400}[.!?。！]?)",
    re.IGNORECASE,
)


class FoundInstruction(Struct, frozen=True):
    """An order: the person's words, where they stand in the text, and their language."""

    text: str
    start: int
    end: int
    language: str


def find_instructions(text: str) -> list[FoundInstruction]:
    """Return the orders in a text."""
    return [
        FoundInstruction(found[1], found.start(1), found.end(1), "en")
        for found in _ORDER.finditer(text)
    ]
