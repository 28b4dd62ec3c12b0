"""The facts learnt about models from refusals (`agent/models/learnt.py`), as JSON, by address and
model name; and each model's calibration."""

from __future__ import annotations

from memory.record import tables
from memory.record.database import Database, DatabaseEngine


def put(database: Database, place: str, model: str, facts: str) -> None:
    """Store all facts about a model; "" deletes them."""
    columns = tables.LearntModel
    if facts:
        tables.put(database, columns, ("place", "model"), place=place, model=model, facts=facts)
        return
    where = (columns.place == place) & (columns.model == model)
    columns.delete().where(where).execute(database)


def read(database: Database) -> list[tuple[str, str, str]]:
    """Return the facts about all models, as (address, name, facts)."""
    columns = tables.LearntModel
    query = columns.select(columns.place, columns.model, columns.facts)
    return list(query.order_by(columns.place, columns.model).tuples().execute(database))


def read_separately(engine: DatabaseEngine) -> list[tuple[str, str, str]]:
    """Return the same from the record of a bot that may be running. Raises StoreError."""
    with engine.visit() as database:
        return read(database) if "learnt_model" in database.get_tables() else []


def ratios(database: Database) -> dict[str, float]:
    """Return the ratio of reported to counted tokens, by model."""
    columns = tables.Calibration
    return dict(columns.select(columns.model, columns.ratio).tuples().execute(database))


def save_ratio(database: Database, model: str, ratio: float) -> None:
    """Store a model's ratio across restarts."""
    tables.put(database, tables.Calibration, ("model",), model=model, ratio=ratio)
