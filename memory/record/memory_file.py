"""The file `memory/MEMORY.md` of an audience: read and replaced as a whole, never through a link.

A new text is first written to disk as a draft, before anything else is done; then the file is
replaced atomically. So readers see the old text or the new, and a full disk is noticed before
anything has changed.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from memory.record import daily, fence
from memory.record.folders import Folder, hold
from memory.record.store import StoreError

NAME = "MEMORY.md"
LARGEST = 256_000
"""The maximum of bytes of a file that is read."""
MOST_LINES = 2_000
_DRAFT = ".MEMORY.md.draft"


class MemoryFileError(StoreError):
    """The file can't be used. The text is a sentence with what to do."""


class FileVersion(Struct, frozen=True):
    """The version of a file; it changes with the file."""

    changed: int
    size: int
    inode: int


def path_of(data: Path, audience: str) -> Path:
    """Return the path of an audience's file."""
    return daily.folder(data, audience) / NAME


def version_of(path: Path | str) -> FileVersion | None:
    """Return the version of the file at this path; None if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return FileVersion(status.st_mtime_ns, status.st_size, status.st_ino)


def read(path: Path) -> str:
    """Return the text of the file; "" without a file. Raises MemoryFileError."""
    try:
        with (
            hold(path.parent, may_be_link=False) as folder,
            open(folder.open(path.name, os.O_RDONLY), "rb") as file,
        ):
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise MemoryFileError(f"{path} is not a regular file; move it elsewhere.")
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise MemoryFileError(_refusal(path, error, "read")) from error
    return check_size(_decode(path, content), str(path))


def _decode(path: Path, content: bytes) -> str:
    try:
        text = content[: LARGEST + 1].decode("utf-8")
    except UnicodeDecodeError:
        if len(content) <= LARGEST:
            raise MemoryFileError(
                f"{path} is not UTF-8 text; save it as UTF-8, or move it elsewhere."
            ) from None
        text = "x" * (LARGEST + 1)  # truncated within a character: too long in any case
    return text


def check_size(text: str, name: str = NAME) -> str:
    """Return a text that may be stored; raises MemoryFileError if it is too long."""
    if len(text.encode("utf-8", "replace")) > LARGEST or text.count("\n") > MOST_LINES:
        raise MemoryFileError(
            f"{name} is too long: at most {LARGEST // 1000} kB and {MOST_LINES:,} lines are read. "
            "Shorten it; what is long belongs in a file of its own."
        )
    return text


def write_draft(path: Path, text: str) -> None:
    """Write a new text of the file to disk as a draft. Raises MemoryFileError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with hold(path.parent, may_be_link=False) as folder:
            _refuse_what_is_no_file(path, folder)
            fence.check_may_write()
            _draft(folder, text)
    except OSError as error:
        drop_draft(path)
        raise MemoryFileError(_refusal(path, error, "written")) from error


def publish(path: Path) -> None:
    """Replace the file by the draft, atomically; an empty draft deletes it. Raises
    MemoryFileError."""
    try:
        with hold(path.parent, may_be_link=False) as folder:
            fence.check_may_write()
            if folder.status(_DRAFT).st_size:
                folder.replace(_DRAFT, path.name)
            else:
                folder.unlink(_DRAFT)
                with suppress(FileNotFoundError):
                    folder.unlink(path.name)
            folder.sync()
    except OSError as error:
        raise MemoryFileError(_refusal(path, error, "written")) from error


def drop_draft(path: Path) -> None:
    """Delete the draft of a file."""
    with suppress(OSError, StoreError), hold(path.parent, may_be_link=False) as folder:
        fence.check_may_write()  # it may belong to another process by now
        folder.unlink(_DRAFT)


def _draft(folder: Folder, text: str) -> None:
    with suppress(FileNotFoundError):
        folder.unlink(_DRAFT)  # left over from a crash
    with open(folder.open(_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(text.encode("utf-8", "replace"))
        file.flush()
        os.fsync(file.fileno())


def _refuse_what_is_no_file(path: Path, folder: Folder) -> None:
    with suppress(FileNotFoundError):
        mode = folder.status(path.name).st_mode
        if not stat.S_ISREG(mode):
            raise MemoryFileError(f"{path} is not a regular file; move it elsewhere.")


def _refusal(path: Path, error: OSError, verb: str) -> str:
    if path.is_symlink() or path.parent.is_symlink():
        return (
            f"{path} can't be {verb}: it is reached by a symbolic link, and links are not followed."
        )
    return f"{path} can't be {verb}: {error.strerror or error}."
