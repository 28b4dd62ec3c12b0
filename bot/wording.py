"""Counts in words for the command line, which speaks English alone."""

from __future__ import annotations


def count(number: int, one: str, many: str = "") -> str:
    """1 turn, 2 turns, 1,000 turns; `many` is for what has its plural elsewhere than at its end."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
