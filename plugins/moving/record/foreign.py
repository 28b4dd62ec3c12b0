"""An SQLite file of another program, read as it stands: nothing in it runs, and nothing is written.

Whoever made it may have wished us ill, so only plain tables are looked at: no view, no trigger, no
virtual table, no column that computes; and a question that takes too long is given up.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memory.faults import DAMAGED, IN_USE, say_fault
from memory.record.store import StoreError

_LONGEST = 150_000_000  # bytes of a value
_STEPS = 200_000_000  # of SQLite's machine, from one row to the next
_AT_ONCE = 100_000
_PATIENCE = 1.0  # seconds; a program that holds it longer is to be stopped
_NO_ROWID = re.compile(r"\)[^)]*\bWITHOUT\s+ROWID\b[^)]*\Z", re.IGNORECASE)  # of none such is known
_HIDDEN = 6  # the column of `table_xinfo` that says whether one is hidden, or computes


_TOO_LARGE = (sqlite3.DataError, MemoryError)


class TooLargeRow(dict[str, Any]):
    """A row with a value that is too large to be read; all of its columns are None."""


class ForeignDatabase:
    """`columns` are those of its plain tables. Any thread may use it, one at a time. Raises
    StoreError with a sentence."""

    def __init__(self, path: Path) -> None:
        self.path, self._steps = path, 0
        try:
            self._database = sqlite3.connect(
                _address(path), timeout=_PATIENCE, uri=True, check_same_thread=False
            )
            self._database.set_progress_handler(self._count_steps, _AT_ONCE)
            self._database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
            self._database.text_factory = lambda data: data.decode("utf-8", "replace")
            for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
                self._database.execute(f"PRAGMA {pragma}")
            self.columns = dict(self._find_columns())
        except (sqlite3.Error, ValueError, OSError, MemoryError) as error:
            raise self._refusal(error) from None

    def _find_columns(self) -> Iterator[tuple[str, frozenset[str]]]:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'table'"
        for name, made in self._database.execute(query).fetchall():
            if not str(made).lstrip().upper().startswith("CREATE TABLE") or '"' in str(name):
                continue
            if _NO_ROWID.search(str(made)):
                continue
            info = self._database.execute(f'PRAGMA table_xinfo("{name}")').fetchall()
            if not any(one[_HIDDEN] or str(one[1]).lower() == "rowid" for one in info):
                yield str(name), frozenset(str(one[1]) for one in info)

    def has(self, table: str, *columns: str) -> bool:
        """Return whether there is a table with these columns."""
        return table in self.columns and {*columns} <= self.columns[table]

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        where: Mapping[str, Any] | None = None,
        order: Sequence[str] = (),
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table that have these values, in the order of these columns; columns
        that are not there are None in each. Each row is asked for by itself, so that one that is
        too large costs no other."""
        known = self.columns.get(table, frozenset())
        there = [name for name in columns if name in known]
        wanted = {name: value for name, value in (where or {}).items() if name in known}
        if not there:
            return
        conditions = "".join(f' AND "{name}" = ?' for name in wanted)
        values = tuple(wanted.values())
        names = _names([name for name in order if name in known] + ["rowid"])
        listing = f'SELECT rowid FROM "{table}" WHERE 1{conditions} ORDER BY {names}'
        one = f'SELECT {_names(there)} FROM "{table}" WHERE rowid = ?{conditions}'
        try:
            for number in self._list_rows(table, listing, values):
                self._steps = 0
                try:
                    found = self._database.execute(one, (number, *values)).fetchone()
                except _TOO_LARGE:
                    yield TooLargeRow.fromkeys(columns)
                else:
                    if found is not None:
                        yield {**dict.fromkeys(columns), **dict(zip(there, found, strict=True))}
        except (sqlite3.Error, MemoryError) as error:
            raise self._refusal(error) from None

    def _list_rows(self, table: str, listing: str, values: tuple[Any, ...]) -> list[int]:
        """Return the numbers of the rows; of all, where what they are chosen or put in order by is
        too large."""
        self._steps = 0
        try:
            return [number for (number,) in self._database.execute(listing, values)]
        except _TOO_LARGE:
            found = self._database.execute(f'SELECT rowid FROM "{table}" ORDER BY rowid')
            return [number for (number,) in found]

    def count(self, table: str) -> int:
        """Return how many rows a table has; 0 where it is not there."""
        if table not in self.columns:
            return 0
        self._steps = 0
        try:
            ((number,),) = self._database.execute(f'SELECT COUNT(*) FROM "{table}"').fetchall()
        except sqlite3.Error as error:
            raise self._refusal(error) from None
        return int(number)

    def _count_steps(self) -> int:
        self._steps += _AT_ONCE
        return int(self._steps > _STEPS)

    def _refusal(self, error: BaseException) -> StoreError:
        fault = say_fault(error)
        advice = " Stop the program that writes to it, and try again."
        hint = advice if fault in (DAMAGED, IN_USE) else ""
        return StoreError(f"{self.path} can't be read as an SQLite database: {fault}.{hint}")


def _address(path: Path) -> str:
    """By which SQLite opens a file without writing beside it, where nothing waits to be taken into
    it."""
    waits = [path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-journal")]
    is_settled = not any(one.exists() and one.stat().st_size for one in waits)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_settled else ''}"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
