"""Files that hold versions: which there are, room for more, and the log of what changed."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

import msgspec

from memory.faults import say_fault
from memory.record import folders
from memory.record.folders import sync_folder
from memory.record.store import StoreError
from plugins.file_versions.points import ChangeRow

MOST_READ = 256_000_000
"""The maximum number of bytes read of a file. A larger one has no version, and counts as changed if
its size or its times differ."""
_VERSION = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
_AT_ONCE = 8  # files that are synced concurrently: a file system waits once for all of them


def name_version(file: BinaryIO, status: os.stat_result, begun: bytes = b"") -> str:
    """Return the name of a file's content, of which `begun` was already read."""
    if status.st_size > MOST_READ:
        told = (status.st_size, status.st_mtime_ns, status.st_ino)
        return hashlib.sha256(repr(told).encode()).hexdigest()
    sha256, left = hashlib.sha256(begun), MOST_READ
    while left > 0 and (piece := file.read(_PIECE)):  # it may grow meanwhile
        sha256.update(piece)
        left -= len(piece)
    return sha256.hexdigest()


def is_version(name: str) -> bool:
    return _VERSION.fullmatch(name) is not None


def list_versions(folder: Path) -> dict[str, int]:
    """Return the versions in a folder with their sizes."""
    try:
        with os.scandir(folder) as found:
            return {e.name: e.stat().st_size for e in found if is_version(e.name)}
    except FileNotFoundError:
        return {}


class VersionKeeper:
    """The storage of versions in a folder, within `most` bytes; `list_here` returns the versions of
    the current files. The folder is listed once, and the versions are on disk after `sync`."""

    def __init__(self, folder: Path, most: int, list_here: Callable[[], set[str]]) -> None:
        self._folder, self._most, self._list_here = folder, most, list_here
        self.largest = min(most // 4, MOST_READ)
        self._new: list[Path] = []

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return list_versions(self._folder)

    @cached_property
    def _bytes_left(self) -> int:
        return self._most - sum(self._sizes.values())

    @cached_property
    def _oldest(self) -> Iterator[str]:
        """Return the versions that may be evicted, the oldest first; never one of a current
        file."""
        going = {*self._sizes} - self._list_here()
        ages = {name: (self._folder / name).stat().st_mtime_ns for name in going}
        return iter(sorted(going, key=lambda name: (ages[name], name)))

    def keep(self, version: str, content: bytes) -> None:
        """Store a version, and evict the oldest ones if there is no room; if that is not enough,
        don't store it."""
        path = self._folder / version
        if self._sizes.get(version) == len(content):
            os.utime(path)
            self._used.add(version)
            return
        while self._bytes_left < len(content) and (old := next(self._oldest, "")):
            if old not in self._used:
                (self._folder / old).unlink()
                self._bytes_left += self._sizes.pop(old)
        if self._bytes_left >= len(content):
            self._write(path, content)
            self._sizes[version] = len(content)
            self._bytes_left -= len(content)

    @cached_property
    def _used(self) -> set[str]:
        return set()

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{token_hex(8)}.draft"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                target.write(content)
            folders.check_may_write()
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._new.append(path)

    def sync(self) -> None:
        """Sync all new versions to disk concurrently, which takes a fraction of the time."""
        if self._new:
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                for _ in threads.map(_sync, self._new):
                    pass  # an error is raised here
            sync_folder(self._folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


log = logging.getLogger(__name__)

LOG = "log.jsonl"
DAMAGED = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors that decoding a damaged file may raise."""
_FOR_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)
"""The numbers of temporary errors, which don't mean that a file is damaged."""


def aside_of(name: str) -> str:
    """Return the name under which a damaged file is set aside."""
    return f"{name}.damaged"


def read_or_put_aside(file: Path) -> bytes | None:
    """Return the content of a file; None if it does not exist. An unreadable one is set aside.
    Raises StoreError if that fails as well."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _FOR_NOW:
            raise
        _put_aside(file, error)
        return None


def _put_aside(file: Path, why: OSError) -> None:
    aside = file.with_name(aside_of(file.name))
    try:
        delete_any(aside)
        file.replace(aside)
    except OSError as error:
        raise StoreError(f"{file.parent} can't be used: {say_fault(error)}.") from error
    log.error("%s can't be read (%s); it is kept as %s", file, why, aside.name)


def read_rows(content: bytes) -> tuple[list[ChangeRow], bool]:
    """Return the changes of a log, and whether all of its lines are valid. If a sequence number is
    missing next to an invalid line, a row marks the loss."""
    rows, is_lost, is_whole = list[ChangeRow](), False, True
    for line in content.splitlines():
        if (row := _read_row(line)) is None:
            is_lost, is_whole = True, False
            continue
        last = rows[-1].seq if rows else 0
        if is_lost and row.seq > last + 1:
            rows.append(mark_lost(last))
        rows.append(row)
        is_lost = False
    if is_lost:
        rows.append(mark_lost(rows[-1].seq if rows else 0))
    return rows, is_whole


def mark_lost(after: int) -> ChangeRow:
    """Return the row that marks unreadable changes after another one."""
    return ChangeRow(after + 1, after + 1, time.time(), "", 0, "lost")


def _read_row(line: bytes) -> ChangeRow | None:
    with suppress(*DAMAGED):
        row = msgspec.json.decode(line, type=ChangeRow)
        if "\0" not in row.path and all(not one or is_version(one) for one in row.versions):
            return row
    return None


def delete_any(path: Path) -> None:
    """Delete a file, a link, or a folder with its content, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
