"""Words and dates: how a text is split into searchable terms, and which terms and dates a question
searches for. Chinese, Japanese and Korean are split into pairs of characters; the last one is a
term too, so that each character begins exactly one term."""

from __future__ import annotations

import itertools
import re
import tomllib
import unicodedata
from calendar import monthrange
from collections.abc import Collection, Iterator, Sequence
from datetime import MAXYEAR, MINYEAR, date
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from memory.patterns import lazy

_SAMPLE = 200  # the number of words from which a text's language is detected


class Language(NamedTuple):
    """A language of `languages.toml`."""

    stop: frozenset[str]
    when: frozenset[str]
    temporal: frozenset[str]
    self: frozenset[str]
    within: frozenset[str]
    months: tuple[str, ...]


def language_of(words: Sequence[str]) -> Language:
    """Return the language with the most distinct stop words in a text."""
    sample = frozenset(words[:_SAMPLE])
    return max(LANGUAGES, key=lambda language: len(language.stop & sample))


def _languages() -> list[Language]:
    data = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    return [_language(lists) for lists in data.values()]


def _language(lists: dict[str, str]) -> Language:
    months = tuple(lists.pop("months").split())
    return Language(
        months=months, **{name: frozenset(text.split()) for name, text in lists.items()}
    )


LANGUAGES = _languages()


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


_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U000323af"
)
_UNKNOWN = "\u19b0-\u19c9\u1cf2\u1cf3"  # letters in Python, but not in SQLite
_RUN = lazy(rf"([{_CJK}]+)|[^\W_{_CJK}{_UNKNOWN}]+")
_IDEOGRAPH = lazy(f"[{_CJK}]")

LONGEST = 64
"""The maximum of characters of a word; a longer one is a key or encoded data."""
MOST = 32
"""The maximum of terms of a question, prefixes included. Of more words the last ones are used: a
long message usually asks at its end."""
PREFIX = 5
"""The length from which a word is also searched by its prefix."""

ENDS_ASKING, TEMPORAL, SELF, USER = 1, 2, 4, 8
"""The flags of a message besides its words: it ends with a question, names a time, mentions its
speaker, or is a user's. Plain numbers, since a search reads many."""
UNESCAPED = 16
"""The flag of a message with JSON escapes whose words are indexed decoded."""


class Term(NamedTuple):
    """A search term: a word, or a prefix."""

    word: str
    is_prefix: bool = False


class Question(Struct, frozen=True):
    """A parsed question: `words` are all of its words, `asks_self` says that it is about its
    speaker."""

    terms: tuple[Term, ...]
    words: frozenset[str]
    dates: tuple[NamedDate, ...]
    asks_when: bool
    asks_self: bool


def words(text: str) -> list[str]:
    """Return the words of a text in order, as indexed."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for run in _RUN.finditer(folded) for word in _cut(run)]


def _cut(run: re.Match[str]) -> Iterator[str]:
    if run[1]:
        yield from map("".join, itertools.pairwise(run[1]))
        yield run[1][-1]
    else:
        yield run[0][:LONGEST]


def signs(text: str, words: Sequence[str], is_user: bool) -> int:
    """Return the sum of the flags of a text; `words` are its words."""
    language = language_of(words)
    there = set(words)
    seen = {
        ENDS_ASKING: text.rstrip().endswith(("?", "？")),
        TEMPORAL: not language.temporal.isdisjoint(there),
        SELF: not language.self.isdisjoint(there),
        USER: is_user,
    }
    return sum(sign for sign, is_seen in seen.items() if is_seen)


def question(text: str, names: Collection[str]) -> Question:
    """Return the question in a text. `names` are words that name the speakers. These are in so many
    messages that they are searched only if there are no other words."""
    asked = _split_words(text)
    language = language_of(asked)
    content = [word for word in asked if word not in language.stop]
    telling = [word for word in content if word not in names]
    return Question(
        tuple(_terms((telling or content or asked)[-MOST:])),
        frozenset(asked),
        find_dates(text),
        asks_when=not language.when.isdisjoint(asked),
        asks_self=not language.self.isdisjoint(asked),
    )


def _split_words(text: str) -> list[str]:
    """Return the distinct words of a question, in the order of their last occurrence. The last
    character of a run of Chinese is searched only if it is the whole run."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    runs = ([*_cut(run)] for run in _RUN.finditer(folded))
    kept = (run[: max(1, len(run) - 1)] for run in runs)
    parts = [word for run in kept for word in run]
    return [*dict.fromkeys(reversed(parts))][::-1]


def _terms(wanted: Sequence[str]) -> list[Term]:
    """Return the terms of these words and, up to the limit, of their prefixes."""
    terms = [Term(word, is_prefix=bool(_IDEOGRAPH.fullmatch(word))) for word in wanted]
    longer = (word for word in wanted if len(word) >= PREFIX)
    terms += [Term(word[:PREFIX], is_prefix=True) for word in longer]
    return list(dict.fromkeys(terms))[:MOST]
