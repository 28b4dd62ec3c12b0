"""Words: how a text is cut into what can be looked for, and what a question looks for.

Chinese, Japanese and Korean are cut into pairs of characters, for words of one or two can't be told
apart there without a dictionary. The last character stands alone, too, so that each character is
the beginning of exactly one word.
"""

from __future__ import annotations

import itertools
import re
import tomllib
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U000323af"
)
_UNKNOWN = "\u19b0-\u19c9\u1cf2\u1cf3"  # letters to Python, but no letters to SQLite
_RUN = re.compile(rf"([{_CJK}]+)|[^\W_{_CJK}{_UNKNOWN}]+")
_DIGIT = re.compile(r"\d")

LONGEST = 64
"""Characters of a word that count; what is longer is no word, but a key or a picture as text."""
MOST = 32
"""Words of a question that are looked for; a question that has more is a text."""
PREFIX = 5
"""A word of so many letters is looked for by its beginning, too."""
_PREFIX_WEIGHT = 0.3
_WEAK_WEIGHT = 0.6
_SAMPLE = 200  # words that tell a text's language


ASKS, ENDS_ASKING, TEMPORAL, NUMBER, SELF = 1, 2, 4, 8, 16
"""What can be seen of a message besides its words: there is a question in it, it ends with one, it
names a time, a number, or the one who speaks. Plain numbers, for a search looks at thousands."""


@dataclass(frozen=True, slots=True)
class Language:
    """What `languages.toml` says of one."""

    stop: frozenset[str]
    weak: frozenset[str]
    when: frozenset[str]
    many: frozenset[str]
    temporal: frozenset[str]
    number: frozenset[str]
    self: frozenset[str]
    months: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Term:
    """Something that is looked for: a word, or what begins like it; `weight` 1 for a good word."""

    word: str
    weight: float = 1.0
    is_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """What is looked for, and how it is asked: `words` are all of its words."""

    terms: tuple[Term, ...]
    words: frozenset[str]
    asks_when: bool
    asks_many: bool


def words(text: str) -> list[str]:
    """The words of a text in order, as they are stored and looked for."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for run in _RUN.finditer(folded) for word in _cut(run)]


def _cut(run: re.Match[str]) -> Iterator[str]:
    if run[1]:
        yield from map("".join, itertools.pairwise(run[1]))
        yield run[1][-1]
    else:
        yield run[0][:LONGEST]


def signs(text: str, said: Sequence[str]) -> int:
    """The signs of a text, added up; `said` are its words."""
    language = language_of(said)
    there = set(said)
    seen = {
        ASKS: "?" in text or "？" in text,
        ENDS_ASKING: text.rstrip().endswith(("?", "？")),
        TEMPORAL: not language.temporal.isdisjoint(there),
        NUMBER: bool(_DIGIT.search(text)) or not language.number.isdisjoint(there),
        SELF: not language.self.isdisjoint(there),
    }
    return sum(sign for sign, is_seen in seen.items() if is_seen)


def language_of(said: Sequence[str]) -> Language:
    """The language of which the most stop words stand in a text."""
    sample = said[:_SAMPLE]
    return max(LANGUAGES, key=lambda language: sum(word in language.stop for word in sample))


def question(text: str, names: Collection[str]) -> Question:
    """What a text looks for. `names` are words by which those who speak are called: they stand in
    so many messages that they are looked for only where there is nothing else."""
    asked = _split_words(text)
    language = language_of(asked)
    content = [word for word in asked if word not in language.stop]
    telling = [word for word in content if word not in names]
    wanted = (telling or content or asked)[:MOST]
    return Question(
        tuple(term for word in wanted for term in _terms(word, language)),
        frozenset(asked),
        asks_when=not language.when.isdisjoint(asked),
        asks_many=not language.many.isdisjoint(asked),
    )


def _split_words(text: str) -> list[str]:
    """The words of a question, each once. The last character of a run of Chinese is looked for only
    where it is all of the run."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    runs = ([*_cut(run)] for run in _RUN.finditer(folded))
    kept = (run[: max(1, len(run) - 1)] for run in runs)
    return list(dict.fromkeys(word for run in kept for word in run))


def _terms(word: str, language: Language) -> Iterator[Term]:
    weight = _WEAK_WEIGHT if word in language.weak else 1.0
    if len(word) == 1 and re.match(f"[{_CJK}]", word):
        yield Term(word, weight, is_prefix=True)
        return
    yield Term(word, weight)
    if len(word) >= PREFIX:
        yield Term(word[:PREFIX], weight * _PREFIX_WEIGHT, is_prefix=True)


def may_date(word: str) -> bool:
    """Whether a word could be part of a date."""
    return word in _MONTHS or (word.isascii() and word.isdigit())


def dates(word: str, at: datetime) -> bool:
    """Whether a word is part of this date: its day, the name of its month, or its year."""
    return _MONTHS.get(word) == at.month or word in (str(at.day), str(at.year))


def _languages() -> list[Language]:
    data = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    return [_language(lists) for lists in data.values()]


def _language(lists: dict[str, str]) -> Language:
    months = tuple(lists.pop("months").split())
    return Language(
        months=months, **{name: frozenset(text.split()) for name, text in lists.items()}
    )


LANGUAGES = _languages()
_MONTHS = {name: n for language in LANGUAGES for n, name in enumerate(language.months, 1)}
