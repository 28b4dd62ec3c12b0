"""The size of a record, without a word of it."""

from __future__ import annotations

import sqlite3

from peewee import Table

from memory.record import tables
from memory.record.database import Database

SQLITE = sqlite3.sqlite_version


def count_rows(database: Database) -> dict[str, int]:
    """Return the rows of each of our tables; of others that somebody may have made, nothing is
    told."""
    ours = {table.__name__ for table in vars(tables).values() if isinstance(table, Table)}
    there = ours.intersection(database.get_tables())
    return {
        name: int(database.execute_sql(f"SELECT COUNT(*) FROM {name}").fetchone()[0])
        for name in sorted(there)
    }
