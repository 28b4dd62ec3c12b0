"""The cost ledger: every call to a model is a row; and each model's calibration."""

from __future__ import annotations

import time
from dataclasses import dataclass

from peewee import SqliteDatabase, fn

from memory.record import tables


@dataclass(frozen=True, slots=True)
class Spent:
    """One call to a model. Tokens as the provider reported them, or as counted by the meter
    (`is_reported` False); `cost` in US dollars, None where the price is unknown."""

    purpose: str
    model: str
    prompt: int
    cached: int
    completion: int
    cost: float | None
    is_reported: bool = True


@dataclass(frozen=True, slots=True)
class Bill:
    """Calls added up. `unknown` counts those whose price is not known; `cost` leaves them out."""

    calls: int = 0
    prompt: int = 0
    cached: int = 0
    completion: int = 0
    cost: float = 0.0
    unknown: int = 0

    def plus(self, spent: Spent) -> Bill:
        return Bill(
            self.calls + 1,
            self.prompt + spent.prompt,
            self.cached + spent.cached,
            self.completion + spent.completion,
            self.cost + (spent.cost or 0.0),
            self.unknown + (spent.cost is None),
        )


def insert(database: SqliteDatabase, conversation: int, turn: int, spent: Spent) -> None:
    """Store one call."""
    tables.Usage.insert(
        conversation=conversation,
        turn=turn,
        at=time.time(),
        purpose=spent.purpose,
        model=spent.model,
        prompt=spent.prompt,
        cached=spent.cached,
        completion=spent.completion,
        cost=spent.cost,
        is_reported=spent.is_reported,
    ).execute(database)


def bill(database: SqliteDatabase, conversation: int | None = None, since: float = 0) -> Bill:
    """The calls of one conversation (None: of all) since a time, added up."""
    columns = tables.Usage
    query = columns.select(
        fn.COUNT(columns.id),
        fn.COALESCE(fn.SUM(columns.prompt), 0),
        fn.COALESCE(fn.SUM(columns.cached), 0),
        fn.COALESCE(fn.SUM(columns.completion), 0),
        fn.COALESCE(fn.SUM(columns.cost), 0.0),
        fn.COALESCE(fn.SUM(columns.cost.is_null()), 0),
    ).where(columns.at >= since)
    if conversation is not None:
        query = query.where(columns.conversation == conversation)
    (row,) = query.tuples().execute(database)
    return Bill(*row)


def bills_by_model(database: SqliteDatabase, since: float = 0) -> list[tuple[str, str, Bill]]:
    """(model, purpose, bill) for all conversations since a time."""
    columns = tables.Usage
    query = (
        columns.select(
            columns.model,
            columns.purpose,
            fn.COUNT(columns.id),
            fn.SUM(columns.prompt),
            fn.SUM(columns.cached),
            fn.SUM(columns.completion),
            fn.COALESCE(fn.SUM(columns.cost), 0.0),
            fn.SUM(columns.cost.is_null()),
        )
        .where(columns.at >= since)
        .group_by(columns.model, columns.purpose)
        .order_by(columns.model, columns.purpose)
    )
    return [(row[0], row[1], Bill(*row[2:])) for row in query.tuples().execute(database)]


def ratios(database: SqliteDatabase) -> dict[str, float]:
    """Reported to counted tokens, by model."""
    columns = tables.Calibration
    return dict(columns.select(columns.model, columns.ratio).tuples().execute(database))


def save_ratio(database: SqliteDatabase, model: str, ratio: float) -> None:
    """Keep a model's ratio over restarts."""
    tables.Calibration.insert(model=model, ratio=ratio).on_conflict_replace().execute(database)
