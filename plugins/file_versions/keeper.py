"""Files that hold versions: which there are, and room for more."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

from memory.record import fence
from memory.record.folders import sync_folder

MOST_READ = 256_000_000
"""Bytes of a file that is read: a larger one has no version, and counts as another file when its
size or its times are others."""
_VERSION = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
_AT_ONCE = 8  # files that are synced together: a file system waits once for all of them


def name_version(file: BinaryIO, status: os.stat_result, begun: bytes = b"") -> str:
    """Return the name of what a file holds, of which so much was read."""
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
    """Return the versions of a folder with their sizes."""
    try:
        with os.scandir(folder) as found:
            return {e.name: e.stat().st_size for e in found if is_version(e.name)}
    except FileNotFoundError:
        return {}


class VersionKeeper:
    """Puts versions into a folder, within `most` bytes; `list_here` tells those of the files that
    are there now. The folder is listed once, and the versions are on disk after `sync`."""

    def __init__(self, folder: Path, most: int, list_here: Callable[[], set[str]]) -> None:
        self._folder, self._most, self._list_here = folder, most, list_here
        self.largest = min(most // 4, MOST_READ)
        self._new: list[Path] = []

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return list_versions(self._folder)

    @cached_property
    def _room(self) -> int:
        return self._most - sum(self._sizes.values())

    @cached_property
    def _oldest(self) -> Iterator[str]:
        """Versions that may go, the oldest first; never one of a file that is there now."""
        going = {*self._sizes} - self._list_here()
        ages = {name: (self._folder / name).stat().st_mtime_ns for name in going}
        return iter(sorted(going, key=lambda name: (ages[name], name)))

    def keep(self, version: str, content: bytes) -> None:
        """Put a version there, and the oldest away where there is no room; where that is not
        enough, it is not kept."""
        path = self._folder / version
        if self._sizes.get(version) == len(content):
            os.utime(path)
            self._used.add(version)
            return
        while self._room < len(content) and (old := next(self._oldest, "")):
            if old not in self._used:
                (self._folder / old).unlink()
                self._room += self._sizes.pop(old)
        if self._room >= len(content):
            self._write(path, content)
            self._sizes[version] = len(content)
            self._room -= len(content)

    @cached_property
    def _used(self) -> set[str]:
        return set()

    def _write(self, path: Path, content: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._folder / f".{token_hex(8)}.draft"
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
                target.write(content)
            fence.confirm()
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        self._new.append(path)

    def sync(self) -> None:
        """Have all that was put there on disk: together, which takes a fraction of the time."""
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
