"""Files that hold versions: which there are, room for more, and the log of changes. It has one
order for all conversations of a chat; a file's state at the end of a turn is the state before the
first change after it."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from memory.faults import describe_fault
from memory.keys import home_of
from memory.record.folders import sync_folder
from memory.record.offload import write_whole
from memory.record.store import StoreError

Kind = Literal["tool", "restore", "here", "lost"]


class ChangeRow(Struct, frozen=True):
    """A change of a file: its versions before and after, as hashes ("": it did not exist). Rows of
    one `batch` belong together. A `tool` ran in this turn; a `restore` came after it, or the chat
    switched to this conversation then (`here`, without a file). `lost` marks, for all chats,
    changes that are no longer readable. `cut` is the last earlier change of this file that is no
    longer in the log."""

    seq: int
    batch: int
    at: float
    conversation: str
    turn: int
    kind: Kind
    path: str = ""
    before: str = ""
    after: str = ""
    cut: int = 0

    @property
    def versions(self) -> tuple[str, str]:
        return self.before, self.after

    def is_within(self, turn: int) -> bool:
        """Return whether this was before the end of a turn of its conversation."""
        return self.turn <= turn if self.kind == "tool" else self.turn < turn


class FileStep(Struct, frozen=True):
    """A file to be restored to a version ("": it did not exist). `is_foreign`: somebody else has
    changed it since; `is_kept`: a turn that is still in the conversation has changed it; `is_lost`:
    the version is no longer stored."""

    path: str
    wanted: str
    is_foreign: bool = False
    is_kept: bool = False
    is_lost: bool = False

    @property
    def needs_yes(self) -> bool:
        return self.is_foreign or self.is_kept


def without(rows: Sequence[ChangeRow], going: Collection[ChangeRow]) -> list[ChangeRow]:
    """Return the rows without the deleted ones. The next row of the same file in the same chat is
    marked, since the state before it is no longer known."""
    rest, dropped = list[ChangeRow](), dict[tuple[str, str], int]()
    for row in rows:
        key = (home_of(row.conversation), row.path)
        if row in going:
            dropped[key] = row.seq
        elif cut := dropped.pop(key, 0):
            rest.append(replace(row, cut=cut))
        else:
            rest.append(row)
    return rest


Line = Sequence[tuple[str, int]]
"""A conversation and its ancestors, each with the last turn of it that belongs to the line."""


def find_end(rows: Sequence[ChangeRow], line: Line) -> int:
    """Return the last row before the end of the last turn of this line."""
    last = dict(line)
    return max(
        (row.seq for row in rows if row.is_within(last.get(row.conversation, -1))), default=0
    )


def find_leaving(rows: Sequence[ChangeRow], conversation: str, line: Line) -> int:
    """Return the last row before the chat left this conversation, to which it has returned; if it
    was never there, the last row before the end of this line."""
    own = [row for row in rows if row.conversation == conversation]
    came = max((row.seq for row in own if row.kind == "here"), default=0)
    before = [row.seq for row in own if row.seq < came]
    return before[-1] if before else find_end(rows, line)


def plan(
    rows: Sequence[ChangeRow],
    since: int,
    now: Mapping[str, str],
    versions: Collection[str],
    kept: Collection[ChangeRow],
) -> list[FileStep]:
    """Return what sets these files back that rows have changed after the row `since`; `now` is what
    they hold. `versions` are there, and the `kept` changes are of turns that the conversation still
    has."""
    changes: dict[str, list[ChangeRow]] = {}
    for row in rows:
        if row.path in now and row.seq > since:
            changes.setdefault(row.path, []).append(row)
    lost = min((row.seq for row in rows if row.kind == "lost" and row.seq > since), default=0)
    steps = [
        _plan_one(found, 0 < lost < found[0].seq, since, now[path], versions, kept)
        for path, found in sorted(changes.items())
    ]
    return [step for step in steps if step is not None]


def _plan_one(
    changes: Sequence[ChangeRow],
    is_unknown: bool,
    since: int,
    now: str,
    versions: Collection[str],
    kept: Collection[ChangeRow],
) -> FileStep | None:
    first, *others = changes
    is_unknown = is_unknown or first.cut > since
    if now == first.before and not is_unknown:
        return None
    found = [*(row.before for row in others), now]
    return FileStep(
        first.path,
        first.before,
        is_foreign=any(row.after != next_ for row, next_ in zip(changes, found, strict=True)),
        is_kept=any(row.kind == "tool" and row in kept for row in changes),
        is_lost=is_unknown or (bool(first.before) and first.before not in versions),
    )


MOST_READ = 256_000_000
"""The maximum number of bytes read of a file. A larger one has no version, and counts as changed if
its size or its times differ."""
_VERSION = re.compile(r"[0-9a-f]{64}")
_PIECE = 1 << 20
_AT_ONCE = 8  # files that are synced concurrently: a file system waits once for all of them


def name_version(file: BinaryIO, status: os.stat_result, begun: bytes = b"") -> str:
    """Return the name of a file's content, of which `begun` was already read."""
    if status.st_size > MOST_READ:
        state = (status.st_size, status.st_mtime_ns, status.st_ino)
        return hashlib.sha256(repr(state).encode()).hexdigest()
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
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, content, is_synced=False)
            self._new.append(path)
            self._sizes[version] = len(content)
            self._bytes_left -= len(content)

    @cached_property
    def _used(self) -> set[str]:
        return set()

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


def name_damaged(name: str) -> str:
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
    aside = file.with_name(name_damaged(file.name))
    try:
        delete_any(aside)
        file.replace(aside)
    except OSError as error:
        raise StoreError(f"{file.parent} can't be used: {describe_fault(error)}.") from error
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
