"""The progress of long work, as the code that does the work reports it."""

from __future__ import annotations


class TaskProgress:
    """The reports of one task. This class ignores them; `bot/progress.py` shows them."""

    def show_progress(self, done: int, total: int) -> None:
        """Report the amount done, and the total (0: unknown)."""

    def write_line(self, text: str) -> None:
        """Report a line for the person who waits."""


SILENT = TaskProgress()
