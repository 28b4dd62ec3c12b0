"""The choice from a list in the terminal: a list above the input line, whose text filters it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct
from prompt_toolkit.formatted_text import StyleAndTextTuples
from rich.cells import cell_len, set_cell_size

from channels.language import _

_MOST = 10  # entries that are shown at once


class PickerEntry(Struct, frozen=True):
    """An entry of a list: its label, words on its right, and its value."""

    label: str
    about: str
    value: str


Find = Callable[[str], Awaitable[Sequence[PickerEntry]]]
"""Returns the entries for the typed text."""


class Picker(Struct):
    """The list to choose from; `found` are the entries, and the one at `index` is marked."""

    title: str
    find: Find
    choose: Callable[[str], None]
    found: Sequence[PickerEntry] = ()
    index: int = 0
    asked: int = 0

    def move(self, by: int) -> None:
        self.index = max(0, min(len(self.found) - 1, self.index + by))

    def take(self, found: Sequence[PickerEntry], asked: int) -> bool:
        """Show the results of a search, unless a newer one was started; return whether they are
        shown."""
        if asked != self.asked:
            return False
        self.found, self.index = found, 0
        return True

    def draw(self, width: int, height: int) -> StyleAndTextTuples:
        """Return the list, as many entries as there is room for, including the marked one."""
        room = max(1, min(_MOST, height - 6))
        first = max(0, min(self.index - room // 2, len(self.found) - room))
        shown = self.found[first : first + room]
        lines: StyleAndTextTuples = [("bold", self.title[: width - 1]), ("", "\n")]
        for number, entry in enumerate(shown, first):
            is_marked = number == self.index
            about = entry.about if cell_len(entry.about) < width // 2 else ""
            label = set_cell_size(entry.label, max(1, width - cell_len(about) - 4))
            lines.append(
                ("class:prompt" if is_marked else "", f"{'›' if is_marked else ' '} {label}")
            )
            lines += [("class:bar", f" {about}"), ("", "\n")]
        if len(self.found) > len(shown):
            narrow = _("{n} in total; type to filter them", n=len(self.found))
            lines += [("class:bar", f"  {narrow}"), ("", "\n")]
        if not self.found:
            lines += [("class:bar", f"  {_('nothing found')}"), ("", "\n")]
        return lines
