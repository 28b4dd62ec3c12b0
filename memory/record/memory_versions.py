"""Rows of the versions of each `MEMORY.md`, and of the distilled parts of daily files.

The newest version that is `held` is in force; one that is `proposed` waits for a person's approval.
`is_written` marks the version whose text is in the file. If the file has another text, it was
edited by hand, or a crash prevented the write.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Literal

import orjson
from msgspec import Struct
from msgspec.structs import replace
from peewee import fn

from memory.long_term.document import DeletedTurns, LineOperation, Lines, MemoryLine, drop_forgotten
from memory.record import tables
from memory.record.database import Database
from memory.record.tables import readable

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
    gone = database.execute_sql(
        """DELETE FROM memory_version WHERE at < ? AND is_written = 0 AND (
            state IN ('undone', 'refused') OR (state = 'held' AND EXISTS (
                SELECT * FROM memory_version AS later WHERE later.audience = memory_version.audience
                    AND later.number > memory_version.number AND later.state = 'held'
                    AND later.at < ?)))""",
        (before, before),
    )
    return int(gone.rowcount)


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
