"""The file `memory/MEMORY.md` of an audience, read and replaced as a whole, never through a link;
and the rows of its versions. The newest version that is `held` is in force, one that is `proposed`
waits for approval, and `is_written` marks the one whose text is in the file."""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import replace
from peewee import fn

from memory.long_term.document import DeletedTurns, LineOperation, Lines, MemoryLine, drop_forgotten
from memory.record import daily, folders, tables
from memory.record.database import Database
from memory.record.folders import Folder, hold
from memory.record.store import StoreError
from memory.record.tables import readable

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
            folders.check_may_write()
            _draft(folder, text)
    except OSError as error:
        drop_draft(path)
        raise MemoryFileError(_refusal(path, error, "written")) from error


def publish(path: Path) -> None:
    """Replace the file by the draft, atomically; an empty draft deletes it. Raises
    MemoryFileError."""
    try:
        with hold(path.parent, may_be_link=False) as folder:
            folders.check_may_write()
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
        folders.check_may_write()  # it may belong to another process by now
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


State = Literal["held", "proposed", "undone", "refused"]


class Version(Struct, frozen=True):
    """A version. `number` counts up within its audience, `at` is in seconds since 1970, `actor` is
    its author (a person's id, "file", or "model NAME"), `why` describes its origin in words. A
    proposal has `operations` in place of lines. `base` is the number of the version that was in
    force before it (0: none)."""

    number: int
    state: State
    actor: str
    why: str
    lines: Lines = ()
    operations: tuple[LineOperation, ...] = ()
    at: float = 0.0
    is_written: bool = False
    base: int = 0
    id: int = 0

    @property
    def digest(self) -> str:
        """A digest that identifies a proposal; it changes with its content."""
        return hashlib.sha256(_content(self)["operations"].encode()).hexdigest()[:8]


def versions(
    database: Database, audience: str, states: Collection[State] = (), most: int | None = None
) -> list[Version]:
    """Return the versions of an audience in these states (none given: in any), newest first, at
    most `most` (None: all)."""
    columns = tables.MemoryVersion
    query = columns.select().where(columns.audience == audience).order_by(columns.number.desc())
    if states:
        query = query.where(columns.state.in_(list(states)))
    return list(readable(query.limit(most).dicts().execute(database), _version))


def find_version(database: Database, audience: str, number: int) -> Version | None:
    """Return the version of this number."""
    columns = tables.MemoryVersion
    mine = (columns.audience == audience) & (columns.number == number)
    return next(readable(columns.select().where(mine).dicts().execute(database), _version), None)


def find_written(database: Database, audience: str) -> Version | None:
    """Return the version whose text is in the file, as far as is known."""
    columns = tables.MemoryVersion
    mine = (columns.audience == audience) & (columns.is_written == 1)
    return next(readable(columns.select().where(mine).dicts().execute(database), _version), None)


def list_unwritten(database: Database) -> list[str]:
    """Return the audiences whose file lacks the version in force, because of a crash."""
    rows = database.execute_sql(
        """SELECT audience FROM memory_version GROUP BY audience
            HAVING COALESCE(MAX(CASE WHEN state = 'held' THEN number END), 0)
                != COALESCE(MAX(CASE WHEN is_written = 1 THEN number END), 0)"""
    )
    return [audience for (audience,) in rows]


def list_proposed(database: Database) -> list[str]:
    """Return the audiences with a proposed change."""
    columns = tables.MemoryVersion
    query = columns.select(columns.audience).where(columns.state == "proposed").distinct()
    return [str(audience) for (audience,) in query.tuples().execute(database)]


def add(database: Database, audience: str, version: Version) -> Version:
    """Store a version, with the next number."""
    columns = tables.MemoryVersion
    newest = columns.select(fn.COALESCE(fn.MAX(columns.number), 0))
    ((number,),) = newest.where(columns.audience == audience).tuples().execute(database)
    at = version.at or time.time()
    row = tables.insert(
        database,
        tables.MemoryVersion,
        audience=audience,
        number=number + 1,
        state=version.state,
        actor=version.actor,
        why=version.why,
        at=at,
        is_written=int(version.is_written),
        base=version.base,
        **_content(version),
    )
    return replace(version, number=number + 1, at=at, id=row)


