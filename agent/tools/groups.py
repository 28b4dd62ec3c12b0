"""Ending a process with all that it has started, as far as the system knows which that is."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

HAS_GROUPS = hasattr(os, "killpg")
"""True where a process that was started in a session of its own is the head of a group. Windows has
no groups: what such a process has started there goes on."""
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


def end_group(process: int, number: int = KILL) -> None:
    """Send a signal to a process and its group; one that is gone needs none."""
    if HAS_GROUPS:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process, number)
    else:
        with suppress(OSError):  # Windows calls the number of a process that is gone invalid
            os.kill(process, number)
