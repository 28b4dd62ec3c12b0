"""Deeds between two people of which a summary exchanges who did it and to whom: "Petra asked me",
"the user asked Petra". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

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
