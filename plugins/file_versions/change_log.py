"""Reading the log of the changes, and other files beside the versions, as far as they can be read:
a damaged one is put aside under another name, and is no longer in the way.
"""

from __future__ import annotations

import errno
import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path

import msgspec

from memory.faults import say_fault
from memory.record.store import StoreError
from plugins.file_versions.keeper import is_version
from plugins.file_versions.points import ChangeRow

log = logging.getLogger(__name__)

LOG = "log.jsonl"
DAMAGED = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors that decoding a damaged file may raise."""
_FOR_NOW = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN)
"""Numbers of errors that say nothing of a file: it can be read another time."""


def aside_of(name: str) -> str:
    """Return the name that a damaged file gets."""
    return f"{name}.damaged"


def read_or_put_aside(file: Path) -> bytes | None:
    """Return the content of a file; None where there is none. One that can't be read is put aside.
    Raises StoreError where that fails, too."""
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
    """Return the changes of a log, and whether all of its lines are some. Where a number is missing
    beside a line that can't be read, a row says so."""
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
    """Return the row that stands for changes that can't be read, which came after another one."""
    return ChangeRow(after + 1, after + 1, time.time(), "", 0, "lost")


def _read_row(line: bytes) -> ChangeRow | None:
    with suppress(*DAMAGED):
        row = msgspec.json.decode(line, type=ChangeRow)
        if "\0" not in row.path and all(not one or is_version(one) for one in row.versions):
            return row
    return None


def delete_any(path: Path) -> None:
    """Delete a file, a link, or a folder with all that is in it, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
