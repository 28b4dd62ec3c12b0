"""The disk space allowed for an audience's files, for all writers together; and the files of its
workspace that came from outside, whose text must not be followed as an instruction (`Origins`)."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.workspace import WRITABLE
from memory.record import folders
from memory.record.offload import CONTEXT, FLAG, SESSIONS

MEGABYTE = 1_000_000
PICTURES = "data"
_SPARE_DISK = 500 * MEGABYTE  # that is kept free for messages; a tenth of a small disk
_ENTRY = 4_096  # the minimum bytes counted for a file or a folder

_LONGEST_PATH = 3_800  # bytes of a path; the system accepts 4,096, with the names in the folder
_HIDDEN = 1_000 * MEGABYTE  # counted for a deeper folder, which can't be scanned


class Allowance(Struct, frozen=True):
    """The disk space of an audience: the maximum in bytes, the remaining `room`, the `free` disk
    space at the time, and how much must stay free. Existing files may stay, and commands that
    delete them may run."""

    workspace: Path
    most: int
    room: int
    free: int
    least_free: int

    @classmethod
    def of(cls, workspace: Path, megabytes: int) -> Allowance:
        """Return the present allowance, with a quota. On a disk that is nearly full, a command may
        use a tenth of the rest: others write too."""
        free, reserve = _disk(workspace)
        there = measure_usage(workspace)
        most = max(megabytes * MEGABYTE, there)
        return cls(workspace, most, most - there, free, min(reserve, free * 9 // 10))

    def complaint(self) -> str:
        """Return why a writing command must be stopped, or "". It checks every file, which takes a
        while if there are many."""
        return _full(self.most) if measure_usage(self.workspace) > self.most else ""

    def quick_refusal(self) -> str:
        """Return the same, mostly judged by the free disk space: the files are checked only if more
        was written to the disk, by any process, than the audience may still store."""
        free, _ = _disk(self.workspace)
        if free < self.least_free:
            return "the disk is nearly full"
        return self.complaint() if self.free - free > self.room else ""


def measure_room(workspace: Path, megabytes: int) -> int:
    """Return the maximum bytes that `refusal` permits in an audience's folder."""
    free, reserve = _disk(workspace)
    return max(0, min(free - reserve, megabytes * MEGABYTE - measure_usage(workspace)))


def find_why_full(workspace: Path, megabytes: int, more: int) -> str:
    """Return why `more` bytes may not be written into an audience's folder, or ""."""
    if more <= 0:
        return ""
    free, reserve = _disk(workspace)
    if free - more < reserve:
        return "the disk is nearly full"
    most = megabytes * MEGABYTE
    return _full(most) if measure_usage(workspace) + more > most else ""


def require_space(workspace: Path, megabytes: int, more: int) -> None:
    """Check that tools may write `more` bytes. Raises ToolError."""
    if why := find_why_full(workspace, megabytes, more):
        raise ToolError(f"Nothing was written, because {why}. Delete something first.")


def _full(most: int) -> str:
    return f"this chat may keep {most // MEGABYTE:,} MB of files (tools.files_quota)"


def _disk(workspace: Path) -> tuple[int, int]:
    """Return the free bytes of a folder's disk, and the bytes that must stay free."""
    place = next(one for one in (workspace, *workspace.parents) if one.exists())
    disk = shutil.disk_usage(place)
    return disk.free, min(_SPARE_DISK, disk.total // 10)


def measure_usage(workspace: Path) -> int:
    """Return the disk usage in bytes of an audience's files and pictures. Links are not
    followed."""
    total, folders = 0, [os.fspath(workspace / name) for name in (WRITABLE, PICTURES)]
    while folders:
        folder = folders.pop()
        if len(os.fsencode(folder)) >= _LONGEST_PATH:
            total += _HIDDEN
            continue
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    total += max(_ENTRY, _size_on_disk(entry.stat(follow_symlinks=False)))
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total


def _size_on_disk(status: os.stat_result) -> int:
    """Return the bytes that a file takes on disk, or its size if the system does not report
    them."""
    blocks = getattr(status, "st_blocks", None)
    return status.st_size if blocks is None else int(blocks) * 512


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
    lines = {hashlib.sha256(content).hexdigest(), *(_of_name(root, place) for place in places)}
    new = sorted(lines - _own(root))
    if new:
        folders.check_may_write()
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
            return folder == (PICTURES,)
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


def _of_name(root: Path, target: Path) -> str:
    name = os.fsencode(target.relative_to(root))
    return hashlib.sha256(b"name\0" + name).hexdigest()


def _own(root: Path) -> frozenset[str]:
    with suppress(FileNotFoundError):
        return frozenset((root / OWN).read_text().split())
    return frozenset()
