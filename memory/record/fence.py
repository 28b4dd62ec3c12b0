"""The check that this process may still change files. Several processes share the files, and no
transaction rolls back the write of a process that the others consider dead.

Code that changes or deletes a file of an audience calls `check_may_write` just before. The check is
set per task, with a `Store.fence`, and inherited by the tasks started from it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

_ask: ContextVar[Callable[[], None] | None] = ContextVar("ask", default=None)


def set_file_check(ask: Callable[[], None]) -> None:
    """Set the check that runs before each change of a file, in this task and those it starts. It
    raises StoreError if this process may not change files."""
    _ask.set(ask)


def check_may_write() -> None:
    """Return once this process may still change files, as far as the database knows. This may
    block, so call it in a thread. Raises StoreError if other processes have taken over."""
    if (ask := _ask.get()) is not None:
        ask()
