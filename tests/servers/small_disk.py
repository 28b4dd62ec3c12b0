"""A disk of its own, so small that a test can fill it, and free it again."""

from __future__ import annotations

import errno
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

_BLOCK = bytes(1 << 16)


@dataclass(frozen=True)
class SmallDisk:
    """Mounted at `folder`."""

    folder: Path

    def fill(self) -> None:
        """Let no byte be free."""
        with (self.folder / "filler").open("ab", buffering=0) as filler:
            for size in (len(_BLOCK), 1 << 12):
                try:
                    while filler.write(_BLOCK[:size]):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        (self.folder / "filler").unlink()


@contextmanager
def small_disk(folder: Path, megabytes: int, owner: str = "") -> Iterator[SmallDisk]:
    """A tmpfs of this size. Skips the test where mounting is not permitted."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
    try:
        if owner:
            shutil.chown(folder, owner)
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
