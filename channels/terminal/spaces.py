"""Non-breaking spaces ("5 kg", "t1 – t3"). Rich breaks lines at every kind of space, so these are
replaced by other characters during layout."""

from __future__ import annotations

_HELD = {0xA0: "\ufdd0", 0x202F: "\ufdd1", 0x2007: "\ufdd2"}
"""The characters can't occur in texts: Unicode reserves them for internal use by programs."""
_FREED = {ord(sign): chr(space) for space, sign in _HELD.items()}


def hold(text: str) -> str:
    """Return a text with these spaces replaced."""
    return text.translate(_HELD)


def free(text: str) -> str:
    """Return the text with its spaces restored."""
    return text.translate(_FREED)
