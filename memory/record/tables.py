"""The tables, as peewee builds queries with them.

Their columns are defined once, in `migrations.py`: any attribute requested here is a column. The
tables are bound to no database: queries are executed on the one that a `Store` passes to the work
(`query.execute(database)`), so that several can be open. Rows have SQLite's values: booleans are 1
or 0.

Building a statement with peewee takes longer than SQLite needs to execute it, and a message with
its answer is ten INSERTs. So common statements are built here as plain SQL, frequent queries are
`Prepared`, and rarer ones are peewee queries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeVar

from peewee import Column, Table

from memory.record.database import Database


class _Table(Table):
    def __getattr__(self, name: str) -> Column:
        if name.startswith("_"):
            raise AttributeError(name)
        column = Column(self, name)
        setattr(self, name, column)  # made once
        return column


Conversation = _Table("conversation")
Message = _Table("message")
ViewEvent = _Table("view_event")
Branch = _Table("branch")
CurrentBranch = _Table("current_branch")
Steering = _Table("steering")
Summary = _Table("summary")
Job = _Table("job")
ScheduledJob = _Table("scheduled_job")
JobRun = _Table("job_run")
McpTool = _Table("mcp_tool")
McpChange = _Table("mcp_change")
MemoryVersion = _Table("memory_version")
Distilled = _Table("distilled")
SideQuestion = _Table("side_question")
CallStart = _Table("call_start")
Usage = _Table("usage")
Clock = _Table("clock")
Aside = _Table("aside")
SpendingNote = _Table("spending_note")
Calibration = _Table("calibration")
LearntModel = _Table("learnt_model")
Override = _Table("override")
User = _Table("user")
Pairing = _Table("pairing")
ApiKey = _Table("api_key")
Link = _Table("link")
LinkCode = _Table("link_code")
LinkRequest = _Table("link_request")
Invite = _Table("invite")
Account = _Table("account")
Login = _Table("login")
Inbox = _Table("inbox")
Outbox = _Table("outbox")
Form = _Table("form")
ChannelState = _Table("channel_state")
Proposal = _Table("proposal")
Request = _Table("request")
RequestPrefix = _Table("request_prefix")
Process = _Table("process")
Owner = _Table("owner")


T = TypeVar("T")
R = TypeVar("R")

log = logging.getLogger(__name__)

UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
"""The errors that decoding a damaged row may raise."""


class Prepared:
    """A query that peewee builds once per database system, and that is executed with other values
    each time. `build` makes it from placeholders."""

    def __init__(self, build: Callable[..., Any]) -> None:
        self._build = build
        self._built: dict[type[Database], tuple[str, tuple[Any, ...]]] = {}

    def tuples(self, database: Database, *values: Any) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        found: list[tuple[Any, ...]] = self._execute(database, values).fetchall()
        return found

    def dicts(self, database: Database, *values: Any) -> list[dict[str, Any]]:
        """Return the rows as dicts by column name."""
        cursor = self._execute(database, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _execute(self, database: Database, values: tuple[Any, ...]) -> Any:
        if type(database) not in self._built:
            query = self._build(*map(_Value, range(len(values))))
            sql, parts = database.get_sql_context().sql(query).query()
            self._built[type(database)] = sql, tuple(parts)
        sql, parts = self._built[type(database)]
        return database.execute_sql(
            sql, [values[part.number] if type(part) is _Value else part for part in parts]
        )


class _Value:
    """A placeholder for a value."""

    def __init__(self, number: int) -> None:
        self.number = number


def insert(database: Database, table: Table, **values: Any) -> int:
    """Insert a row into a table whose key is its id; return the id. Raises IntegrityError if the
    row exists already."""
    statement = _insertion(table, tuple(values))
    return database.insert_row(statement, tuple(values.values()))


def insert_new(database: Database, table: Table, **values: Any) -> int:
    """Insert a row unless it conflicts with an existing one; return its id, or 0."""
    statement = _insertion(table, tuple(values)) + " ON CONFLICT DO NOTHING"
    return database.insert_row(statement, tuple(values.values()))


def put(database: Database, table: Table, key: tuple[str, ...], /, **values: Any) -> None:
    """Insert a row, or update the columns of the one with the same `key`."""
    statement = _replacement(table, key, tuple(values))
    database.execute_sql(statement, tuple(values.values()))


def update(database: Database, table: Table, row: int, **values: Any) -> None:
    """Update columns of the row with this id."""
    statement = _change(table, tuple(values))
    database.execute_sql(statement, (*values.values(), row))


def readable(found: Iterable[R], read: Callable[[R], T]) -> Iterator[T]:
    """Yield the result of `read` for each row, skipping rows that it can't read: a damaged row must
    not affect the others. Each is logged, and `python main.py doctor` counts them."""
    for row in found:
        try:
            yield read(row)
        except UNREADABLE as error:
            log.warning("a row of the database can't be read and is left out: %r", error)


@cache
def _insertion(table: Table, names: tuple[str, ...]) -> str:
    columns, places = ", ".join(f'"{name}"' for name in names), ", ".join("?" * len(names))
    return f'INSERT INTO "{table.__name__}" ({columns}) VALUES ({places})'


@cache
def _replacement(table: Table, key: tuple[str, ...], names: tuple[str, ...]) -> str:
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name not in key)
    same = ", ".join(f'"{name}"' for name in key)
    return f"{_insertion(table, names)} ON CONFLICT ({same}) DO UPDATE SET {changes}"


@cache
def _change(table: Table, names: tuple[str, ...]) -> str:
    columns = ", ".join(f'"{name}" = ?' for name in names)
    return f'UPDATE "{table.__name__}" SET {columns} WHERE id = ?'
