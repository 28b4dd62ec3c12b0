"""Rows inserted and updated by plain statements.

Writing an INSERT takes peewee's query builder longer than carrying it out takes SQLite, and a
message with its answer is ten such statements. So the common ones are put together here; whatever
is rarer, or has more to it, is a peewee query.
"""

from __future__ import annotations

from typing import Any

from peewee import Model, SqliteDatabase


def insert(database: SqliteDatabase, table: type[Model], **values: Any) -> int:
    """Insert a row; returns its id. Raises IntegrityError for one that is there already."""
    columns, places = ", ".join(map(_quoted, values)), ", ".join("?" * len(values))
    statement = f"INSERT INTO {_name(table)} ({columns}) VALUES ({places})"
    row: int = database.execute_sql(statement, tuple(values.values())).lastrowid
    return row


def update(database: SqliteDatabase, table: type[Model], row: int, **values: Any) -> None:
    """Change columns of the row with this id."""
    columns = ", ".join(f"{_quoted(name)} = ?" for name in values)
    statement = f"UPDATE {_name(table)} SET {columns} WHERE id = ?"
    database.execute_sql(statement, (*values.values(), row))


def _name(table: type[Model]) -> str:
    return _quoted(table._meta.table_name)


def _quoted(name: str) -> str:
    return f'"{name}"'
