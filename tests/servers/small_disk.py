"""A separate disk, so small that a test can fill it, and free it again."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import chown, disk_usage
from tempfile import TemporaryDirectory

import pytest

_BLOCK = bytes(1 << 16)
_SHARED_MEMORY = Path("/dev/shm")  # small in a container, where mounting is impossible
_SMALL = 256  # megabytes that can be filled quickly


@dataclass(frozen=True)
class SmallDisk:
    """A folder on a disk with little space."""

    folder: Path

    def fill(self) -> None:
        """Fill the disk to the last byte."""
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
    """Yield a tmpfs of this size, or the shared memory's if mounting is not permitted. Skips the
    test if that one is large."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    with ExitStack() as stack:
        if not mounted.returncode:
            unmount = ["umount", "--lazy", str(folder)]
            stack.callback(subprocess.run, unmount, check=True)
        elif _SHARED_MEMORY.exists() and disk_usage(_SHARED_MEMORY).total <= _SMALL << 20:
            folder = Path(stack.enter_context(TemporaryDirectory(dir=_SHARED_MEMORY)))
        else:
            pytest.skip(f"no disk can be mounted here: {mounted.stderr.strip()}")
        if owner:
            chown(folder, owner)
        yield SmallDisk(folder)
