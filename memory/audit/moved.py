"""Values and tasks that a summary gives to another person or thing than the source does, without
an exchange: "Anna pays 300" if Ben does. Pure.

A clause of the text that repeats one of the source, but has another name, number or day in place
of its own, has moved the rest, unless the source says some of it of that name, too.
"""

from __future__ import annotations

import re
from collections.abc import Set

from memory.audit.classes import CLASSES, TITLES
from memory.audit.exchanged import DETERMINERS, NO, USER, Clauses, find_alike
from memory.patterns import lazy
from memory.text.wording import is_wide

_RARE = 12  # maximum of clauses of a source with a word that is moved
_LEAST = 2  # words that two clauses share,
_ALIKE = 0.6  # and their share of both
_BESIDE, _SHORT = 2, 5  # the distance of clauses about rivals, and their words
_MOST_FOUND = 4
_PREPOSITION = 4  # letters
_NONE = frozenset((NO, USER))
CHANGES = lazy(
    r"\b(?:instead|rather|lieber|doch|statt|änder\w*|chang\w*|switch\w*|replac\w*|make it)\b"
    r"|[改换]|还是",
    re.IGNORECASE,
)
"""Words of a clause that changes a value without saying of what."""
_RELATIVE = lazy(
    r"\b(?:tomorrow|today|tonight|yesterday|every day|daily|the (?:day|next)|week"
    r"|morgen|heute|gestern|täglich|am tag|woche)\b"
    r"|[今明后昨前]天|每天|次日|天[后前]|\d[日号]|周末",
    re.IGNORECASE,
)
"""Words of a day that may be any day of the week."""
_UNIT = lazy(r"([$€£¥]?) ?(?<!\d)(\d{1,12}(?:[.,:]\d{1,9}){0,5})[ -]?([^\W\d_]{1,20}|[%°€£$¥]|)")
_TOKEN = lazy(r"\d{1,12}(?:[.,:]\d{1,9}){0,5}|[^\W\d_]{1,40}")
_GROUPS = lazy(r"[.,](?=\d{3}(?!\d))")


