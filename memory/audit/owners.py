"""Things that a summary gives to another person than the source does: "Sam cleans" where the source
says "Sam carries the boxes, I clean". Pure.

A clause of the text with one person and some words is compared with all clauses of the source that
have these words. If each of these has other people only, and the person of the text is beside them
with something else, the text has moved the words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from memory.audit.classes import class_of
from memory.audit.exchanged import NO, USER, Clauses
from memory.audit.moved import unit_of
from memory.patterns import lazy
from memory.text.wording import is_wide

_RARE = 8  # maximum of clauses of the source with a word that is looked up
_LONGEST = 8  # maximum of words of a clause of the text
_ALIKE = 0.6  # the share of the words that a clause of the source has
_LEAST = 2  # of them
_DAYS = 32
_BESIDE = 2  # clauses
_MOST_FOUND = 4
_BRACKETS = lazy(r"\s?[(（][^()（）\d]{1,30}[)）]")


def find_other_owners(text: str, said: Clauses) -> list[str]:
    """Return the clauses of the source whose words a text gives to somebody else."""
    if said.is_turned_round:
        return []
    told = Clauses([_BRACKETS.sub("", text)])
    found = dict[str, None]()
    for at, words in enumerate(told.words):
        people = _people(words, said, told)
        rest = words - people - {NO, USER}
        if len(people) != 1 or not rest or len(words) > _LONGEST or NO in words:
            continue
        (person,) = people
        for place in _places_of_values(person, at, told, said):
            found[said.texts[place].strip()] = None
        for place in _places_of_others(person, rest, told.words_of_sentence(at), said):
            found[said.texts[place].strip()] = None
    return [*found][:_MOST_FOUND]


def _people(words: Set[str], said: Clauses, told: Clauses) -> set[str]:
    """Return the people among words: names within sentences, and the person."""
    return {
        one
        for one in words
        if one == USER or (one in said.proper and not one[0].isdigit() and not is_wide(one))
    }


def _places_of_others(
    person: str, rest: Set[str], beside: Set[str], said: Clauses
) -> Iterator[int]:
    """Yield the places of the clauses that have the words, each of other people only, if the person
    is beside one of them."""
    known = [one for one in rest if 0 < len(said.places.get(one, ())) <= _RARE]
    if len(known) < len(rest) * _ALIKE:
        return
    places = {at for one in known for at in said.places[one]}
    most = max(_count(known, said, at) for at in places)
    like = [at for at in places if _count(known, said, at) == most]
    if most < max(_LEAST, len(rest) * _ALIKE) or any(
        person in said.words[at] for one in known for at in said.places[one]
    ):
        return
    others = [at for at in like if _people(said.words[at], said, said) - {person}]
    if len(others) < len(like) or not any(_is_beside(person, at, said) for at in others):
        return
    yield from others[:1]


def _places_of_values(person: str, at: int, told: Clauses, said: Clauses) -> Iterator[int]:
    """Yield the places of the clauses with a value that the text gives to this person, if the
    source gives it to others alone, and gives the person another one of its kind."""
    own = said.places.get(person, ())
    if person == USER or len(own) > _RARE:
        return
    for value in (one for one in told.words[at] if one[0].isdigit()):
        kind = _kind_of(value, told, at)
        places = [one for one in said.places.get(value, ()) if _kind_of(value, said, one) == kind]
        if not kind or not places or len(said.places[value]) > _RARE:
            continue
        others = [_people(said.words[one], said, said) - {USER} for one in places]
        has_another = any(
            other != value and _kind_of(other, said, one) == kind
            for one in own
            for other in said.words[one]
            if other[0].isdigit()
        )
        are_apart = not any(said.words[one] & other for one in own for other in others)
        if has_another and all(others) and not any(person in one for one in others) and are_apart:
            yield places[0]


def _kind_of(value: str, clauses: Clauses, at: int) -> str:
    """Return the kind of a value: a date, or its unit; "" if it has none."""
    kind = unit_of(value, clauses.texts[at])
    is_of_month = not kind or class_of(kind.split()[-1], kind).startswith("m:")
    if is_of_month and value.isdigit() and int(value) < _DAYS:
        kind = "date" if any(one.startswith("m:") for one in clauses.words[at]) else ""
    return kind


def _count(known: Sequence[str], said: Clauses, at: int) -> int:
    """Return how many words of a text a clause has, without numbers."""
    return sum(one in said.words[at] and not one[0].isdigit() for one in known)


def _is_beside(person: str, at: int, said: Clauses) -> bool:
    """Return whether a clause beside one of the source, in its sentence, has a person."""
    return any(
        0 <= near < len(said.words)
        and said.sentences[near] == said.sentences[at]
        and person in said.words[near]
        for near in range(at - _BESIDE, at + _BESIDE + 1)
    )
