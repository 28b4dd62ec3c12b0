"""The things that values belong to, if a number or a name tells them apart: the XR-20 is not the
XR-10, and Dad's flight is not Mum's. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory.corrections.pairs import ParsedSentence, ValuePair
from memory.patterns import lazy
from memory.text.values import Value

CLAUSE = lazy(r"[,;:，、；：–—]\s?|\s(?:and|und|aber|but|then|dann|while)\s", re.IGNORECASE)
"""Punctuation and words between clauses, each of which is about another thing."""
_OF_A_PERSON = lazy(r"['’]?s$")
_TELLING = frozenset(("identifier", "code"))


def part_of(text: str, value: Value) -> tuple[int, int]:
    """Return the start and end of a value's clause."""
    start = max((one.end() for one in CLAUSE.finditer(text, 0, value.start)), default=0)
    end = CLAUSE.search(text, value.end)
    return start, end.start() if end else len(text)


def is_of_another(pair: ValuePair) -> bool:
    """Return whether the new value belongs to another thing than the old one. Its sentence names
    one thing, by a number or by a value of its own, and the old value's clause names another. Or:
    the two are numbers of things, and each has another value."""
    new, old, said = pair.new, pair.old, pair.sentence.values
    if pair.back < 0:
        return False
    own = [one for one in said if one is not new and not one.is_same(old)]
    theirs = [one for one in _other_values(pair.source, old) if not one.is_same(new)]
    if new.kind in _TELLING:
        is_named = any(one.is_same(old) for one in said)
        return not is_named and _differ(own, theirs, {"number", "time", "date", "weekday"})
    if _differ(own, theirs, _TELLING):
        return True
    if new.kind in ("name", "word"):
        return False
    others = [one for one in pair.source.values if one is not old and one.kind == old.kind]
    elsewhere = [name for one in others for name in _other_values(pair.source, one)]
    mine, named = _names(own), _names(theirs)
    return mine.isdisjoint(named) and not mine.isdisjoint(_names(elsewhere) - named)


def _other_values(source: ParsedSentence, old: Value) -> list[Value]:
    """Return the other values in a value's clause."""
    start, end = part_of(source.text, old)
    return [one for one in source.values if one is not old and start <= one.start < end]


def _differ(own: Iterable[Value], theirs: Iterable[Value], kinds: Iterable[str]) -> bool:
    """Return whether both sides have values of one of these kinds, and none is the same."""
    for kind in kinds:
        here = [one for one in own if one.kind == kind]
        there = [one for one in theirs if one.kind == kind]
        if here and there:
            return not any(a.is_same(b) for a in here for b in there)
    return False


def _names(values: Iterable[Value]) -> frozenset[str]:
    """Return the words of the names among values, without the possessive: Dad, for "Dad's
    flight"."""
    words = (word for one in values if one.kind == "name" for word in one.text.split())
    return frozenset(_OF_A_PERSON.sub("", word.casefold()) for word in words)
