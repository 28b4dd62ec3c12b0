"""The versions of an audience's files, in a folder outside of its workspace.

    {sha256}      a version: the content of a file
    log.jsonl     the changes, one per line (`points.ChangeRow`)
    *.damaged     one of the other two files, set aside since it was damaged
    state.json    the files at the last scan, and the running tools

A version is on disk before its file is changed, and so is the entry of a running tool: after a
crash, the next scan finds the tool's changes until then, and logs them as that tool's.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

import msgspec
from msgspec import Struct, field

from agent.tools import ToolError
from agent.tools.workspace import (
    WRITABLE,
    files_below,
    is_speakable,
    open_file,
    open_folder,
    resolve,
    save_file,
)
from memory.record import folders
from memory.record.offload import write_whole
from plugins.file_versions.keeper import (
    DAMAGED,
    LOG,
    ChangeRow,
    FileStep,
    Kind,
    VersionKeeper,
    delete_any,
    list_versions,
    mark_lost,
    name_damaged,
    name_version,
    plan,
    read_or_put_aside,
    read_rows,
    without,
)

log = logging.getLogger(__name__)

MOST_FILES = 5_000
"""The maximum number of files in a workspace for which all are scanned when a command runs."""
MOST_ROWS = 5_000
"""The maximum number of changes logged for an audience's files. Beyond it, a fifth is deleted, but
never a part of the newest batch."""
_COARSE = 20_000_000  # nanoseconds by which file timestamps may lag
_STATE = "state.json"


class SeenFile(Struct, frozen=True, array_like=True):
    """A file at the last scan. If it is not `is_settled`, it had been changed just before, and may
    have been changed again without a new timestamp."""

    version: str
    size: int
    modified: int
    changed: int
    number: int
    is_settled: bool

    def is_same(self, status: os.stat_result) -> bool:
        now = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        return self.is_settled and now == (self.size, self.modified, self.changed, self.number)


class Running(Struct, frozen=True):
    """A tool, or a restore, that may be changing these files now (None: any)."""

    conversation: str
    turn: int
    kind: Kind = "tool"
    paths: tuple[str, ...] | None = None


class ArchiveState(Struct):
    """The content of `state.json`; `running` is by id."""

    files: dict[str, SeenFile] = field(default_factory=dict)
    running: dict[str, Running] = field(default_factory=dict)


class TooManyFiles(Exception):
    """A workspace with more files than are scanned."""


class VersionArchive:
    """The versions of one audience. Its methods are for threads, one at a time; they raise OSError,
    and StoreError if another process has taken over."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._folder, self._workspace = folder, workspace
        self._lock, self._live = threading.RLock(), set[str]()

    def begin(self, running: Running, most: int) -> str:
        """Store the files as they are before a tool changes them, within `most` bytes; return an id
        for `finish`. Raises TooManyFiles."""
        with self._lock:
            state, name = self._load(most), token_hex(8)
            self._note(state, running.paths, self._find_wide(state), most)
            state.running[name] = running
            self._save(state)
            self._live.add(name)
            return name

    def finish(self, name: str, most: int) -> None:
        """Store the changes of a tool."""
        with self._lock:
            self._live.discard(name)
            state = self._load(most)  # which finishes the tools that are not running
            self._delete_unused(state, self.rows())

    def rows(self) -> list[ChangeRow]:
        """Return all changes, oldest first. A damaged log is set aside, and its readable lines are
        kept."""
        with self._lock:
            content = read_or_put_aside(self._folder / LOG)
            if content is None:
                is_lost = os.path.lexists(self._folder / name_damaged(LOG))
                return [mark_lost(0)] if is_lost else []
            rows, is_whole = read_rows(content)
            if not is_whole:
                log.error("%s is damaged; it is kept as %s", self._folder / LOG, name_damaged(LOG))
                write_whole(self._folder / name_damaged(LOG), content)
                self._write_rows(rows)
            return rows

    def mark(self, running: Running) -> None:
        """Log that a chat has switched to a conversation."""
        with self._lock:
            self._append([ChangeRow(0, 0, time.time(), running.conversation, running.turn, "here")])

    def plan(
        self,
        rows: Sequence[ChangeRow],
        since: int,
        kept: Collection[ChangeRow],
        paths: Iterable[str] | None = None,
    ) -> list[FileStep]:
        """Return the steps that restore files to their state before the changes of these rows after
        the row `since`."""
        changed = {row.path for row in rows if row.path and row.seq > since}
        wanted = changed if paths is None else changed & {*paths}
        with self._lock:
            now = {path: self._read_version(path) for path in wanted}
            return plan(rows, since, now, list_versions(self._folder), kept)

    def restore(self, steps: Sequence[FileStep], running: Running, most: int) -> dict[str, str]:
        """Restore files; return the failed ones with the reasons. Deletions come first, to make
        room."""
        failed: dict[str, str] = {}
        with self._lock:
            name = self.begin(running, most)
            try:
                for step in sorted(steps, key=lambda step: (bool(step.wanted), step.path)):
                    try:
                        self._put(step)
                    except (OSError, ToolError) as error:
                        failed[step.path] = str(getattr(error, "strerror", "") or error).rstrip(".")
            finally:
                self.finish(name, most)
        return failed

    def estimate_growth(self, steps: Sequence[FileStep]) -> int:
        """Return by how many bytes a restore increases the size of the files."""
        more = 0
        for step in steps:
            with suppress(OSError):
                more += (self._folder / step.wanted).stat().st_size if step.wanted else 0
            with suppress(OSError):
                more -= (self._workspace / step.path).lstat().st_size
        return more

    def forget(self, goes: Callable[[ChangeRow], bool], *, is_asked: bool = True) -> None:
        """Delete changes, and the versions that only they use. If a person requested it, delete the
        files set aside as well, which may contain them."""
        with self._lock:
            rows = self.rows()
            rest = without(rows, {row for row in rows if goes(row)})
            if is_asked or not any(row.kind == "lost" for row in rest):
                for aside in self._folder.glob(name_damaged("*")):
                    delete_any(aside)
            if not any(row.path for row in rest) and not self._live:
                with suppress(FileNotFoundError):
                    shutil.rmtree(self._folder)
                return
            if len(rest) == len(rows):
                return
            self._write_rows(rest)
            self._delete_unused(self._read_state(), rest)

    def measure(self) -> int:
        """Return the bytes that versions take."""
        with self._lock:
            return sum(list_versions(self._folder).values())

    def _put(self, step: FileStep) -> None:
        target = resolve(self._workspace, step.path, must_write=True)
        if step.wanted:
            content = (self._folder / step.wanted).read_bytes()
            if hashlib.sha256(content).hexdigest() != step.wanted:
                raise ToolError("its version is damaged")
            save_file(self._workspace, target, content)
            return
        folders.check_may_write()
        with suppress(FileNotFoundError), open_folder(self._workspace, target.parent) as folder:
            folder.unlink(target.name)
        with suppress(OSError):  # folders that are empty now
            for parent in target.relative_to(self._workspace).parents:
                if len(parent.parts) < 2:
                    break
                (self._workspace / parent).rmdir()

    # --- scanning ----------------------------------------------------------------------------

    def _load(self, most: int) -> ArchiveState:
        """Return the state, after logging the changes of tools that ended or crashed: those of
        specific files first."""
        state = self._read_state()
        over = [(name, one) for name, one in state.running.items() if name not in self._live]
        for name, one in sorted(over, key=lambda item: item[1].paths is None):
            del state.running[name]
            try:
                self._note(state, one.paths, one, most)
            except TooManyFiles:
                log.warning("a command left more than %d files; none is kept", MOST_FILES)
            self._save(state)
        return state

    def _find_wide(self, state: ArchiveState) -> Running | None:
        """Return a running command that may change any file."""
        return next((one for one in state.running.values() if one.paths is None), None)

    def _note(
        self,
        state: ArchiveState,
        paths: tuple[str, ...] | None,
        by: Running | None,
        most: int,
    ) -> None:
        """Scan files, and log their changes as those of `by`; with None (people and others), don't
        log them."""
        before, keeper = _versions(state, paths), self._keeper(state, most)
        try:
            for path in sorted({*before, *self._list()} if paths is None else paths):
                self._capture(state, path, keeper)
        finally:
            keeper.sync()
        after = _versions(state, paths)
        if by is None:
            return
        now = time.time()
        self._append(
            ChangeRow(0, 0, now, by.conversation, by.turn, by.kind, path, old, new)
            for path in sorted({*before, *after})
            if (old := before.get(path, "")) != (new := after.get(path, ""))
        )

    def _list(self) -> list[str]:
        found: list[str] = []
        with suppress(FileNotFoundError):
            for path in files_below(self._workspace, self._workspace / WRITABLE):
                name = path.relative_to(self._workspace).as_posix()
                is_draft = path.name.startswith(".") and path.name.endswith(".draft")
                if is_speakable(name) and not is_draft:  # others could not be restored
                    found.append(name)
                if len(found) > MOST_FILES:
                    raise TooManyFiles
        return found

    def _capture(self, state: ArchiveState, path: str, keeper: VersionKeeper) -> None:
        """Update a file in the state, and store its version."""
        try:
            with open_file(self._workspace, self._workspace / path) as file:
                status = os.fstat(file.fileno())
                known, is_small = state.files.get(path), status.st_size <= keeper.largest
                if known and known.is_same(status) and (not is_small or self._has(known.version)):
                    return
                now = time.time_ns()
                content = file.read(keeper.largest + 1) if is_small else b""
                version = name_version(file, status, content)
        except (OSError, ValueError):
            state.files.pop(path, None)
            return
        state.files[path] = SeenFile(
            version,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
            status.st_ctime_ns < now - _COARSE,
        )
        if is_small and len(content) <= keeper.largest:
            keeper.keep(version, content)

    def _read_version(self, path: str) -> str:
        """Return the current version of a file; "" if it does not exist."""
        try:
            with open_file(self._workspace, self._workspace / path) as file:
                return name_version(file, os.fstat(file.fileno()))
        except OSError:
            return ""

    def _has(self, version: str) -> bool:
        return (self._folder / version).exists()

    # --- storing -----------------------------------------------------------------------------

    def _keeper(self, state: ArchiveState, most: int) -> VersionKeeper:
        return VersionKeeper(
            self._folder, most, lambda: {file.version for file in state.files.values()}
        )

    def _delete_unused(self, state: ArchiveState, rows: Sequence[ChangeRow]) -> None:
        """Delete the unused versions."""
        used = {one for row in rows for one in row.versions}
        used |= {file.version for file in state.files.values()}
        for version in list_versions(self._folder).keys() - used:
            (self._folder / version).unlink()

    def _append(self, rows: Iterable[ChangeRow]) -> None:
        """Append rows to the log, with numbers."""
        if not (new := list(rows)):
            return
        known = self.rows()
        first = known[-1].seq + 1 if known else 1
        known += [
            msgspec.structs.replace(row, seq=first + place, batch=first)
            for place, row in enumerate(new)
        ]
        if len(known) > MOST_ROWS:
            least = min(known[-MOST_ROWS * 4 // 5].seq, first)
            known = without(known, {row for row in known if row.seq < least})
        self._write_rows(known)

    def _write_rows(self, rows: Sequence[ChangeRow]) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = b"".join(msgspec.json.encode(row) + b"\n" for row in rows)
        write_whole(self._folder / LOG, lines)

    def _read_state(self) -> ArchiveState:
        content = read_or_put_aside(self._folder / _STATE)
        try:
            return msgspec.json.decode(content or b"{}", type=ArchiveState)
        except DAMAGED:
            return ArchiveState()

    def _save(self, state: ArchiveState) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._folder / _STATE, msgspec.json.encode(state))


def _versions(state: ArchiveState, paths: tuple[str, ...] | None) -> dict[str, str]:
    wanted = state.files if paths is None else [path for path in paths if path in state.files]
    return {path: state.files[path].version for path in wanted}
