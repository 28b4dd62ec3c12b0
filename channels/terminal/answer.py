"""An answer while it streams: what can be printed for good, and what may still change."""

from __future__ import annotations

from channels.terminal.controls import without_controls

_SHORT = 2_000
"""Characters of a block that is looked at with each new line."""
_GROWTH = 1.2
"""How many times as long a longer one must be before it is looked at again."""


class StreamedAnswer:
    """The text of one step. Whole markdown blocks leave it in order, once; the rest is its tail."""

    def __init__(self) -> None:
        self._taken = ""
        self._lines = ""  # whole lines, clean
        self._pieces: list[str] = []  # of the line that still grows, as they came
        self._looked_at = 0  # how long the lines were when no block in them was finished
        self._has_new_line = False

    def add(self, delta: str) -> None:
        if "\n" not in delta:
            self._pieces.append(delta)
            return
        *lines, rest = (self._line + delta).split("\n")
        self._pieces = [rest]
        self._lines += "".join(without_controls(line) + "\n" for line in lines)
        self._has_new_line = True

    @property
    def _line(self) -> str:
        """The line that still grows: it may end within a sequence."""
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    @property
    def tail(self) -> str:
        return self._lines + without_controls(self._line)

    @property
    def is_begun(self) -> bool:
        """Whether a part of it was taken, and so can't be taken back."""
        return bool(self._taken.strip())

    def take(self) -> str:
        """The blocks that are finished since the last call; "" if there are none."""
        if not self._has_new_line or len(self._lines) < _GROWTH * self._looked_at:
            return ""
        # rich.markdown is slow to import, and the first prompt doesn't wait for it.
        from channels.terminal.markdown import finished  # noqa: PLC0415

        self._has_new_line = False
        end = finished(self._lines)
        block, self._lines = self._lines[:end], self._lines[end:]
        self._looked_at = 0 if end or len(self._lines) < _SHORT else len(self._lines)
        self._taken += block
        return block

    def take_all(self) -> str:
        rest, self._lines, self._pieces, self._looked_at = self.tail, "", [], 0
        self._taken += rest
        return rest

    def rest_of(self, final: str) -> str | None:
        """What of the final text was not taken yet; None when it doesn't begin with what was."""
        text, taken = without_controls(final).strip(), self._taken.strip()
        return text.removeprefix(taken) if text.startswith(taken) else None
