"""Copying the record from one database system to another: for `migrate`, and for backups.

Tables are copied one by one, in the order of their keys. Each is compared by the digest of all its
rows, afterwards, and also before, so that an interrupted transfer resumes where it stopped. The
search index is not copied: it is rebuilt from the messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from memory.record import feature_tables
from memory.record.database import Database, DatabaseEngine, Step, StoreError
from memory.record.engines.sqlite import SqliteEngine, connect, in_memory
from memory.record.migrations import MIGRATIONS, list_pending, migrate
from memory.tasks import SILENT, TaskProgress

_BATCH = 1_000  # rows
_INDEX = ("passage", "sitting", "sqlite_")
_OF_PLUGINS = "feature_schema"  # describes the tables of plugins


class TableShape(Struct, frozen=True):
    """A table: its name, columns and key columns in order. With `is_counted`, the key is an
    increasing id."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    is_counted: bool


class TableDigest(Struct, frozen=True):
    """The digest of all rows of a table."""

    rows: int
    sha256: str


@cache
def shapes(schema: int = len(MIGRATIONS)) -> tuple[TableShape, ...]:
    """Return all tables (as of that version of the schema) except the index, each after the tables
    that it refers to."""
    with closing(in_memory(schema=schema)) as database:
        return tuple(_read_shapes(database))


def _read_shapes(database: Database) -> Iterator[TableShape]:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'table' ORDER BY rowid"
    for name, made in database.execute_sql(query).fetchall():
        if not name.startswith(_INDEX) and name != _OF_PLUGINS:
            info = database.execute_sql(f'PRAGMA table_info("{name}")').fetchall()
            keys = sorted((place, column) for _, column, *_, place in info if place)
            columns = tuple(column for _, column, *_ in info)
            key = tuple(column for _, column in keys)
            is_counted = "id INTEGER PRIMARY KEY" in made
            yield TableShape(name, columns, key, is_counted)


def _list_features(source: Database) -> dict[str, Sequence[Step]]:
    """Return the migrations by which plugins known here made their tables in the source."""
    if _OF_PLUGINS not in source.get_tables():
        return {}
    query = f"SELECT feature, version FROM {_OF_PLUGINS} WHERE version > 0 ORDER BY feature"
    versions = dict(source.execute_sql(query).fetchall())
    known = feature_tables.STEPS
    return {
        name: known[name][:version]
        for name, version in versions.items()
        if version <= len(known.get(name, ()))
    }


def _shapes_of(features: Mapping[str, Sequence[Step]]) -> list[TableShape]:
    """Return the tables that these migrations of plugins create."""
    with closing(in_memory()) as database:
        known = {*database.get_tables()}
        for name, steps in features.items():
            feature_tables.migrate(database, name, steps)
        return [shape for shape in _read_shapes(database) if shape.name not in known]


def _list_others(source: Database, mine: Collection[TableShape]) -> list[str]:
    """Return the other tables of plugins (`feature_tables.py`)."""
    with closing(in_memory()) as database:
        known = {*database.get_tables(), *(shape.name for shape in mine)}
    return sorted(name for name in {*source.get_tables()} - known if not name.startswith(_INDEX))


def transfer(
    source: Database,
    target: Database,
    only: Collection[str] = (),
    progress: TaskProgress = SILENT,
) -> int:
    """Copy the tables of `source` (or `only` some) to `target`; return their number of rows. Both
    have the same schema, and no other code writes to `target`. Raises StoreError."""
    features = {} if only else _list_features(source)
    mine = _shapes_of(features)
    kernel = [one for one in shapes(source.schema_version()) if not only or one.name in only]
    rows = _RowCount(sum(_count(source, shape) for shape in (*kernel, *mine)), progress)
    for name in _list_others(source, mine):
        progress.write_line(
            f"{name}: not copied, since it belongs to a plugin, which makes it anew"
        )
    count = sum(_copy_rows(source, target, shape, rows) for shape in kernel)
    for name, steps in features.items():
        with target.atomic():
            feature_tables.migrate(target, name, steps)
    return count + sum(_copy_rows(source, target, shape, rows) for shape in mine)


class _RowCount:
    """The progress of the copied rows."""

    def __init__(self, total: int, progress: TaskProgress) -> None:
        self._done, self._total, self.progress = 0, total, progress

    def add(self, rows: int) -> None:
        self._done += rows
        self.progress.show_progress(self._done, self._total)


def _count(database: Database, shape: TableShape) -> int:
    return int(database.execute_sql(f'SELECT COUNT(*) FROM "{shape.name}"').fetchone()[0])


