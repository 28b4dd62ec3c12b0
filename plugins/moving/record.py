"""SQL of moving: conversations as an export keeps them, and SQLite files of other programs.

An exported conversation has what it shares with none, and where it begins. Sequence numbers and
turns stay as they are, so that what refers to them goes on meaning the same.

A file of another program is read as it stands: nothing in it runs, and nothing is written. Whoever
made it may have wished us ill, so only plain tables are looked at: no view, no trigger, no virtual
table, no column that computes; and a question that takes too long is given up.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from memory.context.layout import replay
from memory.faults import DAMAGED, IN_USE, describe_fault
from memory.keys import ConversationKey
from memory.record import conversations, tables, transcript
from memory.record.conversations import Standing
from memory.record.database import Database
from memory.record.store import StoreError
from memory.turns import Entry

Exchange = tuple[str, str]
"""A question, and the last text of its turn."""


class ArchivedConversation(Struct, frozen=True):
    """A conversation: its place and its title. A branch has the id of its parent, and continues
    after this turn and seq of it. `row` is 0 for one that is not in the record."""

    id: str
    audience: str
    title: str = ""
    standing: Standing = ""
    parent: str = ""
    after_turn: int = 0
    after_seq: int = 0
    row: int = 0

    @property
    def key(self) -> ConversationKey:
        return ConversationKey(self.id, self.audience)


def list_all(database: Database) -> list[ArchivedConversation]:
    """Return all conversations with messages, and all branches, each after its parent."""
    rows = database.execute_sql(
        """SELECT c.id, c.key, c.audience, c.title, c.standing,
                p.key, b.turn, b.seq
            FROM conversation AS c LEFT JOIN branch AS b ON b.conversation = c.id
                LEFT JOIN conversation AS p ON p.id = b.parent
            WHERE b.conversation IS NOT NULL
                OR EXISTS (SELECT 1 FROM message AS m WHERE m.conversation = c.id)
            ORDER BY c.id"""
    ).fetchall()
    found = [
        ArchivedConversation(
            str(key),
            str(audience),
            str(title),
            standing if standing in ("pinned", "archived") else "",
            str(parent or ""),
            int(turn or 0),
            int(seq or 0),
            int(row),
        )
        for row, key, audience, title, standing, parent, turn, seq in rows
    ]
    return in_order_of_descent(found)


def in_order_of_descent(found: Sequence[ArchivedConversation]) -> list[ArchivedConversation]:
    """Return the conversations, each after its parent if that is among them."""
    waiting, ordered, names = list(found), list[ArchivedConversation](), set[str]()
    there = {one.id for one in found}
    while waiting:
        ready = [one for one in waiting if one.parent not in there or one.parent in names]
        if not ready:
            break  # in a damaged record they may form a cycle
        ordered += ready
        names |= {one.id for one in ready}
        waiting = [one for one in waiting if one.id not in names]
    return ordered + waiting


def read_entries(
    database: Database, conversation: int, after: int, most: int
) -> tuple[list[Entry], int, int]:
    """Return the next entries that a conversation shares with no other one, without those that a
    person removed; the last seq that was read (0: there are no more), and the number of removed
    ones."""
    entries = list(transcript.own_entries(database, conversation, after + 1, most))
    if not entries:
        return [], 0, 0
    away = replay(transcript.events_of(database, conversation), "").layout.removed_turns
    kept = [entry for entry in entries if not away.has(entry.turn)]
    return kept, entries[-1].seq, len(entries) - len(kept)


def find_new(
    database: Database, one: ArchivedConversation, entries: Sequence[Entry]
) -> list[Entry] | None:
    """Return those of these entries that a conversation lacks; the conversation need not exist.
    None if it has continued differently."""
    columns = tables.Conversation
    row = columns.select(columns.id).where(columns.key == one.id).scalar(database)
    known = {e.seq: _said(e) for e in transcript.own_entries(database, row)} if row else {}
    given = {entry.seq: _said(entry) for entry in entries}
    if any(given.get(seq, text) != text for seq, text in known.items()):
        return None
    new = [entry for entry in entries if entry.seq not in known]
    is_between = known and new and new[0].seq < max(known)
    return None if is_between else new


def import_entry(
    database: Database, one: ArchivedConversation, entries: Sequence[Entry]
) -> list[Entry] | None:
    """Add these entries as far as a conversation lacks them, and create it if necessary; return the
    added ones. None if it has continued differently, or its parent does not exist."""
    new = find_new(database, one, entries)
    if new is None:
        return None
    columns = tables.Conversation
    is_there = columns.select(columns.id).where(columns.key == one.id).exists(database)
    if is_there and not new:
        return new
    if one.parent and not is_there and not _has_shared(database, one):
        return None
    row = conversations.find_or_create(database, one.key)
    if new and (new[0].seq <= row.last_seq or new[0].turn < row.last_turn):
        return None  # later turns were deleted
    if not is_there:
        _make(database, one, row.id)
    if new:
        transcript.insert(database, row.id, new)
    return new


def _make(database: Database, one: ArchivedConversation, row: int) -> None:
    conversations.rename(database, one.id, one.title)
    conversations.place(database, one.id, one.standing)
    if one.parent:
        _branch_off(database, one, row)


def _said(entry: Entry) -> tuple[Any, ...]:
    return entry.turn, entry.message.role, entry.message.text


def _has_shared(database: Database, one: ArchivedConversation) -> bool:
    """Return whether the parent of a branch exists, with all that it shares."""
    columns = tables.Conversation
    query = columns.select(columns.last_seq, columns.last_turn).where(columns.key == one.parent)
    found = list(query.tuples().execute(database))
    return bool(found) and found[0][0] >= one.after_seq and found[0][1] >= one.after_turn


def _branch_off(database: Database, one: ArchivedConversation, row: int) -> None:
    """Make a new conversation share the beginning of its parent."""
    columns = tables.Conversation
    parent = columns.select(columns.id).where(columns.key == one.parent).scalar(database)
    tables.Branch.insert(
        conversation=row,
        parent=parent,
        seq=one.after_seq,
        turn=one.after_turn,
        event=0,
        at=time.time(),
    ).execute(database)
    tables.update(database, columns, row, last_seq=one.after_seq, last_turn=one.after_turn)


def exchanges_of(database: Database, key: str) -> list[Exchange]:
    """Return the stored turns of the conversation with this id, in order, without those shared with
    another one; the conversation need not exist."""
    columns, message = tables.Conversation, tables.Message
    query = (
        message.select(message.turn, message.role, message.text)
        .from_(message.join(columns, on=(message.conversation == columns.id)))
        .where((columns.key == key) & message.role.in_(("user", "assistant")))
        .order_by(message.seq)
    )
    turns: dict[int, list[str]] = {}
    for turn, role, text in query.tuples().execute(database):
        exchange = turns.setdefault(turn, ["", ""])
        if role == "assistant":
            exchange[1] = text
        elif not exchange[0]:
            exchange[0] = text
    return [(question, reply) for question, reply in turns.values()]


_LONGEST = 150_000_000  # maximum bytes of a value
_STEPS = 200_000_000  # maximum steps of SQLite's virtual machine, from one row to the next
_AT_ONCE = 100_000
_PATIENCE = 1.0  # seconds; a program that locks it longer must be stopped
_NO_ROWID = re.compile(r"\)[^)]*\bWITHOUT\s+ROWID\b[^)]*\Z", re.IGNORECASE)  # in no known program
_HIDDEN = 6  # the column of `table_xinfo` for hidden and computed columns


_TOO_LARGE = (sqlite3.DataError, MemoryError)


class TooLargeRow(dict[str, Any]):
    """A row with a value that is too large to be read; all of its columns are None."""


class ForeignDatabase:
    """A database of another program. `columns` has the columns of its plain tables. Any thread may
    use it, one at a time. Raises StoreError with a sentence."""

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
        """Yield the rows of a table with these values, ordered by these columns; missing columns
        are None. Each row is queried separately, so that one that is too large affects no other."""
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
        """Return the ids of the matching rows; of all rows, if a value to filter or order by is too
        large."""
        self._steps = 0
        try:
            return [number for (number,) in self._database.execute(listing, values)]
        except _TOO_LARGE:
            found = self._database.execute(f'SELECT rowid FROM "{table}" ORDER BY rowid')
            return [number for (number,) in found]

    def count(self, table: str) -> int:
        """Return the number of rows of a table; 0 if it does not exist."""
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
        fault = describe_fault(error)
        advice = " Stop the program that writes to it, and try again."
        hint = advice if fault in (DAMAGED, IN_USE) else ""
        return StoreError(f"{self.path} can't be read as an SQLite database: {fault}.{hint}")


def _address(path: Path) -> str:
    """Return the URI that opens a file read-only, and as immutable if no WAL or journal is
    pending."""
    waits = [path.with_name(f"{path.name}{ending}") for ending in ("-wal", "-journal")]
    is_settled = not any(one.exists() and one.stat().st_size for one in waits)
    return f"{path.absolute().as_uri()}?mode=ro{'&immutable=1' if is_settled else ''}"


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
