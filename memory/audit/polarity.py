"""Clauses of a summary that state what the source only denies: "the loan was granted". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from memory.audit.exchanged import NO, USER, Clauses, find_alike
from memory.audit.unsettled import DENIES, UNLESS
from memory.patterns import lazy
from memory.text.wording import is_wide

_LEAST = 2  # words that both have,
_ALIKE, _ALIKE_THERE = 0.75, 0.6  # and their share of the text's clause and of the source's
_RARE = 12  # maximum of clauses of the source with a word that is excluded
_FEW = 2  # places of a word that the source only denies
_LEAST_DENIED = 3  # words of a clause that denies
_MOST_FOUND = 4
_COMPARES = lazy(
    r"\b(?:without|ohne|more|less|later|earlier|longer|only|just|most|least|over|above"
    r"|mehr|weniger|später|früher|länger|nur|über|höchstens|mindestens)\b"
    r"|超过|只|仅|晚于|早于|最",
    re.IGNORECASE,
)
"""Words of a clause that denies a part of something."""
_LIMITS = lazy(
    rf"{UNLESS.pattern}|{_COMPARES.pattern}|\b(?:yet|still|noch|statt|anstatt|instead|rather)\b|[?？还未尚欠待非]|不是|至少",
    re.IGNORECASE,
)
_PART_OF_NO = lazy(r"[不没无未别他她它我你您]")
_NO_WIDE = lazy(r"[不没无未别]")
_WHETHER = lazy(r"\b(?:whether|ob)\b|是否|会不会|能不能", re.IGNORECASE)
_ASKS = lazy(r"[?？]\Z")
_DENIES_ALL = lazy(r"\b(?:not|never|no|nicht|nie|kein\w{0,2})\b|n['’]t\b", re.IGNORECASE)
_ITS = r" (?:(?:the|an?|any|my|our|der|die|das|dem|den|einen?|einem|einer|meinen?|unseren?) )?"
_WITHOUT = lazy(rf"\b(?:without|ohne){_ITS}([^\W\d_]{{3,40}})", re.IGNORECASE)
_WITH = lazy(rf"\b(?:with|mit){_ITS}([^\W\d_]{{3,40}})", re.IGNORECASE)


def find_stated(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source that deny what a text states."""
    found = dict[str, None]()
    for at, words in enumerate(told.own):
        own = words - {USER}
        if not own or NO in own or told.has(DENIES, at):
            continue
        if _COMPARES.search(told.texts[at]) or _WHETHER.search(told.texts[at]):
            continue
        found |= dict.fromkeys(_only_denied(own, said))
        if len(own) < _LEAST:
            continue
        like = [*find_alike(own, said)]
        if any(NO not in said.words[place] for place, _ in like):
            continue
        for place, shared in like:
            theirs = said.words[place] - {NO, USER}
            if len(shared) < max(_ALIKE * len(own), _ALIKE_THERE * len(theirs)):
                continue
            if not any(said.has(one, place) for one in (UNLESS, _COMPARES, _ASKS)):
                found[said.texts[place].strip()] = None
    return [*found][:_MOST_FOUND]


def _only_denied(own: Set[str], said: Clauses) -> Iterator[str]:
    """Yield the short clauses of the source that deny the only thing they name, if it is one of
    these words and the source has it nowhere else."""
    for word in own:
        places = said.places.get(word, ())
        if 0 < len(places) <= _FEW and all(_denies_only(word, said, at) for at in places):
            yield said.texts[places[0]].strip()


def _denies_only(word: str, said: Clauses, at: int) -> bool:
    words = {one for one in said.words[at] - {NO, USER, word} if not _PART_OF_NO.search(one)}
    return NO in said.words[at] and not words and not said.has(_ASKS, at)


def find_joined(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses that exclude what a text includes: "with", for "without the band"."""
    found = dict[str, None]()
    included = [(n, key) for n in range(len(told.texts)) for key in _behind(_WITH, told, n)]
    for at, key in included:
        places = said.places.get(key, ())
        if len(places) > _RARE or any(key in _behind(_WITH, said, one) for one in places):
            continue
        for there in (one for one in places if key in _behind(_WITHOUT, said, one)):
            both = told.words_of_sentence(at) & said.words_of_sentence(there) - {key, NO, USER}
            if len(both) >= _LEAST and not said.has(_DENIES_ALL, there):
                found[said.texts[there].strip()] = None
    return [*found][:_MOST_FOUND]


def _behind(preposition: re.Pattern[str], clauses: Clauses, at: int) -> set[str]:
    """Return the keys of the words behind a preposition in a clause."""
    words = (found[1] for found in preposition.finditer(clauses.texts[at]))
    return {key for word in words for key in clauses.list_keys(word)[:1] if key[0].isalpha()}


def find_newly_denied(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source that state what a text denies."""
    found = dict[str, None]()
    for at, words in enumerate(told.own):
        own = {one for one in words - {NO, USER} if not _NO_WIDE.search(one)}
        if NO not in words or len(own) < _LEAST_DENIED or _LIMITS.search(told.texts[at]):
            continue
        like = [*find_alike(own, said)]
        if any(_is_denied(said, place) or said.has(_ASKS, place) for place, _ in like):
            continue
        for place, shared in like:
            theirs = said.words[place] - {USER}
            if len(shared) >= max(_ALIKE * len(own), _ALIKE_THERE * len(theirs)):
                found[said.texts[place].strip()] = None
    return [*found][:_MOST_FOUND]


def _is_denied(said: Clauses, at: int) -> bool:
    """Return whether a clause denies something; in Chinese, other signs are often of its topic."""
    return NO in said.words[at] if is_wide(said.texts[at]) else said.has(DENIES, at)
