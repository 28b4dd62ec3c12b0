"""Sequences for the terminal itself, where tmux stands between."""

from __future__ import annotations

import os


def for_terminal(sequence: str) -> str:
    """Return a sequence for whoever understands it: in tmux for tmux, which may know it, and for
    the terminal around it, which gets it where `allow-passthrough` is on."""
    if "TMUX" not in os.environ:
        return sequence
    inner = sequence.replace("\x1b", "\x1b\x1b")
    return f"{sequence}\x1bPtmux;{inner}\x1b\\"
