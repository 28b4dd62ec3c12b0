"""The workspace: the only folder that tools may access.

There are two checks. `resolve` decides by the path's text and the disk, with a sentence for every
refusal. The functions that open something walk down from the root by open folders without following
symbolic links, so that a link created after `resolve` has no effect.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from agent.tools import ToolError
from memory.keys import find_fault_here
from memory.record import folders
from memory.record.folders import Folder, hold

WRITABLE = "files"
"""The folder of a workspace that tools may write in."""

_DEEPEST = 32  # nested folders; deeper ones would use up the descriptors of a walk
_LONGEST_NAME = 255  # bytes, on nearly every file system
_LONGEST_PATH = 2000  # bytes; Linux accepts 4096 including the root

_REASONS = {
    errno.ENOENT: "{path} does not exist.",
    errno.ENOTDIR: "{path} has a file where a folder is needed.",
    errno.EISDIR: "{path} is a folder, not a file.",
    errno.ELOOP: "{path} is a symbolic link, and links are not followed.",
    errno.EACCES: "{path} can't be opened: the system denies access.",
    errno.ENOSPC: "{path} can't be written: the disk is full.",
    errno.EDQUOT: "{path} can't be written: the disk quota is used up.",
}


def resolve(root: Path, path: str, *, must_write: bool) -> Path:
    """Return the place below `root` that the model means by `path`; it need not exist.

    Paths are relative to `root`. Reading also searches `files/` for a path that is not at the root;
    a bare name is written to `files/`. Raises ToolError, with the path as the model wrote it, for
    `..`, absolute paths, `~`, backslashes, control characters, all symbolic links, and with
    `must_write` for everything outside `files/`.
    """
    if complaint := _path_fault(path):
        raise ToolError(complaint)
    parts = PurePosixPath(path).parts
    place = _to_write(path, parts) if must_write else _to_read(root, parts)
    target = root.joinpath(*place)
    with plain_errors(path):
        if any(root.joinpath(*place[:depth]).is_symlink() for depth in range(1, len(place) + 1)):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def is_speakable(path: str) -> bool:
    """Return whether `resolve` accepts the text of a path."""
    return not _path_fault(path)


def _path_fault(path: str) -> str:
    """Return the fault in the text of a path, as a sentence, or ""."""
    parts, what = PurePosixPath(path).parts, quote(path)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in path):
        return f"{what} holds characters that no file name should have."
    if "\\" in path:
        return f"{what} has a backslash: write / between folders."
    if path.startswith(("/", "~")) or ".." in parts:
        return f"{what} leads out of the workspace; paths look like 'files/notes.txt'."
    return _excess(path, parts, what)


def _excess(path: str, parts: tuple[str, ...], what: str) -> str:
    if fault := find_fault_here(parts):
        return f"{what} can't be the name of a file on Windows: {fault}."
    if len(parts) > _DEEPEST:
        return f"{what} is too deep: at most {_DEEPEST} folders inside each other."
    if len(path.encode()) > _LONGEST_PATH:
        return f"{what} is too long: at most {_LONGEST_PATH:,} bytes."
    if any(len(part.encode()) > _LONGEST_NAME for part in parts):
        return f"{what} contains a name that is too long: at most {_LONGEST_NAME} bytes each."
    return ""


def _to_write(path: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    if len(parts) > 1 and parts[0] == WRITABLE:
        return parts
    if len(parts) == 1 and parts[0] != WRITABLE:
        return (WRITABLE, *parts)
    raise ToolError(f"{quote(path)} can't be written: only files in '{WRITABLE}/' can.")


def _to_read(root: Path, parts: tuple[str, ...]) -> tuple[str, ...]:
    moved = (WRITABLE, *parts)
    is_moved = not os.path.lexists(root.joinpath(*parts)) and os.path.lexists(root.joinpath(*moved))
    return moved if is_moved else parts


def quote(path: str) -> str:
    """Return a path as the model wrote it, in quotes, and shortened."""
    return repr(path if len(path) <= 200 else path[:199] + "…")


@contextmanager
def plain_errors(path: str) -> Iterator[None]:
    """Turn the system's errors for `path` into a ToolError with a sentence."""
    try:
        yield
    except OSError as error:
        what = quote(path)
        if reason := _REASONS.get(error.errno or 0):
            raise ToolError(reason.replace("{path}", what)) from error
        raise ToolError(f"{what} can't be used: {error.strerror or error}.") from error


@contextmanager
def open_folder(root: Path, target: Path, *, make: bool = False) -> Iterator[Folder]:
    """Yield the folder `target`, reached from `root` without following a link.

    `make` creates missing folders. Raises OSError.
    """
    if make:
        root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        folder = held.enter_context(hold(root))
        for name in target.relative_to(root).parts:
            if make:
                with suppress(FileExistsError):
                    folder.make(name)
            inner = folder.enter(name)
            held.close()  # only the innermost is kept open
            held.callback(inner.close)
            folder = inner
        yield folder


@contextmanager
def open_file(root: Path, target: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading, and yield it. Raises OSError, also for devices and pipes."""
    if target == root:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with (
        open_folder(root, target.parent) as folder,
        open(target.name, "rb", opener=_opener(folder)) as file,
    ):
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        yield file


def _opener(folder: Folder) -> Callable[[str, int], int]:
    return lambda name, flags: folder.open(name, flags, 0o666)


def save_file(root: Path, target: Path, content: bytes) -> bool:
    """Replace `target` by `content` in one step; return whether a file was replaced.

    Readers see the old content or the new, never a part. Raises OSError, and StoreError if another
    process has taken over.
    """
    draft = f".{secrets.token_hex(8)}.draft"
    with open_folder(root, target.parent, make=True) as folder:
        try:
            with open(draft, "xb", opener=_opener(folder)) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            is_replaced = _is_regular(target.name, folder)
            folders.check_may_write()
            folder.replace(draft, target.name)
        finally:
            with suppress(FileNotFoundError):
                folder.unlink(draft)
    return is_replaced


def list_folder(root: Path, target: Path) -> list[tuple[str, os.stat_result]]:
    """Return the entries of a folder by name; links have their own mode. Raises OSError."""
    with open_folder(root, target) as folder:
        return folder.entries()


def files_below(root: Path, target: Path) -> Iterator[Path]:
    """Yield the regular files below a folder at any depth, in a stable order. Raises OSError."""
    with open_folder(root, target) as top:
        yield from _files_in(top, target, len(target.relative_to(root).parts))


def _files_in(folder: Folder, place: Path, depth: int) -> Iterator[Path]:
    entries = folder.entries()
    yield from (place / name for name, status in entries if stat.S_ISREG(status.st_mode))
    if depth >= _DEEPEST:
        return
    for name, status in entries:
        if stat.S_ISDIR(status.st_mode):
            with suppress(OSError), closing(folder.enter(name)) as inner:
                yield from _files_in(inner, place / name, depth + 1)


def _is_regular(name: str, folder: Folder) -> bool:
    try:
        return stat.S_ISREG(folder.status(name).st_mode)
    except FileNotFoundError:  # it was deleted meanwhile
        return False
