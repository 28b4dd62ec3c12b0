"""Choices, orders of two things and roles that a summary turns round: "B instead of A", "first B,
then A", "Petra was asked by Tom". Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Set
from itertools import pairwise, product
from typing import NamedTuple

from memory.audit.exchanged import NO, USER, Clauses
from memory.patterns import lazy
from memory.text.wording import is_wide

_MOST_FOUND = 4
_LONG = 20  # words of a clause that states no choice
_SHORT = 2  # words of a clause that needs the one beside it
_WITHOUT = lazy(r"\b(?:ohne|without)\b", re.IGNORECASE)
_FIRST = lazy(
    r"\b(?:first|erst|zuerst)\s+([^,;.]{1,60}),?\s+(?:and\s+|und\s+)?(?:then|dann|danach)\s+([^,;.]{1,60})"
    r"|先([^，。；]{1,20}?)(?:，?[再后]|，?然后)([^，。；]{1,20})"
    r"|(?:\bfrom |\bvon |从)(\d[\w.,]{0,12})\s?(?:to|auf|bis|in|[到至])\s?(\d[\w.,]{0,12})"
    r"|(\d[\w.,]{0,12})\s?(?:->|→)\s?(\d[\w.,]{0,12})",
    re.IGNORECASE,
)


class _Sides(NamedTuple):
    """The words of a sentence that it affirms, and those that it denies; or those of what comes
    first, and of what comes then."""

    some: frozenset[str]
    others: frozenset[str]
    text: str


class Turnable:
    """The choices and the orders of two things in texts."""

    def __init__(self, clauses: Clauses) -> None:
        self.clauses = clauses
        self.of_each = [[*_list_denied(clauses)], [*_list_ordered(clauses)]]
        self._by_word = [defaultdict[str, list[_Sides]](list) for _ in self.of_each]
        for sides, by_word in zip(self.of_each, self._by_word, strict=True):
            for one in sides:
                for word in one.some:
                    by_word[word].append(one)

    def find_turned(self, told: Clauses) -> list[str]:
        """Return the sentences of these texts that another one turns round."""
        if self.clauses.is_turned_round:
            return []
        found = dict[str, None]()
        for sides, by_word in zip(Turnable(told).of_each, self._by_word, strict=True):
            for mine in sides:
                for first, second in product(mine.some, mine.others):
                    theirs = [one for one in by_word.get(second, ()) if first in one.others]
                    if theirs and not any(second in one.others for one in by_word.get(first, ())):
                        found[theirs[0].text.strip()] = None
        return [*found][:_MOST_FOUND]


def _list_denied(clauses: Clauses) -> Iterator[_Sides]:
    """Yield the sentences with clauses that deny something, and others that do not."""
    for places in clauses.by_sentence():
        for at, then in pairwise(places):
            if clauses.is_joined[then] or (NO in clauses.words[at]) is (NO in clauses.words[then]):
                continue
            denied, other = (at, then) if NO in clauses.words[at] else (then, at)
            no, yes = clauses.words[denied] - {NO}, clauses.words[other]
            if no != {USER} and USER in no:
                no, yes = no - {USER}, yes - {USER}
            elif USER in no:  # "Jens does, not I": "my" on the other side is nobody
                yes = yes - {USER}
            is_short = min(map(_count, (no, yes))) <= _SHORT
            if max(len(no), len(yes)) > _LONG:
                continue
            if (is_short or no & yes) and not _WITHOUT.search(clauses.texts[denied]):
                yield _Sides(yes - no, no - yes, clauses.texts[denied])


def _count(words: Set[str]) -> float:
    """Return the number of words; in Chinese, of pairs of characters, each two words' worth."""
    return sum(1 if one.isascii() or not is_wide(one) else 0.5 for one in words)


def _list_ordered(clauses: Clauses) -> Iterator[_Sides]:
    for whole in clauses.sentences_with(_FIRST):
        for found in _FIRST.finditer(whole):
            first, then = (one for one in found.groups() if one)
            one, two = clauses.key_words(first), clauses.key_words(then)
            if one - two and two - one:
                yield _Sides(one - two, two - one, found[0])
