"""The interface of what compares meanings: it finds messages that say in other words what a text
asks for."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memory.record.database import Database
from memory.record.search.index import Ranges
from memory.record.search.ranking import NO_LIKENESS


class Likeness:
    """Compares no meanings: a search goes by words alone."""

    def compare(
        self, database: Database, text: str, names: Collection[str], ranges: Ranges
    ) -> Mapping[int, float]:
        """Return how near messages of these ranges are to a text by what they mean, by place: by
        how many standard deviations nearer than the mean. Those that are not nearer are left out.
        `names` are words by which those who speak are called."""
        return NO_LIKENESS
