"""The database systems that can keep the record, each in a module of its own."""

from __future__ import annotations

from pathlib import Path

from memory.record.database import DatabaseEngine
from memory.record.engines.sqlite import SqliteEngine


def engine_for(place: Path | str) -> DatabaseEngine:
    """The engine for a place: a path is an SQLite file."""
    return SqliteEngine(Path(place))
