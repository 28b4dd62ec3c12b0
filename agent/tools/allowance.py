"""The disk space allowed for an audience's files, for all writers together."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agent.tools import ToolError
from agent.tools.workspace import WRITABLE

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

    def urgent_complaint(self) -> str:
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


def refusal(workspace: Path, megabytes: int, more: int) -> str:
    """Return why `more` bytes may not be written into an audience's folder, or ""."""
    if more <= 0:
        return ""
    free, reserve = _disk(workspace)
    if free - more < reserve:
        return "the disk is nearly full"
    most = megabytes * MEGABYTE
    return _full(most) if measure_usage(workspace) + more > most else ""


def demand(workspace: Path, megabytes: int, more: int) -> None:
    """Check that tools may write `more` bytes. Raises ToolError."""
    if why := refusal(workspace, megabytes, more):
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
