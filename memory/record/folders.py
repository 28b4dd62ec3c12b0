"""Files that several processes share: `check_may_write` before each change, since no transaction
rolls back the write of a process that is considered dead; and folders held open, so that a symbolic
link created meanwhile can't lead out of them (not on Windows)."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Protocol

_ask: ContextVar[Callable[[], None] | None] = ContextVar("ask", default=None)


def set_file_check(ask: Callable[[], None]) -> None:
    """Set the check that runs before each change of a file, in this task and those it starts. It
    raises StoreError if this process may not change files."""
    _ask.set(ask)


def check_may_write() -> None:
    """Return once this process may still change files, as far as the database knows. This may
    block, so call it in a thread. Raises StoreError if other processes have taken over."""
    if (ask := _ask.get()) is not None:
        ask()


HAS_DESCRIPTORS = hasattr(os, "O_DIRECTORY") and os.open in os.supports_dir_fd
NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
"""The flags for opening a file that must not be a link."""
NO_WAIT = NO_LINK | getattr(os, "O_NONBLOCK", 0)
"""The same for a file that may be a pipe: opening a pipe would wait for a writer."""
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_LINKS = 0x400


class Folder(Protocol):
    """A folder that is held open. Names are relative to it; every method raises OSError."""

    def enter(self, name: str) -> Folder:
        """Open a folder in this one. The caller closes it."""

    def make(self, name: str) -> None:
        """Create a folder in this one."""

    def open(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Return a descriptor of a file that is not a link."""

    def replace(self, old: str, new: str) -> None:
        """Replace a file by another, atomically."""

    def unlink(self, name: str) -> None:
        """Delete a file."""

    def status(self, name: str) -> os.stat_result:
        """Return the status of a name; of a link itself, not of its target."""

    def entries(self) -> list[tuple[str, os.stat_result]]:
        """Return all names with their status, sorted."""

    def sync(self) -> None:
        """Write the names to disk, if the system supports that."""

    def close(self) -> None:
        """Release the folder."""


@contextmanager
def hold(path: Path, *, may_be_link: bool = True) -> Iterator[Folder]:
    """Hold a folder open. Raises OSError."""
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
    """Write the names in a folder to disk, if the system supports that. Raises OSError."""
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
        """Do nothing: Windows can't sync folders."""

    def close(self) -> None:
        """Do nothing: no descriptor is open."""


def _sorted(found: Iterator[os.DirEntry[str]]) -> list[tuple[str, os.stat_result]]:
    entries = []
    for entry in found:
        try:
            entries.append((entry.name, entry.stat(follow_symlinks=False)))
        except FileNotFoundError:  # deleted during the scan
            continue
    return sorted(entries, key=lambda entry: entry[0])


def _checked(path: Path) -> Path:
    """Return the path if its last name is not a link. Raises OSError."""
    status = os.lstat(path)
    if stat.S_ISLNK(status.st_mode) or getattr(status, "st_file_attributes", 0) & _LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return path
