"""Words: how a text is cut into what can be looked for, and what a question looks for.

Chinese, Japanese and Korean are cut into pairs of characters, for words of one or two can't be told
apart there without a dictionary. The last character stands alone, too, so that each character is
the beginning of exactly one word.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from memory.patterns import lazy
from memory.record.search.dates import NamedDate, find_dates
from memory.record.search.languages import language_of

_CJK = (
    "\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\U00020000-\U000323af"
)
_UNKNOWN = "\u19b0-\u19c9\u1cf2\u1cf3"  # letters to Python, but no letters to SQLite
_RUN = lazy(rf"([{_CJK}]+)|[^\W_{_CJK}{_UNKNOWN}]+")
_IDEOGRAPH = lazy(f"[{_CJK}]")

LONGEST = 64
"""Characters of a word that count; what is longer is no word, but a key or a picture as text."""
MOST = 32
"""Words of a question that are looked for, and beginnings too. Of more words it is the last: who
tells a story first asks at its end."""
PREFIX = 5
"""A word of so many letters is looked for by its beginning, too."""

ENDS_ASKING, TEMPORAL, SELF, USER = 1, 2, 4, 8
"""The signs of a message besides its words: it ends with a question, it names a time, or the one
who speaks, and a user said it. Plain numbers, for a search looks at many."""
UNESCAPED = 16
"""The sign of a message with escapes of JSON whose words are indexed as they are meant."""


class Term(NamedTuple):
    """Something that is looked for: a word, or what begins like it."""

    word: str
    is_prefix: bool = False


class Question(Struct, frozen=True):
    """The question, and how it is asked: `words` are all of its words, `asks_self` says that it is
    about the person who asks."""

    terms: tuple[Term, ...]
    words: frozenset[str]
    dates: tuple[NamedDate, ...]
    asks_when: bool
    asks_self: bool


def words(text: str) -> list[str]:
    """Return the words of a text in order, as they are stored and looked for."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return [word for run in _RUN.finditer(folded) for word in _cut(run)]


def _cut(run: re.Match[str]) -> Iterator[str]:
    if run[1]:
        yield from map("".join, itertools.pairwise(run[1]))
        yield run[1][-1]
    else:
        yield run[0][:LONGEST]


def signs(text: str, said: Sequence[str], is_user: bool) -> int:
    """Return the signs of a text, added up; `said` are its words."""
    language = language_of(said)
    there = set(said)
    seen = {
        ENDS_ASKING: text.rstrip().endswith(("?", "？")),
        TEMPORAL: not language.temporal.isdisjoint(there),
        SELF: not language.self.isdisjoint(there),
        USER: is_user,
    }
    return sum(sign for sign, is_seen in seen.items() if is_seen)


def question(text: str, names: Collection[str]) -> Question:
    """Return the question that a text asks. `names` are words by which those who speak are called:
    they stand in so many messages that they are looked for only where there is nothing else."""
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
    """Return the words of a question, each once, where it stands last. The last character of a run
    of Chinese is looked for only where it is all of the run."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    runs = ([*_cut(run)] for run in _RUN.finditer(folded))
    kept = (run[: max(1, len(run) - 1)] for run in runs)
    told = [word for run in kept for word in run]
    return [*dict.fromkeys(reversed(told))][::-1]


def _terms(wanted: Sequence[str]) -> list[Term]:
    """Words, and then, as far as there is room, their beginnings."""
    terms = [Term(word, is_prefix=bool(_IDEOGRAPH.fullmatch(word))) for word in wanted]
    longer = (word for word in wanted if len(word) >= PREFIX)
    terms += [Term(word[:PREFIX], is_prefix=True) for word in longer]
    return list(dict.fromkeys(terms))[:MOST]
