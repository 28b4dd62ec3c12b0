"""Spaces at which no line is broken ("5 kg", "t1 – t3"). Rich breaks lines at every kind of space,
so that signs which are no spaces stand for these while a text is laid out."""

from __future__ import annotations

_HELD = {0xA0: "\ufdd0", 0x202F: "\ufdd1", 0x2007: "\ufdd2"}
"""The signs are none that a text may have: Unicode keeps them for use inside of programs."""
_FREED = {ord(sign): chr(space) for space, sign in _HELD.items()}


def hold(text: str) -> str:
    """Return a text that is broken at none of these spaces."""
    return text.translate(_HELD)


def free(text: str) -> str:
    """Return the text that was held, with its spaces."""
    return text.translate(_FREED)
