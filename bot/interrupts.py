"""Ctrl-C while the program is being loaded. It imports nothing that takes time."""

from __future__ import annotations

import signal


def end_silently() -> None:
    """Have Ctrl-C end the process without a word: there is nothing to stop yet, and nobody who
    would catch a KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_again() -> None:
    """Take that back."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