def find_new_days(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of a text with a day of the week, although the source names others, and
    no day relative to another one."""
    known = {word for word in said.places if word.startswith("d:")}
    if not known or any(map(_RELATIVE.search, said.texts)):
        return []
    return [
        text.strip()
        for text, words in zip(told.texts, told.words, strict=True)
        if any(word.startswith("d:") and word not in known for word in words)
    ]


def find_moved(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source of which a text says a part of somebody or something
    else."""
    found = dict[str, None]()
    for at, words in enumerate(told.words):
        if len(words) < _LEAST or len(found) >= _MOST_FOUND:
            continue
        beside = told.words_of_sentence(at)
        own = words - _NONE
        for place, shared in find_alike(words, said, least=1):
            theirs = said.words[place] - _NONE
            if len(shared) < max(_ALIKE * (len(own) - 1), _ALIKE * (len(theirs) - 1)):
                continue
            pair = _Pair(told, said, at, place, shared)
            if any(pair.is_moved(mine, theirs - beside) for mine in own - theirs):
                found[said.texts[place].strip()] = None
    return list(found)


class _Pair:
    """A clause of a text, and one of the source that is like it."""

    def __init__(
        self, told: Clauses, said: Clauses, at: int, place: int, shared: frozenset[str]
    ) -> None:
        self._told, self._said, self._at, self._place, self._shared = told, said, at, place, shared
        self._words, self._theirs = told.words[at] - _NONE, said.words[place] - _NONE

    def is_moved(self, mine: str, others: Set[str]) -> bool:
        """Return whether the clause of the text has a word in place of one of these others."""
        said, kind = self._said, _kind_of(mine, self._told.texts[self._at], self._said.proper)
        places = said.places.get(mine, ())
        if not places or len(places) > _RARE:
            if places or len(self._shared) < _LEAST:
                return False
            return any(other[:2] == kind in CLASSES for other in others) or any(
                self._is_renamed(mine, other) for other in others & said.proper
            )
        others = {one for one in others if self._is_in_place(mine, one)}
        rivals = {other for other in others if self._are_rivals(mine, other)}
        text = said.texts[self._place]
        is_bare = mine[0].isdigit() and not kind
        alike = {
            one
            for one in others
            if (one[0].isdigit() if is_bare else kind and _kind_of(one, text, said.names) == kind)
        }
        if not (rivals or alike):
            return False
        beside = frozenset[str]().union(*(said.words[one] for one in places))
        if (self._words - {mine}) & beside - self._theirs:
            return False
        apart = {one for one in self._shared - beside if len(said.places[one]) <= _RARE}
        if not apart or any(CHANGES.search(said.texts[one]) for one in places):
            return False
        if kind == "name" or (rivals and not kind):
            if not (rivals or self._is_whole):
                return False
        elif not all(self._is_owned(one) for one in places) or any(
            others & said.words[one] for one in places
        ):
            return False
        if not self._is_enough(mine, bool(rivals)):
            return False
        whole = map(said.words_of_sentence, places)
        return not any(apart & one and not others & one for one in whole)

    def _is_renamed(self, mine: str, other: str) -> bool:
        """Return whether a name that the source does not have follows the same word as another."""
        if mine not in self._told.proper:
            return False
        before, _ = _neighbours(mine, self._told.texts[self._at], frozenset())
        left, _ = _neighbours(other, self._said.texts[self._place], frozenset())
        return before == left and (len(left) > _PREPOSITION or left in TITLES)

    def _is_in_place(self, mine: str, other: str) -> bool:
        """Return whether two words are of a kind, and have the same word before or behind them."""
        names = self._said.names
        if (mine[0].isdigit(), mine[:2] in CLASSES, mine in names) != (
            other[0].isdigit(),
            other[:2] in CLASSES,
            other in names,
        ):
            return False
        if mine[:2] in CLASSES or is_wide(mine):
            return mine[:2] in CLASSES
        (before, behind), (left, right) = (
            _neighbours(mine, self._told.texts[self._at]),
            _neighbours(other, self._said.texts[self._place]),
        )
        if mine in names or mine[0].isdigit():
            return (before == left != "") or (behind == right != "")
        return (before, behind) == (left, right) and (not before or before in DETERMINERS)

    @property
    def _is_whole(self) -> bool:
        """Return whether the clauses differ in one word only, apart from words that the other text
        has in the same sentence."""
        mine = self._words - self._shared - self._said.words_of_sentence(self._place)
        theirs = self._theirs - self._shared - self._told.words_of_sentence(self._at)
        return len(mine) <= 1 and len(theirs) <= 1

    def _is_enough(self, mine: str, are_rivals: bool) -> bool:
        """Return whether the clauses share more than numbers; one number is enough if a rival has
        another."""
        digits = sum(one[0].isdigit() for one in self._shared)
        if len(self._shared) >= _LEAST:
            return digits < len(self._shared)
        counted = (
            any(one[0].isdigit() for one in self._said.words[at]) for at in self._said.places[mine]
        )
        return are_rivals and digits > 0 and self._is_whole and any(counted)

    def _is_owned(self, place: int) -> bool:
        """Return whether a clause of the source has another name than both."""
        words = self._said.words[place] - self._theirs - self._words
        return any(one in self._said.within or is_wide(one) for one in words)

    def _are_rivals(self, one: str, other: str) -> bool:
        """Return whether two words stand for each other in neighbouring clauses of a sentence."""
        said = self._said
        for at in said.places[one]:
            for near in range(at - _BESIDE, at + _BESIDE + 1):
                if not 0 <= near < len(said.words) or said.sentences[near] != said.sentences[at]:
                    continue
                these, those = said.words[at], said.words[near]
                are_short = len(these) <= _SHORT and len(those) <= _SHORT
                if are_short and other in those - these and one not in those:
                    return True
        return False


def _kind_of(word: str, text: str, names: Set[str]) -> str:
    if word[:2] in CLASSES:
        return word[:2]
    if word[0].isdigit():
        return unit_of(word, text)
    return "name" if word in names else ""


def unit_of(value: str, text: str) -> str:
    """Return the unit of a number of a text, as its kind; "" if it has none."""
    for sign, number, counted in _UNIT.findall(text):
        if _GROUPS.sub("", number).replace(",", ".") == value:
            unit = (sign or counted).casefold()
            return f"number {unit}" if unit else ""
    return ""


def _neighbours(word: str, text: str, without: Set[str] = TITLES) -> tuple[str, str]:
    """Return the words directly before and behind a word of a text, which may leave out some."""
    words = [one for one in _TOKEN.finditer(text.casefold()) if one[0] not in without]
    for at, one in enumerate(words):
        if not (one[0].startswith(word) or _GROUPS.sub("", one[0]).replace(",", ".") == word):
            continue
        before = words[at - 1] if at else None
        behind = words[at + 1] if at + 1 < len(words) else None
        return (
            before[0] if before and text[before.end() : one.start()].isspace() else "",
            behind[0] if behind and text[one.end() : behind.start()].isspace() else "",
        )
    return "", ""
