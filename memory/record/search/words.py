"""Words: how a text is split into searchable terms, and which terms a question searches for.

Chinese, Japanese and Korean are split into pairs of characters, since words of one or two can't be
separated without a dictionary. The last character is a term too, so that each character is the
beginning of exactly one term.
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


def signs(text: str, said: Sequence[str], is_user: bool) -> int:
    """Return the sum of the flags of a text; `said` are its words."""
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
    told = [word for run in kept for word in run]
    return [*dict.fromkeys(reversed(told))][::-1]


def _terms(wanted: Sequence[str]) -> list[Term]:
    """Return the terms of these words and, up to the limit, of their prefixes."""
    terms = [Term(word, is_prefix=bool(_IDEOGRAPH.fullmatch(word))) for word in wanted]
    longer = (word for word in wanted if len(word) >= PREFIX)
    terms += [Term(word[:PREFIX], is_prefix=True) for word in longer]
    return list(dict.fromkeys(terms))[:MOST]
