"""Words of a summary beside a value or a person that the source never has beside them, but always
beside another one: "arrival 17:30" if guests arrive at 15:00, "Dr Keller" if the doctor is Dr
Sloane. Pure.

The word next to a value, or the only words beside a person, tie the clause to those of the source
that have them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from memory.audit.classes import TITLES, class_of
from memory.audit.exchanged import NO, USER, Clauses
from memory.audit.moved import CHANGES, unit_of
from memory.corrections.sentences import OF_ANYTHING
from memory.patterns import lazy
from memory.text.names import SURNAMES
from memory.text.wording import is_wide

_RARE = 4  # maximum of clauses of the source with a word that ties
_NEAR = 2  # clauses
_MOST_FOUND = 4
_NAMED = lazy(r"\b([^\W\d_]{2,20})\.?\s([A-ZÄÖÜ][^\W\d_]{2,24})\b")
_NAMED_WIDE = lazy(
    rf"([{SURNAMES}])(总|老师|医生|经理|主任|律师|教练|师傅|阿姨|叔叔)|([小老])([{SURNAMES}])"
)
_PER = lazy(
    r"\b(?:each|per|an?|je|pro|now|jetzt|nun|first|zuerst|zunächst|originally|total|together|gesamt\w*|insgesamt"
    r"|zusammen)\b",
    re.IGNORECASE,
)
"""Words of a clause that counts something else, or tells an earlier value too."""
_OF_ANYTHING = frozenset(one[:5] for one in OF_ANYTHING) | frozenset(
    ["pay", "paid", "zahlt", "each", "day", "week", "month", "tag", "woche", "monat"]
)
_OF_ROLES = """
coach trainer trainerin teacher hotel restaurant café cafe physio lawyer plumber boss chef colleague
friend freund freundin kollege kollegin lehrer lehrerin firma nurse
"""
_ROLES = TITLES.union(_OF_ROLES.split())


def find_untied(told: Clauses, said: Clauses) -> list[str]:
    """Return the clauses of the source of which a text changes a value, a person or a name."""
    if said.is_turned_round:
        return []
    found = dict[str, None]()
    for at, words in enumerate(told.own):
        if words and len(found) < _MOST_FOUND:
            places = (*_other_values(at, told, said), *_other_people(at, told, said))
            found |= dict.fromkeys(said.texts[place].strip() for place in places)
    return [*found, *_renamed(told, said)][:_MOST_FOUND]


def _other_values(at: int, told: Clauses, said: Clauses) -> Iterator[int]:
    """Yield the places of the clauses that have the word next to a value with another value, if
    the source has this value beside other words only."""
    text = told.texts[at]
    if NO in told.own[at] or is_wide(text) or _PER.search(text):
        return
    ordered = [one for one in told.list_keys(text) if one != USER]
    words = {one for one in ordered if not one[0].isdigit()}
    for index, value in enumerate(ordered):
        kind = _kind(value, text)
        own = said.places.get(value, ()) if kind else ()
        own = [one for one in own if _kind(value, said.texts[one]) == kind]
        if not own or len(own) > _RARE or any(_is_bare(one, kind, said) for one in own):
            continue
        if any(words & said.words[one] - {_unit_key(kind)} for one in own):
            continue
        unit = _unit_key(kind)
        beside = [one for one in ordered[index + 1 : index + 3] if one != unit][:1]
        for word in (*ordered[max(0, index - 1) : index], *beside):
            places = said.places.get(word, ())
            if word[0].isdigit() or word in _OF_ANYTHING or not 0 < len(places) <= _RARE:
                continue
            others = [one for one in places if _values(one, kind, said)]
            if any(not told.words[at].isdisjoint(_values(one, kind, said)) for one in others):
                continue
            if others and not any(
                said.sentences[one] == said.sentences[mine] and one not in others
                for one in places
                for mine in own
            ):
                yield others[0]


def _is_bare(at: int, kind: str, said: Clauses) -> bool:
    """Return whether a clause says nothing of its value, or changes it."""
    words = {one for one in said.words[at] if not one[0].isdigit()}
    words -= {_unit_key(kind), NO, USER}
    return not words or bool(CHANGES.search(said.whole[said.sentences[at]]))


def _values(at: int, kind: str, said: Clauses) -> list[str]:
    return [one for one in said.words[at] if _kind(one, said.texts[at]) == kind]


def _kind(value: str, text: str) -> str:
    """Return the kind of a number: a time, or its unit, but no month; "" for others."""
    if not value[0].isdigit():
        return ""
    unit = "time" if ":" in value else unit_of(value, text)
    return "" if class_of(unit.removeprefix("number "), unit) else unit


def _unit_key(kind: str) -> str:
    return kind.removeprefix("number ").removesuffix("s")[:5]


def _other_people(at: int, told: Clauses, said: Clauses) -> Iterator[int]:
    """Yield the places of the clauses that have the only words beside a person, and another
    person, whom the sentences of both name."""
    words = told.own[at]
    people = _people(words, said)
    known = [one for one in words - people - {NO} if one in said.places]
    if len(people) != 1 or NO in words or not known or is_wide(told.texts[at]):
        return
    (person,) = people
    if any(len(said.places[one]) > _RARE or one[0].isdigit() for one in known):
        return
    places = sorted({place for one in known for place in said.places[one]})
    others = [_people(said.words[place], said) for place in places]
    if not all(others) or any(person in some for some in others):
        return
    rivals = frozenset[str]().union(*others) & _people(told.words_of_sentence(at), said)
    if any(_is_beside(person, place, said) for place in places) and any(
        _count_both(person, one, said) > 1 and not _keeps_own(one, at, told, said) for one in rivals
    ):
        yield places[0]


def _keeps_own(person: str, at: int, told: Clauses, said: Clauses) -> bool:
    """Return whether a clause beside one of the text, in its sentence, has a word with a person
    that the source has with that person too."""
    own = frozenset[str]().union(*(said.words[one] for one in said.places[person])) - {person, NO}
    near = range(max(0, at - _NEAR), min(len(told.words), at + _NEAR + 1))
    return any(
        one != at
        and told.sentences[one] == told.sentences[at]
        and person in told.words[one]
        and not own.isdisjoint(told.words[one])
        for one in near
    )


def _count_both(one: str, other: str, said: Clauses) -> int:
    """Return how many sentences have two people."""
    return len(
        {said.sentences[at] for at in said.places[one]}
        & {said.sentences[at] for at in said.places[other]}
    )


def _people(words: Set[str], said: Clauses) -> set[str]:
    return {one for one in words if one == USER or one[:2] == "k:" or one in said.proper}


def _is_beside(person: str, at: int, said: Clauses) -> bool:
    near = range(max(0, at - _NEAR), min(len(said.words), at + _NEAR + 1))
    return any(
        said.sentences[one] == said.sentences[at] and person in said.words[one] for one in near
    )


def _renamed(told: Clauses, said: Clauses) -> Iterator[str]:
    """Yield the names with a title, or of a role, that the source has with other names only."""
    there = dict[str, list[str]]()
    for sentence in said.whole.values():
        for role, name in _names_in(sentence):
            there.setdefault(role, []).append(name)
    new = [
        (role, name)
        for sentence in told.whole.values()
        for role, name in _names_in(sentence)
        if there and role in there and name not in there[role]
    ]
    whole = "\n".join(said.whole.values()).casefold() if new else ""
    yield from (f"{there[role][-1]} ({name})" for role, name in new if name[:4] not in whole)


def _names_in(sentence: str) -> Iterator[tuple[str, str]]:
    for word, name in _NAMED.findall(sentence):
        role = class_of(word.casefold(), word) or word.casefold()
        if (role in _ROLES or role[:2] == "k:") and name.casefold() not in _ROLES:
            yield ("title" if role in TITLES else role), name.casefold()
    for name, title, prefix, own in _NAMED_WIDE.findall(sentence):
        yield title or prefix, (name + title) or (prefix + own)
