"""Rows of vectors, one for each indexed message. A row is deleted with its row of the index, and so
with the message, in the same transaction."""

from __future__ import annotations

from collections.abc import Iterable

from memory.record.closeness import to_search_text, without_searches
from memory.record.database import Database
from memory.record.search import index
from memory.record.search.index import Range, Ranges
from memory.turns import Entry

# A change of the model needs a migration that empties the table.
TABLES = (
    """CREATE TABLE recall_vector (
        place INTEGER PRIMARY KEY REFERENCES passage(place) ON DELETE CASCADE,
        vectors BLOB NOT NULL)""",
)
MOST = 10_000
"""The maximum of messages whose vectors are read for a search, the newest: 5 MB."""


def read_missing(database: Database, most: int) -> list[tuple[int, str]]:
    """Return places of messages without vectors, newest first, with their texts."""
    counts = "SELECT (SELECT COUNT(*) FROM passage) - (SELECT COUNT(*) FROM recall_vector)"
    if not database.execute_sql(counts).fetchone()[0]:
        return []
    query = """SELECT place FROM passage WHERE NOT EXISTS (
            SELECT 1 FROM recall_vector WHERE recall_vector.place = passage.place)
        ORDER BY place DESC LIMIT ?"""
    places = [place for (place,) in database.execute_sql(query, (most,)).fetchall()]
    if not places:
        return []
    there = index.entries(database, places, Ranges([Range(places[-1], places[0])]))
    return [(place, _text(there, place)) for place in places]


def _text(there: dict[int, tuple[int, Entry]], place: int) -> str:
    if place not in there:
        return ""
    return to_search_text(without_searches(there[place][1].message))


def insert(database: Database, rows: Iterable[tuple[int, bytes]]) -> None:
    """Store vectors of places, except those of messages that were deleted meanwhile."""
    for place, vectors in rows:
        database.execute_sql(
            "INSERT INTO recall_vector (place, vectors) SELECT place, ? FROM passage "
            "WHERE place = ? ON CONFLICT (place) DO NOTHING",
            (vectors, place),
        )


def read(database: Database, ranges: Ranges) -> dict[int, bytes]:
    """Return the vectors of the newest messages of these ranges, by place."""
    found: list[tuple[int, bytes]] = []
    for span in [*ranges][::-1]:
        query = """SELECT place, vectors FROM recall_vector
            WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT ?"""
        values = span.first, span.last, MOST - len(found)
        found += database.execute_sql(query, values).fetchall()
    vectors = {place: bytes(row) for place, row in found if row}
    return {place: vectors[place] for place in ranges.only(vectors)} if ranges.has_gaps else vectors


def delete_all(database: Database) -> None:
    database.execute_sql("DELETE FROM recall_vector")


def has_any(database: Database) -> bool:
    return bool(database.execute_sql("SELECT 1 FROM recall_vector LIMIT 1").fetchone())
