"""Settings changed while the bot runs (`/config`), stored in the database."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import orjson

from memory.record import tables
from memory.record.database import Database

EVERYWHERE = ""
"""The scope of an override for all conversations; other scopes are conversation ids."""


def load(database: Database) -> dict[str, dict[str, Any]]:
    """Return all overrides: scope -> key -> value."""
    columns = tables.Override
    found: dict[str, dict[str, Any]] = {}
    query = columns.select(columns.scope, columns.key, columns.value)
    for scope, key, value in query.tuples().execute(database):
        for data in tables.readable([value], orjson.loads):
            found.setdefault(scope, {})[key] = data
    return found


def save(
    database: Database, scope: str, key: str, value: Any, instead_of: Sequence[str] = ()
) -> None:
    """Set one override, and remove those of the same key in other scopes."""
    remove(database, instead_of, key)
    data = {"value": orjson.dumps(value).decode(), "at": time.time()}
    tables.put(database, tables.Override, ("scope", "key"), scope=scope, key=key, **data)


def remove(database: Database, scopes: Sequence[str], key: str) -> None:
    """Remove overrides of a key; missing ones are ignored."""
    columns = tables.Override
    columns.delete().where(columns.scope.in_(scopes) & (columns.key == key)).execute(database)
