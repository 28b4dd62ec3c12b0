"""Tables of plugins: each plugin has numbered migrations of its own."""

from __future__ import annotations

from collections.abc import Sequence

from memory.record.database import Database, Migration, Step

STEPS: dict[str, Sequence[Step]] = {}
"""The migrations of the plugins that were loaded in this process, by plugin name. The copy of a
record uses them."""


class NewerTablesError(Exception):
    """The plugin's tables were changed by a newer version of it; the text says so."""


def migrate(database: Database, feature: str, steps: Sequence[Step]) -> None:
    """Apply the migrations of a plugin that this database lacks. Raises NewerTablesError."""
    # The first statement locks the row, so that two processes that start migrate one after the
    # other.
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
    Migration(feature, *steps[version:])(database)
    if version < len(steps):
        database.execute_sql(
            "UPDATE feature_schema SET version = ? WHERE feature = ?", (len(steps), feature)
        )
