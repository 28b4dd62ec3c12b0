"""Places for the processes that read what strangers have made: documents, pages, and lines that a
pattern is searched for in. Each may take a gigabyte, so that only a few of them run at a time,
whoever wants them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from agent.tools import ToolError

AT_ONCE = 4
"""Processes that run at a time."""
PATIENCE = 60.0
"""Seconds for which a place is waited for."""
BUSY = "Too many documents and pages are being read at once; try again in a minute."


class _Taken(threading.local):
    """A mark of a thread that has a place: what it reads on the way needs no second one."""

    value = False


_free, _taken = threading.BoundedSemaphore(AT_ONCE), _Taken()


@contextmanager
def take_place(patience: float | None = PATIENCE) -> Iterator[None]:
    """Wait in this thread for a place (None: as long as it takes), and have it. Raises ToolError
    where none becomes free."""
    if _taken.value:
        yield
        return
    if not _free.acquire(timeout=patience):
        raise ToolError(BUSY)
    _taken.value = True
    try:
        yield
    finally:
        _taken.value = False
        _free.release()
