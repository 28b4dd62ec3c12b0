"""The database systems that can store the record, one module each."""

from __future__ import annotations

from pathlib import Path

from memory.record.database import DatabaseEngine, StoreError
from memory.record.engines.sqlite import SqliteEngine


def engine_for(place: Path | str) -> DatabaseEngine:
    """Return the engine for a place: a path is an SQLite file, any other text the URL of a
    PostgreSQL database. Raises StoreError if a package that it needs is not installed."""
    if isinstance(place, Path):
        return SqliteEngine(place)
    try:
        from memory.record.engines.postgresql import (  # noqa: PLC0415 - slow, and seldom needed
            PostgresqlEngine,
        )
    except ModuleNotFoundError as error:
        raise StoreError(
            "PostgreSQL needs a package that is not installed; install it with "
            "`python main.py add postgresql`."
        ) from error
    return PostgresqlEngine(place)
