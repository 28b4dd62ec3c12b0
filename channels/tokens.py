"""Long random texts that open something: which could be guessed."""

from __future__ import annotations

SHORTEST_TOKEN = 16
"""Characters; a shorter token could be guessed."""
_FEWEST_SIGNS = 6  # different ones; "aaaaaaaaaaaaaaaa" could be guessed as well


def is_weak(token: str) -> bool:
    """Return whether a token could be guessed."""
    return len(token) < SHORTEST_TOKEN or len(set(token)) < _FEWEST_SIGNS
