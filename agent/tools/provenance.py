"""Which files of a workspace came from outside, so that what they say is no instruction.

In `files/` that is all but what the model wrote itself while it had nothing from outside before it:
people send files, commands write them, and a page that was saved is still a stranger's. In
`sessions/` it is what was offloaded of results that were from outside, or too long to be shown;
the other folders are the house's own.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from agent.tools.workspace import WRITABLE, open_file
from memory.record.offload import CONTEXT, FLAG, SESSIONS

OWN = ".own"
"""The SHA-256 of each content that the model wrote itself, a line each; out of its tools' reach."""


def vouch(root: Path, content: bytes) -> None:
    """Keep that this content is the model's own. Raises OSError."""
    line = hashlib.sha256(content).hexdigest()
    if line not in _own(root):
        with open(os.open(root / OWN, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "w") as file:
            file.write(f"{line}\n")


def is_from_outside(root: Path, target: Path) -> bool:
    """Whether a file holds what somebody else wrote; one that can't be read may."""
    folder = target.relative_to(root).parts[:1]
    try:
        with open_file(root, target) as file:
            if folder == (WRITABLE,):
                return _digest(file) not in _own(root)
            if folder == (SESSIONS,):
                return target.name != CONTEXT or any(FLAG in line for line in file)
            return False
    except OSError:
        return True


def _digest(file: BinaryIO) -> str:
    sha256 = hashlib.sha256()
    while piece := file.read(1 << 20):
        sha256.update(piece)
    return sha256.hexdigest()


def _own(root: Path) -> frozenset[str]:
    with suppress(FileNotFoundError):
        return frozenset((root / OWN).read_text().split())
    return frozenset()
