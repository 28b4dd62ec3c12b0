"""The interface for comparing meanings, which finds messages that express a question in other
words."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from memory.record.database import Database
from memory.record.search.index import Ranges
from memory.record.search.ranking import NO_LIKENESS


class Likeness:
    """A search by words alone: no meanings are compared."""

    def compare(
        self, database: Database, text: str, names: Collection[str], ranges: Ranges
    ) -> Mapping[int, float]:
        """Return, by place, how similar in meaning messages of these ranges are to a text: the
        number of standard deviations above the mean. Messages at or below the mean are left out.
        `names` are words that name the speakers."""
        return NO_LIKENESS
