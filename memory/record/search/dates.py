"""Dates in a question: "8 May 2023", "May 8th", "8.5.2023", "2023-05-08", "5月8日", or a whole
month, such as "in May" or "May 2023".

`languages.toml` has the names of months. Impossible dates are ignored.
"""

from __future__ import annotations

import re
import unicodedata
from calendar import monthrange
from collections.abc import Collection, Iterator
from datetime import MAXYEAR, MINYEAR, date
from functools import cache
from typing import NamedTuple

from memory.patterns import lazy
from memory.record.search.languages import LANGUAGES

_LONGEST = 1_000  # characters that are read, the last; a longer text is not a question
_MOST = 5  # the maximum of dates
_DIGIT = lazy(r"\d")


class NamedDate(NamedTuple):
    """A day, or a month (`day` is 0); of any year if `year` is 0."""

    year: int
    month: int
    day: int

    def days_off(self, others: Collection[date]) -> dict[date, int]:
        """Return the distance in days of each of these days from this day or month."""
        near = {other.year + more for other in others for more in (-1, 0, 1)}
        years = [self.year] if self.year else near.intersection(range(MINYEAR, MAXYEAR + 1))
        spans = [*map(self._span, years)]
        return {
            other: min(max(0, (first - other).days, (other - last).days) for first, last in spans)
            for other in others
        }

    def _span(self, year: int) -> tuple[date, date]:
        longest = monthrange(year, self.month)[1]
        first = date(year, self.month, min(self.day or 1, longest))
        return first, date(year, self.month, min(self.day or longest, longest))


def find_dates(text: str) -> tuple[NamedDate, ...]:
    """Return the distinct dates in a text, at most a few."""
    folded = unicodedata.normalize("NFKC", text[-_LONGEST:]).casefold()
    found: dict[NamedDate, None] = {}
    numbered, bare = _patterns()
    for pattern in (*numbered, *bare) if _DIGIT.search(folded) else bare:
        for match in pattern.finditer(folded):
            found.update(dict.fromkeys(filter(_is_real, _readings(match))))
        folded = pattern.sub("|", folded)  # a part of a date is not a date of its own
    return tuple(found)[:_MOST]


def _readings(match: re.Match[str]) -> Iterator[NamedDate]:
    """Yield the possible dates; both for 5/8/2023."""
    parts = match.groupdict()
    year, day, month = int(parts["year"] or 0), int(parts.get("day") or 0), parts["month"]
    number = int(month) if month.isdecimal() else _months()[month]
    year += 2_000 if 0 < year < 100 else 0
    yield NamedDate(year, number, day)
    if parts.get("slash"):
        yield NamedDate(year, day, number)


def _is_real(one: NamedDate) -> bool:
    try:
        date(one.year or 2_000, one.month, one.day or 1)
    except ValueError:
        return False
    return True


@cache
def _months() -> dict[str, int]:
    """Return the number of a month by its name, or by the three-letter abbreviation."""
    names = {name: n for language in LANGUAGES for n, name in enumerate(language.months, 1)}
    short = {name[:3]: n for name, n in names.items() if len(name) > 3}
    meanings = {(name[:3], n) for name, n in names.items()}
    plain = {name for name in short if len([s for s, _ in meanings if s == name]) == 1}
    return {name: short[name] for name in plain} | names


@cache
def _patterns() -> tuple[list[re.Pattern[str]], list[re.Pattern[str]]]:
    """Return the patterns with numbers and those without; more specific ones come first. (They are
    compiled on first use.)"""
    by_length = sorted(_months(), key=len, reverse=True)
    name = f"(?P<month>{'|'.join(map(re.escape, by_length))})"
    day, month = r"(?<!\d)(?P<day>\d{1,2})", r"(?P<month>\d{1,2})"
    nth, of = r"(?:st|nd|rd|th|er|[.º])?", r"(?:\s+(?:of|de|del))?"
    year = r"(?P<year>\d{4})(?!\d)"
    within = "|".join(sorted({word for language in LANGUAGES for word in language.within}))
    numbered = (
        rf"(?<!\d)(?P<year>\d{{4}})(?P<mark>[-/.]){month}(?P=mark)(?P<day>\d{{1,2}})(?!\d)",
        rf"{day}\.\s?{month}\.\s?(?P<year>\d{{4}}|\d{{2}})(?!\d)",
        rf"{day}(?P<slash>/){month}/{year}",
        rf"{day}{nth}{of}\s+{name}\b\.?(?:,?{of}\s+{year})?",
        rf"\b{name}\b\.?\s+(?:the\s+)?(?P<day>\d{{1,2}})(?!\d){nth}(?:,?\s+{year})?",
        rf"(?:(?P<year>\d{{4}})\s?年\s?)?(?<!\d){month}\s?月\s?(?P<day>\d{{1,2}})\s?[日号號]",
        rf"\b{name}\b\.?,?{of}\s+{year}",
        rf"(?P<year>\d{{4}})\s?年\s?{month}\s?月",
    )
    bare = rf"\b(?:{within})\s+{name}\b(?P<year>)"
    return [*map(re.compile, numbered)], [re.compile(bare)]
