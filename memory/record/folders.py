"""Folders held open, so that no symbolic link that is put there meanwhile leads out of them.

Where a system has descriptors of folders (Linux, macOS), a folder is held by one, and names in it
are reached through that. Windows has none: each name is looked at before it is used. A link that
is made in the very moment between escapes that, and few accounts there may make links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

HAS_DESCRIPTORS = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags by which a file is opened that must not be a link."""
NO_WAIT = NO_LINK | getattr(os, "O_NONBLOCK", 0)
"""The same for one that may be a pipe: to open it would wait for somebody to write to it."""
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_LINKS = 0x400  # FILE_ATTRIBUTE_REPARSE_POINT: junctions of Windows are no symbolic links to Python


class Folder(Protocol):
    """A folder that is held. Names are those in it; everything raises OSError."""

    def enter(self, name: str) -> Folder:
        """Hold a folder in this one. It is closed by who called."""

    def make(self, name: str) -> None:
        """Make a folder in this one."""

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of a file, which is no link."""

    def replace(self, old: str, new: str) -> None:
        """Put a file in the place of another, in one step."""

    def unlink(self, name: str) -> None:
        """Delete a file."""

    def status(self, name: str) -> os.stat_result:
        """Return what the system knows of a name; of a link, not of what it leads to."""

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Return all names with their status, sorted."""

    def sync(self) -> None:
        """Have the names on disk, where the system knows how."""

    def close(self) -> None:
        """Hold it no longer."""


@contextmanager
def hold(path: Path, *, may_be_link: bool = True) -> Iterator[Folder]:
    """Hold a folder. Raises OSError."""
    folder: Folder
    if HAS_DESCRIPTORS:
        folder = _ByDescriptor(os.open(path, _FOLDER | (0 if may_be_link else NO_LINK)))
    else:
        folder = _ByPath(path if may_be_link else _checked(path))
    try:
        yield folder
    finally:
        folder.close()


def sync_folder(path: Path) -> None:
    """Have the names in a folder on disk, where the system knows how. Raises OSError."""
    if HAS_DESCRIPTORS:
        with hold(path) as folder:
            folder.sync()


class _ByDescriptor:
    def __init__(self, number: int) -> None:
        self._number = number

    def enter(self, name: str) -> Folder:
        return _ByDescriptor(os.open(name, _FOLDER | NO_LINK, dir_fd=self._number))

    def make(self, name: str) -> None:
        os.mkdir(name, dir_fd=self._number)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        return os.open(name, flags | NO_WAIT, mode, dir_fd=self._number)

    def replace(self, old: str, new: str) -> None:
        os.replace(old, new, src_dir_fd=self._number, dst_dir_fd=self._number)

    def unlink(self, name: str) -> None:
        os.unlink(name, dir_fd=self._number)

    def status(self, name: str) -> os.stat_result:
        return os.stat(name, dir_fd=self._number, follow_symlinks=False)

    def entries(self) -> list[tuple[str, os.stat_result]]:
        with os.scandir(self._number) as found:
            return _sorted(found)

    def sync(self) -> None:
        os.fsync(self._number)

    def close(self) -> None:
        os.close(self._number)


class _ByPath:
    def __init__(self, path: Path) -> None:
        if not stat.S_ISDIR(os.stat(path).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        self._path = path

    def enter(self, name: str) -> Folder:
        return _ByPath(_checked(self._path / name))

    def make(self, name: str) -> None:
        os.mkdir(self._path / name)

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        file = self._path / name
        if os.path.lexists(file):
            status = os.stat(_checked(file))
            if flags & os.O_EXCL == 0 and not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file")
        return os.open(file, flags, mode)

    def replace(self, old: str, new: str) -> None:
        os.replace(self._path / old, self._path / new)

    def unlink(self, name: str) -> None:
        os.unlink(self._path / name)

    def status(self, name: str) -> os.stat_result:
        return os.lstat(self._path / name)

    def entries(self) -> list[tuple[str, os.stat_result]]:
        with os.scandir(self._path) as found:
            return _sorted(found)

    def sync(self) -> None:
        """Windows has no such thing for folders."""

    def close(self) -> None:
        """Nothing is open."""


def _sorted(found: Iterator[os.DirEntry[str]]) -> list[tuple[str, os.stat_result]]:
    entries = []
    for entry in found:
        try:
            entries.append((entry.name, entry.stat(follow_symlinks=False)))
        except FileNotFoundError:  # it left while we looked
            continue
    return sorted(entries, key=lambda entry: entry[0])


def _checked(path: Path) -> Path:
    """Return a path whose last name is no link. Raises OSError."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) or getattr(status, "st_file_attributes", 0) & _LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return path
