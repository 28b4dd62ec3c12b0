"""Values and tasks that a summary gives to another person or thing than the source does, without
an exchange: "Anna pays 300" if Ben does. Pure.

A clause of the text that repeats one of the source, but has another name, number or day in place
of its own, has moved the rest, unless the source says some of it of that name, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from memory.context.alike import find_alike
from memory.context.classes import CLASSES
from memory.context.exchanged import NO, USER, Clauses
from memory.patterns import lazy

_RARE = 12  # maximum of clauses of a source with a word that is looked up
_LEAST = 2  # words that two clauses share,
_ALIKE, _ALIKE_THERE = 0.6, 0.6  # and their share of the text's clause and of the source's
_MOST_FOUND = 4
_CHANGES = lazy(
    r"\b(?:instead|rather|lieber|doch|statt|änder\w*|chang\w*|switch\w*|replac\w*|make it)\b"
    r"|[改换]|还是",
    re.IGNORECASE,
)
"""Words of a clause that changes a value without saying of what."""
_UNIT = lazy(r"([$€£¥]?) ?(\d+(?:[.,:]\d+)*)[ -]?([^\W\d_]{1,20}|[%°€£$¥]|)")


def find_moved(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source of which a text says a part of somebody or something
    else."""
    found = dict[str, None]()
    for at, words in enumerate(told.words):
        if len(words) <= _LEAST or len(found) >= _MOST_FOUND:
            continue
        beside = told.words_of_sentence(at)
        for place, shared in _find_like(words, said):
            theirs = said.words[place]
            for mine in words - theirs:
                kind = _kind_of(mine, told.texts[at], said.proper)
                if not kind or mine not in said.places:
                    continue
                others = {
                    one
                    for one in theirs - beside
                    if _kind_of(one, said.texts[place], said.names) == kind
                }
                if others and _is_moved(mine, kind, words, shared, place, others, said):
                    found[said.texts[place].strip()] = None
    return list(found)


def _find_like(words: frozenset[str], said: Clauses) -> Iterator[tuple[int, frozenset[str]]]:
    """Yield the clauses of the source that share most of these words, each with the shared ones."""
    count = len(words - {NO, USER})
    for place, shared in find_alike(words, said):
        theirs = len(said.words[place] - {NO, USER})
        if len(shared) >= max(_ALIKE * (count - 1), _ALIKE_THERE * (theirs - 1)):
            if not all(one[0].isdigit() for one in shared):
                yield place, shared


def _is_moved(
    mine: str,
    kind: str,
    words: frozenset[str],
    shared: frozenset[str],
    place: int,
    others: Set[str],
    said: Clauses,
) -> bool:
    """Return whether the source has a rare shared word never beside `mine`, and no other word of
    the text's clause beside it."""
    places, theirs = said.places[mine], said.words[place]
    beside = frozenset[str]().union(*(said.words[one] for one in places))
    if (words - {mine, NO, USER}) & beside - theirs:
        return False
    apart = {one for one in shared - beside if len(said.places[one]) <= _RARE}
    if not apart:
        return False
    if kind != "name":
        if not all(said.words[one] & said.names - theirs - words for one in places):
            return False
        if any(others & said.words[one] for one in places):
            return False
    if any(_CHANGES.search(said.texts[one]) for one in places):
        return False
    return not any(
        apart & whole and not others & whole for whole in map(said.words_of_sentence, places)
    )


def _kind_of(word: str, text: str, names: Set[str]) -> str:
    if word == NO:
        return ""
    if word[:2] in CLASSES:
        return word[:2]
    if word[0].isdigit():
        for sign, number, counted in _UNIT.findall(text):
            if re.sub(r"[.,](?=\d{3}(?!\d))", "", number).replace(",", ".") == word:
                unit = (sign or counted).casefold()
                return f"number {unit}" if unit else ""
        return ""
    return "name" if word in names else ""
