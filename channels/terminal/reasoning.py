"""The reasoning of models, before they answer: shown while a person wants it, above the answer."""

from __future__ import annotations

from channels.language import _
from channels.terminal.scroll import Scroll


class ShownReasoning:
    """The reasoning of the running turn, as far as it is not on the screen for good."""

    def __init__(self, scroll: Scroll) -> None:
        self._scroll = scroll
        self._pieces: list[str] = []
        self._is_over = False
        self.is_shown = False

    def toggle(self) -> str:
        """Show it, or no longer; return what was done."""
        self.is_shown = not self.is_shown
        if not self.is_shown:
            return _("Reasoning is hidden.")
        if self._is_over:
            self.tell()
        return _("Reasoning is shown · Ctrl-O hides it")

    def add(self, text: str) -> None:
        if self._is_over:
            self.drop()
        self._pieces.append(text)

    def tell(self) -> None:
        """Put it above what comes now, which is no part of it."""
        self._is_over = True
        if self.is_shown and self._pieces:
            self._scroll.reasoning("".join(self._pieces))
            self._pieces = []

    def drop(self) -> None:
        """Forget it: another one begins."""
        self._pieces, self._is_over = [], False

    @property
    def is_hidden(self) -> bool:
        """Return whether there is some that is not shown."""
        return bool(self._pieces) and not self.is_shown

    @property
    def tail(self) -> str:
        """Return what is shown while it grows."""
        return "" if self._is_over or not self.is_shown else "".join(self._pieces)
