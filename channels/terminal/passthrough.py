"""Sequences for the terminal itself, also through tmux."""

from __future__ import annotations

import base64
import os


def for_terminal(sequence: str) -> str:
    """Return a sequence for the terminal: in tmux both for tmux, which may support it, and for the
    terminal around it, which gets it if `allow-passthrough` is on."""
    if "TMUX" not in os.environ:
        return sequence
    inner = sequence.replace("\x1b", "\x1b\x1b")
    return f"{sequence}\x1bPtmux;{inner}\x1b\\"


def clipboard_sequence(text: str) -> str:
    """Return the sequence (OSC 52) that puts a text into the clipboard of the person's machine."""
    return f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07"
