"""The checks of an SQLite database: a quick one before it is opened, and a thorough one while the
bot runs.

The quick check reads a few headers. It tests whether the file has its full length, and whether
SQLite will apply all commits of the write-ahead log: SQLite silently skips everything after a
damaged frame (https://www.sqlite.org/fileformat2.html). The thorough check finds the rest, such as
a flipped bit in a page.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
import time
from contextlib import closing
from datetime import datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct

from memory.faults import DAMAGED, describe_fault

_HEADER, _WAL_HEADER, _FRAME_HEADER = 100, 32, 24
_MAGIC = b"SQLite format 3\0"
JSON_COLUMNS = {
    "conversation": ("framing",),
    "message": ("extra",),
    "view_event": ("change", "leaving"),
    "summary": ("turns",),
    "job": ("turns",),
    "memory_version": ("lines", "operations"),
    "inbox": ("attachments",),
    "outbox": ("reply",),
    "override": ("value",),
}
"""Columns that hold JSON text."""
UNUSABLE = (sqlite3.Error, UnicodeDecodeError)
"""The errors that use of a damaged database may raise. The second one is raised if SQLite's own
message quotes bytes of a damaged schema that are not text."""


class Log(Struct, frozen=True):
    """The content of a write-ahead log up to its last commit: the number of frames, the pages, and
    the size of the database in pages after it. `is_torn`: the header is damaged, so SQLite applies
    none."""

    frames: int = 0
    pages: frozenset[int] = frozenset()
    size: int = 0
    is_torn: bool = False


def check_length(path: Path) -> str:
    """Return the missing part of the database, as a sentence; "" if it is complete. Changes
    nothing. Raises OSError."""
    size = path.stat().st_size if path.exists() else 0
    if size == 0:
        return ""
    with path.open("rb") as file:
        header = file.read(_HEADER)
    log = read_log(path)
    schema, version = any(header[40:44]), any(header[60:64])
    is_foreign = schema and not version and not log.frames  # ours has both, or neither yet
    if len(header) < _HEADER or not header.startswith(_MAGIC) or is_foreign:
        return f"{path} is not a Parley database, or no longer one."
    page_size = _page_size(header)
    pages = log.size or struct.unpack(">I", header[28:32])[0]
    whole = size // page_size if page_size else 0
    # Limited to the pages present: a damaged header may claim four billion.
    missing = max(0, pages - whole) - sum(whole < page <= pages for page in log.pages)
    if not missing:
        return ""
    return f"{path} is cut short: {missing} of its {pages} pages are missing."


def is_unused(path: Path) -> bool:
    """Return whether a database is missing or empty, by its headers only, since opening it makes
    SQLite clean up. Raises OSError."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        header = file.read(_HEADER)
    schema, version = header[40:44], header[60:64]
    return not any(schema + version) and not read_log(path).frames and header.startswith(_MAGIC)


def _page_size(header: bytes) -> int:
    (size,) = struct.unpack(">H", header[16:18])
    return 65_536 if size == 1 else int(size)


def read_log(path: Path) -> Log:
    """Return the write-ahead log of a database, from its headers only. Raises OSError."""
    file = path.with_name(f"{path.name}-wal")
    if not file.exists() or file.stat().st_size <= _WAL_HEADER:
        return Log()
    with file.open("rb") as stream:
        header = stream.read(_WAL_HEADER)
        page_size, salts = struct.unpack(">I", header[8:12])[0], header[16:24]
        if not _is_whole(header) or not 512 <= page_size <= 65_536:
            return Log(is_torn=True)
        pages: list[int] = []
        frames = size = 0
        while len(frame := stream.read(_FRAME_HEADER)) == _FRAME_HEADER:
            page, committed = struct.unpack(">II", frame[:8])
            pages.append(page)
            if committed and frame[8:16] == salts:
                frames, size = len(pages), committed
            stream.seek(page_size, 1)
    return Log(frames, frozenset(pages[:frames]), size)


def _is_whole(header: bytes) -> bool:
    """Return whether the checksum of a log's header is right."""
    (magic,) = struct.unpack(">I", header[:4])
    if magic & ~1 != 0x377F0682:
        return False
    order = ">" if magic & 1 else "<"
    words = struct.unpack(f"{order}6I", header[:24])
    first = second = 0
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return (first, second) == struct.unpack(">II", header[24:32])


def check_log(path: Path) -> str:
    """Return a sentence if SQLite skips commits of the write-ahead log; "" if not, or if the
    database can't be opened. The log is copied first, since SQLite deletes it. Called by the one
    process that uses the database, before it writes. Raises OSError."""
    log = read_log(path)
    if not log.frames and not log.is_torn:
        return ""
    file = path.with_name(f"{path.name}-wal")
    copy = file.with_name(f"{file.name}.damaged-{datetime.now():%Y%m%d-%H%M%S-%f}")
    shutil.copy(file, copy)  # SQLite may delete it on close
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            is_busy, taken, _ = database.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
    except UNUSABLE:
        return ""
    if is_busy or (taken >= log.frames and not log.is_torn):
        copy.unlink()
        return ""
    return (
        f"The end of {path} is damaged, so the last things said before the bot stopped may be "
        f"missing. A copy is kept in {copy.name}."
    )


def check_integrity(path: Path, patience: float) -> str:
    """Return the damage in the database, as a sentence; "" if there is none, or if the check takes
    longer than `patience` seconds. Other connections are not blocked."""
    deadline = time.monotonic() + patience
    try:
        with closing(read_only(path)) as database:
            database.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)
            found = database.execute("PRAGMA quick_check(1)").fetchone()
    except UNUSABLE as error:
        if time.monotonic() > deadline:
            return ""
        if (fault := describe_fault(error)) != DAMAGED:
            raise
        return f"{path} can't be read: {fault}."
    return "" if found == ("ok",) else f"{path} is damaged: {found[0] if found else 'no answer'}."


def read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that changes nothing and leaves no files behind. Raises UNUSABLE."""
    is_used = path.with_name(f"{path.name}-wal").exists()
    how = "mode=ro" if is_used else "mode=ro&immutable=1"  # otherwise a new log file would be left
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True)


def unreadable_rows(path: Path) -> str:
    """Describe the rows that can't be read, and those that were put aside, in words; "" for none.
    Raises UNUSABLE."""
    with closing(read_only(path)) as database:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        there = {name for (name,) in database.execute(query)}
        counts = {}
        for table, columns in JSON_COLUMNS.items():
            known = {name for _, name, *_ in database.execute(f'PRAGMA table_info("{table}")')}
            if present := [name for name in columns if name in known]:  # an older release has fewer
                wrong = " OR ".join(f"NOT json_valid({column})" for column in present)
                rows = database.execute(f"SELECT COUNT(*) FROM {table} WHERE {wrong}")
                counts[f"{table} rows that can't be read"] = rows.fetchone()[0]
        if "aside" in there:
            for kind, count in database.execute("SELECT kind, COUNT(*) FROM aside GROUP BY kind"):
                counts[f"{kind} rows that were put aside"] = count
    return ", ".join(f"{count} {name}" for name, count in islice(counts.items(), 20) if count)
