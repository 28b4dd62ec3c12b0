"""Ctrl-C while the program is being loaded. Imports only fast modules."""

from __future__ import annotations

import signal


def end_silently() -> None:
    """Have Ctrl-C end the process without a traceback: nothing needs to be stopped yet, and no code
    would catch a KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def interrupt_again() -> None:
    """Undo `end_silently`."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
