"""May this process still change files? Several processes share them, and no transaction takes back
what one that others took for dead writes there.

Whatever changes a file of an audience, or deletes one, calls `confirm` just before. Who is asked is
known to the task that works with a `Store.fence`, and to all that begins in it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_ask: ContextVar[Callable[[], None] | None] = ContextVar("ask", default=None)


def ask_before_files(ask: Callable[[], None]) -> None:
    """Let this be called before a file is changed, from now on, in this task and those it starts:
    it raises StoreError where this process may not."""
    _ask.set(ask)


def confirm() -> None:
    """Return when this process may still change files, as far as the database knows. In a thread:
    it may have to wait. Raises StoreError where others have taken over."""
    if (ask := _ask.get()) is not None:
        ask()
