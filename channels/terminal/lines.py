"""The lines that were typed, for the arrow keys and over restarts."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from prompt_toolkit.history import FileHistory


class Lines(FileHistory):
    """A file of lines that can forget some of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._path = path

    def forget(self, said: Collection[str] | None) -> None:
        """Delete the lines that say one of these texts, and all commands, which may speak of
        anything; None: all lines."""
        rest = [] if said is None else [line for line in self._stored() if not _says(line, said)]
        self._path.unlink(missing_ok=True)
        self._path.touch(mode=0o600)
        for line in rest:
            self.store_string(line)
        self._loaded = False  # the next line that is typed reads the file again

    def _stored(self) -> list[str]:
        """All lines, the oldest first."""
        return list(self.load_history_strings())[::-1]


def _says(line: str, said: Collection[str]) -> bool:
    """Whether a line is a command, or says one of the texts; "//x" says "/x" to the model."""
    text = line.strip()
    is_command = text.startswith("/") and not text.startswith("//")
    return is_command or text in said or (text.startswith("//") and text[1:] in said)
