"""Ending a process together with its children, as far as the system tracks them."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

HAS_GROUPS = hasattr(os, "killpg")
"""True if a process started in its own session leads a group. Windows has no groups: its children
keep running there."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def end_group(process: int, number: int = KILL) -> None:
    """Send a signal to a process and its group; an ended one is ignored."""
    if HAS_GROUPS:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, number)
    else:
        with suppress(OSError):  # Windows reports an ended process as an invalid number
            os.kill(process, number)
