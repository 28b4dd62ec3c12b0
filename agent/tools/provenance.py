"""The files of a workspace that came from outside, whose text must not be followed as an
instruction.

In `files/` these are all files except those that the model wrote itself without untrusted text in
its context, and in `data/` all files: people send files, commands write them, and a saved page
remains foreign. The same applies to their names, which can contain instructions as well. In
`sessions/` these are offloaded results that were untrusted, or too long to be shown. The other
folders are the bot's own, and so are all names outside `files/`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from agent.tools.allowance import PICTURES as DATA
from agent.tools.workspace import WRITABLE
from memory.record import fence
from memory.record.offload import CONTEXT, FLAG, SESSIONS

OWN = ".own"
"""The SHA-256 of each content that the model wrote itself, and of each name that it gave, one per
line; tools can't access the file."""


def record_own(root: Path, target: Path, content: bytes) -> None:
    """Record that the model itself wrote this content, and named its file and the folders around
    it. Raises OSError."""
    places = [
        target,
        *(folder for folder in target.parents if folder.is_relative_to(root / WRITABLE)),
    ]
    lines = {_of_content(content), *(_of_name(root, place) for place in places)}
    new = sorted(lines - _own(root))
    if new:
        fence.check_may_write()
        with open(os.open(root / OWN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
            file.write("".join(f"{line}\n" for line in new))


class Origins:
    """The origins of a workspace's files, as known at this moment."""

    def __init__(self, root: Path) -> None:
        self._root, self._known = root, _own(root)

    def is_from_outside(self, target: Path, file: BinaryIO) -> bool:
        """Return whether this open file has foreign content; an unreadable one may have. Its
        position is restored."""
        folder = target.relative_to(self._root).parts[:1]
        place = file.tell()
        try:
            file.seek(0)
            if folder == (WRITABLE,):
                return _digest(file) not in self._known
            if folder == (SESSIONS,):
                return target.name != CONTEXT or any(FLAG in line for line in file)
            return folder == (DATA,)
        except OSError:
            return True
        finally:
            file.seek(place)

    def are_own_names(self, targets: Iterable[Path]) -> bool:
        """Return whether all names of these files and folders are the model's or the bot's own."""
        return all(map(self._is_own_name, targets))

    def _is_own_name(self, target: Path) -> bool:
        place = target.relative_to(self._root).parts
        is_ours = len(place) < 2 or place[0] != WRITABLE
        return is_ours or _of_name(self._root, target) in self._known


def _digest(file: BinaryIO) -> str:
    sha256 = hashlib.sha256()
    while piece := file.read(1 << 20):
        sha256.update(piece)
    return sha256.hexdigest()


def _of_content(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _of_name(root: Path, target: Path) -> str:
    name = os.fsencode(target.relative_to(root))
    return hashlib.sha256(b"name\0" + name).hexdigest()


def _own(root: Path) -> frozenset[str]:
    with suppress(FileNotFoundError):
        return frozenset((root / OWN).read_text().split())
    return frozenset()