def _copy_rows(source: Database, target: Database, shape: TableShape, brought: _RowCount) -> int:
    wanted = digest(source, shape)
    if digest(target, shape) != wanted:
        before = _count(target, shape) if shape.is_counted else 0
        brought.add(min(before, wanted.rows))
        _copy(source, target, shape, is_afresh=not shape.is_counted, brought=brought)
    else:
        brought.add(wanted.rows)
    if digest(target, shape) != wanted:  # the existing rows are not a prefix of the source's
        _copy(source, target, shape, is_afresh=True)
    there = digest(target, shape)
    if there != wanted:
        raise StoreError(
            f"The table {shape.name} has {wanted.rows} rows, and its copy has {there.rows} that "
            "are not the same. The copy is not to be used; check with `python main.py doctor`."
        )
    if shape.is_counted:
        target.set_counter(shape.name, source.counter(shape.name))
    brought.progress.write_line(f"{shape.name}: {wanted.rows} rows, sha256 {wanted.sha256[:16]}")
    return wanted.rows


def digest(database: Database, shape: TableShape) -> TableDigest:
    """Count and hash the rows of a table, in the order of their keys. Raises StoreError for a
    damaged row."""
    sha256, rows = hashlib.sha256(), 0
    for batch in _read(database, shape):
        rows += len(batch)
        for row in batch:
            try:
                sha256.update(orjson.dumps(row).replace(rb"\u0000", "\ufffd".encode()))
            except TypeError:
                raise StoreError(
                    f"A row of the table {shape.name} is damaged, so that it can't be copied; see "
                    "`python main.py doctor`."
                ) from None
    return TableDigest(rows, sha256.hexdigest())


def _read(
    database: Database, shape: TableShape, after: tuple[Any, ...] = ()
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the rows after a key, batch by batch."""
    key, columns = _named(shape.key), _named(shape.columns)
    places = [shape.columns.index(column) for column in shape.key]
    while True:
        behind = f"WHERE ({key}) > ({_marks(after)})" if after else ""
        query = f'SELECT {columns} FROM "{shape.name}" {behind} ORDER BY {key} LIMIT {_BATCH}'
        batch = [tuple(row) for row in database.execute_sql(query, after).fetchall()]
        if not batch:
            return
        yield batch
        after = tuple(batch[-1][place] for place in places)


def _copy(
    source: Database,
    target: Database,
    shape: TableShape,
    is_afresh: bool,
    brought: _RowCount | None = None,
) -> None:
    after: tuple[Any, ...] = ()
    with target.atomic():
        if is_afresh:
            target.execute_sql(f'DELETE FROM "{shape.name}"')
        else:
            newest = target.execute_sql(f'SELECT MAX(id) FROM "{shape.name}"').fetchone()[0]
            after = () if newest is None else (newest,)
    columns, marks = _named(shape.columns), _marks(shape.columns)
    statement = f'INSERT INTO "{shape.name}" ({columns}) VALUES ({marks})'
    for batch in _read(source, shape, after):
        with target.atomic():
            target.insert_many(statement, batch)
        if brought:
            brought.add(len(batch))


def _named(columns: Collection[str]) -> str:
    return ", ".join(f'"{column}"' for column in columns)


def _marks(values: Collection[Any]) -> str:
    return ", ".join("?" * len(values))


# --- with an SQLite file on one side --------------------------------------------------------------


def copy_out(
    engine: DatabaseEngine,
    path: Path,
    only: Collection[str] = (),
    progress: TaskProgress = SILENT,
) -> int:
    """Copy the current record into a new SQLite file, also one that an older Parley has written;
    return its number of rows. Raises StoreError."""
    with engine.visit(is_frozen=True) as source, closing(connect(path)) as target:
        list_pending(source)
        migrate(target, source.schema_version())
        return transfer(source, target, only, progress)


def copy_in(path: Path, engine: DatabaseEngine, progress: TaskProgress = SILENT) -> int:
    """Copy the record in an SQLite file into an empty database, or resume an interrupted copy;
    return its number of rows. The file is upgraded first. Raises StoreError."""
    file = SqliteEngine(path)
    file.prepare()
    engine.prepare(is_transfer=True)
    with file.visit(is_frozen=True) as source, engine.visit() as target:
        if not target.is_being_filled() and not engine.is_pristine():
            raise StoreError(
                "The database that is to be filled holds a bot already; name an empty one in the "
                "setting database."
            )
        target.mark_filling(True)
        count = transfer(source, target, progress=progress)
        target.mark_filling(False)
        return count