def rewrite(database: Database, version: Version) -> None:
    """Replace the stored content and state of a version."""
    state = {"state": version.state, "why": version.why, "actor": version.actor}
    tables.update(database, tables.MemoryVersion, version.id, **state, **_content(version))


def delete(database: Database, version: int) -> None:
    """Delete the row of a version."""
    columns = tables.MemoryVersion
    columns.delete().where(columns.id == version).execute(database)


def mark_written(database: Database, audience: str, version: int) -> None:
    """Mark this version (0: none) as the one whose text is in the file."""
    columns = tables.MemoryVersion
    columns.update(is_written=0).where(columns.audience == audience).execute(database)
    columns.update(is_written=1).where(columns.id == version).execute(database)


def prune(database: Database, before: float) -> int:
    """Delete the versions that were replaced, undone or refused before a time (seconds since 1970),
    except the one in the file; return how many."""
    deleted = database.execute_sql(
        """DELETE FROM memory_version WHERE at < ? AND is_written = 0 AND (
            state IN ('undone', 'refused') OR (state = 'held' AND EXISTS (
                SELECT * FROM memory_version AS later WHERE later.audience = memory_version.audience
                    AND later.number > memory_version.number AND later.state = 'held'
                    AND later.at < ?)))""",
        (before, before),
    )
    return int(deleted.rowcount)


def forget(database: Database, audience: str, forgotten: DeletedTurns) -> None:
    """Remove forgotten data from all versions. The sections from which lines were made are
    distilled again as well."""
    for version in versions(database, audience):
        kept = drop_forgotten(version.lines, forgotten)
        operations = tuple(one for one in version.operations if not one.is_of(forgotten))
        if version.state == "proposed" and version.operations and not operations:
            delete(database, version.id)
        elif (kept, operations) != (version.lines, version.operations):
            changed = replace(version, lines=kept, operations=operations)
            rewrite(database, changed)


def forget_all(database: Database, audience: str) -> None:
    """Delete all versions of an audience and the marks of its distilled sections."""
    for table in (tables.MemoryVersion, tables.Distilled):
        table.delete().where(table.audience == audience).execute(database)


# --- distilled sections -------------------------------------------------------------------


def list_distilled(database: Database, audience: str) -> frozenset[str]:
    """Return the digests of the sections that were distilled."""
    columns = tables.Distilled
    query = columns.select(columns.section).where(columns.audience == audience)
    return frozenset(section for (section,) in query.tuples().execute(database))


def mark_distilled(database: Database, audience: str, sections: Iterable[str]) -> None:
    """Mark these sections as distilled."""
    for section in sections:
        columns = tables.Distilled
        row = columns.insert(audience=audience, section=section)
        row.on_conflict_ignore().execute(database)


def unmark_distilled(database: Database, audience: str, sections: Collection[str]) -> None:
    """Remove the mark from sections that are to be distilled again or were deleted."""
    for section in sections:
        columns = tables.Distilled
        mine = (columns.audience == audience) & (columns.section == section)
        columns.delete().where(mine).execute(database)


def _content(version: Version) -> dict[str, str]:
    return {
        "lines": orjson.dumps([line.to_json() for line in version.lines]).decode(),
        "operations": orjson.dumps([one.to_json() for one in version.operations]).decode(),
    }


def _version(row: dict[str, Any]) -> Version:
    def each(name: str, read: Callable[[Any], Any]) -> tuple[Any, ...]:
        return tuple(map(read, orjson.loads(row[name])))

    return Version(
        row["number"],
        row["state"],
        row["actor"],
        row["why"],
        each("lines", MemoryLine.from_json),
        each("operations", LineOperation.from_json),
        row["at"],
        bool(row["is_written"]),
        row["base"],
        row["id"],
    )
