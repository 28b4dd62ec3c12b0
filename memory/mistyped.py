"""Names that were mistyped: which of those that there are was probably meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches


def nearest(word: str, words: Collection[str]) -> str:
    """Return the one of these words that was probably meant; "" for none.

    First the shortest that holds all the parts typed ("max_turns": agent_max_context_turns), then
    the most similar, as a whole or in its last part.
    """
    typed = [part for part in _parts(word[:100]) if len(part) > 2]
    holding = [known for known in words if typed and all(_holds(known, part) for part in typed)]
    if holding:
        return min(holding, key=lambda known: (len(known), known))
    spelled = {re.split(r"[./]", known.lower())[-1]: known for known in words}
    spelled |= {known.lower(): known for known in words}
    found = get_close_matches(word[:100].lower(), spelled, n=1, cutoff=0.7)
    return spelled[found[0]] if found else ""


def _parts(word: str) -> list[str]:
    return re.split(r"[./_\- ]", word.lower())


def _holds(known: str, part: str) -> bool:
    return any(own.startswith(part) for own in _parts(known))
