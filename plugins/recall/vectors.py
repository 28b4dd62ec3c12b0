"""The comparison of a question with messages by what they mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memory.record.database import Database
from memory.record.search.index import Ranges
from memory.record.search.likeness import Likeness
from memory.record.search.ranking import NO_LIKENESS
from memory.record.search.words import words
from plugins.recall import record
from plugins.recall.encoder import DIMENSIONS, Encoder, find_loaded

_AT_ONCE = 250  # vectors that are compared together, which fit the processor's cache


class VectorLikeness(Likeness):
    """Compares vectors, as far as there are any, once the model is loaded."""

    def compare(
        self, database: Database, text: str, names: Collection[str], ranges: Ranges
    ) -> Mapping[int, float]:
        model = find_loaded()
        vectors = record.read(database, ranges) if model else {}
        return find_nearest(model, without(text, names), vectors) if model else NO_LIKENESS


def without(text: str, names: Collection[str]) -> str:
    """Return a text without the words that begin with one of these names ("Anna", "Anna's"), or all
    of it where it has no other: who speaks is in many messages, and is no meaning."""
    kept = (part for part in text.split() if names_none(part, names))
    return " ".join(kept) or text


def names_none(part: str, names: Collection[str]) -> bool:
    return not any(word in names for word in words(part)[:1])


def find_nearest(model: Encoder, text: str, vectors: Mapping[int, bytes]) -> dict[int, float]:
    """Return the places whose vectors are nearer to a text's than the mean, each by how many
    standard deviations. Of a message in pieces the nearest piece counts."""
    import numpy  # noqa: PLC0415 - only where the setting is on

    if len(vectors) < 2 or not text.strip():
        return {}
    asked = model.encode([text])[0]
    rows = numpy.frombuffer(b"".join(vectors.values()), "int8").reshape(-1, DIMENSIONS)
    parts = range(0, len(rows), _AT_ONCE)
    near = numpy.concatenate([rows[n : n + _AT_ONCE].astype("float32") @ asked for n in parts])
    pieces = [len(one) // DIMENSIONS for one in vectors.values()]
    if len(rows) > len(pieces):
        begins = numpy.cumsum([0, *pieces[:-1]])
        near = numpy.maximum.reduceat(near, begins)
    deviation = float(near.std())
    if not deviation:
        return {}
    apart = ((near - near.mean()) / deviation).tolist()
    return {place: far for place, far in zip(vectors, apart, strict=True) if far > 0}
