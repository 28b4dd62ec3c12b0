"""Tables of plugins: each plugin has numbered migrations of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memory.record.database import Database

Step = str | Callable[[Database], None]
"""A migration: one SQL statement, or a function that carries out several."""


STEPS: dict[str, Sequence[Step]] = {}
"""The migrations of the plugins that were loaded in this process, by their names, for who copies a
record."""


class NewerTablesError(Exception):
    """A newer version of a plugin has changed its tables; the text says so."""


def migrate(database: Database, feature: str, steps: Sequence[Step]) -> None:
    """Carry out those migrations of a plugin that this database has not had. Raises
    NewerTablesError."""
    # The first statement takes the row's lock, so that of two processes that start one waits.
    database.execute_sql(
        "INSERT INTO feature_schema (feature, version) VALUES (?, 0)"
        " ON CONFLICT (feature) DO UPDATE SET version = feature_schema.version",
        (feature,),
    )
    row = database.execute_sql(
        "SELECT version FROM feature_schema WHERE feature = ?", (feature,)
    ).fetchone()
    version = int(row[0])
    if version > len(steps):
        raise NewerTablesError(
            f"its tables were changed by a newer version of it ({version}, known here {len(steps)})"
        )
    for step in steps[version:]:
        if isinstance(step, str):
            database.execute_sql(step)
        else:
            step(database)
    if version < len(steps):
        database.execute_sql(
            "UPDATE feature_schema SET version = ? WHERE feature = ?", (len(steps), feature)
        )
