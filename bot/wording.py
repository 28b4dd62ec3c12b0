"""Counts in words for the command line, which is English only."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """Return 1 turn, 2 turns, 1,000 turns; `many` is for a plural that is not formed by an s at the
    end."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
