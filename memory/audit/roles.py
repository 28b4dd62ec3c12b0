"""Deeds between two people of which a summary exchanges who did it and to whom: "Petra asked me",
"the user asked Petra"; and things that it gives to another person: "Sam cleans" where the source
says "Sam carries the boxes, I clean". Pure.

A clause of the text with one person and some words is compared with all clauses of the source that
have these words. If each of these has other people only, and the person of the text is beside them
with something else, the text has moved the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple

from memory.audit.classes import class_of
from memory.audit.exchanged import NO, USER, Clauses
from memory.audit.moved import unit_of
from memory.patterns import lazy
from memory.text.wording import is_wide, split_sentences

_USER, _BOT, _SOMEBODY = "@user", "@bot", "@somebody"
_MOST_FOUND = 4
_LONGEST = 400  # characters of a sentence that are searched
_VERBS = """
ask: asks?|asked|requested|begged / gefragt|gebeten / fragte?|bat|bittet
tell: told|tells|informed|warned / gesagt|informiert|gewarnt / sagte?|warnte?
give: gave|gives|lent|lends|handed|sent|sends|paid|pays / gegeben|geliehen|gezahlt / gab|gibt
owe: owes?|owed / geschuldet / schuldet
invite: invite[sd]?|visit(?:s|ed)|helped|called / eingeladen|besucht|angerufen / besuchte?
offer: offer(?:s|ed)|promise[sd] / angeboten|versprochen / verspricht|versprach
"""
_NAME = r"(?:(?:Mr|Mrs|Ms|Dr|Herrn?|Frau)\.?\s)?[A-ZÄÖÜ][\w'’-]{1,30}"
_ONE = rf"(?:[Tt]he user|[Uu]ser|I|we|We|you|You|he|He|she|She|they|They|{_NAME})"
_OTHER = rf"(?:the user|user|me|us|you|him|her|them|{_NAME})"
_EINER = rf"(?:[Dd](?:er|ie) {_NAME}|[Ii]ch|[Ww]ir|[Dd]u|[Ee]r|[Ss]ie|{_NAME})"
_ANDERER = rf"(?:de[nmr] {_NAME}|mich|mir|uns|dich|dir|Sie|Ihnen|ihn|ihm|sie|ihr|{_NAME})"
_ADVERBS = r"(?:\s(?:has|have|had|already|just|also|again)){0,2}"
_BETWEEN = r"(?:\s[^\s.,;:!?]{1,24}){0,7}?"
_JEMAND = r"(?:用户|我|你|您|[他她]|[^\s，。；、：的了请问借欠我你您他她]{2,4})"
_WEN = r"(?:用户|我|你|您|[他她]|[^\s，。；、：的了帮]{2,3})"


def _list_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for line in _VERBS.strip().splitlines():
        verb, _, forms = line.partition(": ")
        english, done, past = forms.split(" / ")
        yield verb, lazy(rf"\b({_ONE}){_ADVERBS}\s(?:{english})\s({_OTHER})\b")
        has = rf"\b({_EINER})\s(?:hat|habe|haben|hatten?)\s({_ANDERER})"
        yield verb, lazy(rf"{has}{_BETWEEN}\s(?:{done})\b")
        yield verb, lazy(rf"\b({_EINER})\s(?:{past})\s({_ANDERER})\b")


def _list_wide_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    yield "ask", lazy(rf"({_JEMAND})(?:也|又|还|已经)?[请问]({_WEN})")
    yield "give", lazy(rf"({_JEMAND})(?:也|又|还|已经)?(?:借给|欠|交给)了?({_WEN})")


_PATTERNS, _WIDE_PATTERNS = tuple(_list_patterns()), tuple(_list_wide_patterns())
_FORMS = "|".join(
    line.partition(": ")[2].replace(" / ", "|") for line in _VERBS.strip().split("\n")
)
_ANY = lazy(rf"\b(?:{_FORMS})\b|[请问]|借给|欠|交给")
"""The words of which each deed has one."""
_OF_USER = re.compile(r"(?:(?:the|de[rnm]|die) )?(?:user|nutzer(?:in)?)\Z|用户\Z")
_I = "i we me us ich wir mich mir uns 我"
_THEY = "he she they him her them er ihn ihm ihr 他 她"
_FIRST, _THIRD = frozenset(_I.split()), frozenset(_THEY.split())
_SECOND = frozenset(["you", "du", "dich", "dir", "ihnen", "你", "您"])


class TwoSided(NamedTuple):
    """A deed of somebody to somebody else, and its sentence."""

    verb: str
    by: str
    to: str
    text: str


def list_deeds(asked: Sequence[str], answered: Sequence[str]) -> list[TwoSided]:
    """Return the deeds between two people in a person's messages and in replies."""
    return [*_find(asked, _USER, _BOT), *_find(answered, _BOT, _USER)]


def find_exchanged_roles(text: str, said: Sequence[TwoSided]) -> list[str]:
    """Return the sentences of the source whose deeds a text tells the other way round."""
    told = [*_find([text], "", "")] if said else []
    found = dict[str, None]()
    for deed in told:
        if deed.by == deed.to or _SOMEBODY in (deed.by, deed.to):
            continue
        of_verb = [one for one in said if one.verb == deed.verb]
        if any(_is_like(one, deed.by, deed.to) for one in of_verb):
            continue
        found |= dict.fromkeys(one.text for one in of_verb if _is_like(one, deed.to, deed.by))
    return [*found][:_MOST_FOUND]


def _is_like(one: TwoSided, by: str, to: str) -> bool:
    """Return whether a deed is between these two. A pronoun is somebody whom its sentence names."""
    names = one.text.casefold()
    is_by = by.startswith(one.by) or (one.by == _SOMEBODY and by in names)
    is_to = one.to.startswith(to) or to.startswith(one.to) or (one.to == _SOMEBODY and to in names)
    return is_by and is_to


def _find(texts: Iterable[str], first: str, second: str) -> Iterator[TwoSided]:
    for text in texts:
        for sentence in split_sentences(text) if _ANY.search(text) else ():
            if not _ANY.search(sentence):
                continue
            for verb, pattern in _WIDE_PATTERNS if is_wide(sentence) else _PATTERNS:
                for found in pattern.finditer(sentence[:_LONGEST]):
                    by, to = (_who(one, first, second) for one in found.groups())
                    yield TwoSided(verb, by, to, sentence)


def _who(word: str, first: str, second: str) -> str:
    folded = word.casefold()
    if _OF_USER.match(folded):
        return _USER
    if folded in _FIRST:
        return first or _USER
    if folded in _SECOND or word == "Sie":
        return second or _SOMEBODY
    return _SOMEBODY if folded in _THIRD else folded.split()[-1]


_RARE = 8  # maximum of clauses of the source with a word that is looked up
_MOST_WORDS = 8  # maximum of words of a clause of the text
_ALIKE = 0.6  # the share of the words that a clause of the source has
_LEAST = 2  # of them
_DAYS = 32
_BESIDE = 2  # clauses
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
        if len(people) != 1 or not rest or len(words) > _MOST_WORDS or NO in words:
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
