"""Deeds between two people of which a summary exchanges who did it and to whom: "Petra asked me",
"the user asked Petra". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from memory.context.wording import split_sentences
from memory.patterns import lazy

_USER, _BOT, _SOMEBODY = "@user", "@bot", "@somebody"
_MOST_FOUND = 4
_VERBS = (
    ("ask", r"ask(?:s|ed)?|request(?:s|ed)?|beg(?:s|ged)?", "gefragt|gebeten", "frag(?:te?|en)|bat|bittet"),
    ("tell", r"told|tells|informed|warned", "gesagt|informiert|gewarnt", "sagte?|warnte?"),
    ("give", r"gave|gives|lent|lends|handed|sent|sends|paid|pays", "gegeben|geliehen|geschickt|bezahlt", "gab|gibt|schickte?"),
    ("owe", r"owes?|owed", "geschuldet", "schuldet"),
    ("invite", r"invite[sd]?|visit(?:s|ed)|help(?:s|ed)?|call(?:s|ed)", "eingeladen|besucht|angerufen", "besuchte?"),
    ("offer", r"offer(?:s|ed)|promise[sd]|suggest(?:s|ed)(?: \w+ing)?(?: \w+){0,2} to", "angeboten|versprochen", "bot|verspricht|versprach"),
)
_NAME = r"(?:(?:Mr|Mrs|Ms|Dr|Herrn?|Frau)\.?\s)?[A-ZÄÖÜ][\w'’-]{1,30}"
_ONE = rf"(?:[Tt]he user|[Uu]ser|I|we|We|you|You|he|He|she|She|they|They|{_NAME})"
_OTHER = rf"(?:the user|user|me|us|you|him|her|them|{_NAME})"
_EINER = rf"(?:(?:[Dd]er|[Dd]ie) Nutzer(?:in)?|[Ii]ch|[Ww]ir|[Dd]u|Sie|[Ee]r|[Ss]ie|{_NAME})"
_ANDERER = rf"(?:de[nmr] Nutzer(?:in)?|mich|mir|uns|dich|dir|Sie|Ihnen|ihn|ihm|sie|ihr|{_NAME})"
_BETWEEN = r"(?:\s[^\s.,;:!?]{1,24}){0,7}?"
_JEMAND, _WEN = r"(?:用户|我|你|您|[他她]|[^\s，。；、：的了请问借欠我你您他她]{2,4})", r"(?:用户|我|你|您|[他她]|[^\s，。；、：的了帮]{2,3})"
_PATTERNS = (
    *((name, lazy(rf"\b({_ONE})(?:\s(?:has|have|had|already|just|also|again)){{0,2}}\s(?:{en})\s({_OTHER})\b")) for name, en, *_ in _VERBS),
    *((name, lazy(rf"\b({_EINER})\s(?:hat|habe|haben|hatten?)\s({_ANDERER}){_BETWEEN}\s(?:{done})\b")) for name, _, done, _ in _VERBS),
    *((name, lazy(rf"\b({_EINER})\s(?:{past})\s({_ANDERER})\b")) for name, _, _, past in _VERBS),
    ("ask", lazy(rf"({_JEMAND})(?:也|又|还|已经)?[请问]({_WEN})")),
    ("give", lazy(rf"({_JEMAND})(?:也|又|还|已经)?(?:借给|欠|交给)了?({_WEN})")),
)
_OF_USER = re.compile(r"(?:(?:the|de[rnm]|die) )?(?:user|nutzer(?:in)?)\Z|用户\Z")
_FIRST = frozenset("i we me us ich wir mich mir uns 我".split())
_SECOND = frozenset("you du dich dir ihnen 你 您".split())
_THIRD = frozenset("he she they him her them er ihn ihm ihr 他 她".split())


class _Deed(NamedTuple):
    verb: str
    by: str
    to: str
    text: str


def find_exchanged_roles(text: str, asked: Sequence[str], answered: Sequence[str]) -> list[str]:
    """Return the sentences of the source whose deeds a text tells the other way round."""
    told = [*_find([text], "", "")]
    if not told:
        return []
    said = [*_find(asked, _USER, _BOT), *_find(answered, _BOT, _USER)]
    found = dict[str, None]()
    for deed in told:
        if deed.by == deed.to or _SOMEBODY in (deed.by, deed.to):
            continue
        of_verb = [one for one in said if one.verb == deed.verb]
        if any(_is_like(one, deed.by, deed.to) for one in of_verb):
            continue
        found |= dict.fromkeys(one.text for one in of_verb if _is_like(one, deed.to, deed.by))
    return [*found][:_MOST_FOUND]


def _is_like(one: _Deed, by: str, to: str) -> bool:
    """Return whether a deed is between these two. A pronoun is somebody whom its sentence names."""
    names = one.text.casefold()
    is_by = by.startswith(one.by) or (one.by == _SOMEBODY and by in names)
    is_to = one.to.startswith(to) or to.startswith(one.to) or (one.to == _SOMEBODY and to in names)
    return is_by and is_to


def _find(texts: Iterable[str], first: str, second: str) -> Iterator[_Deed]:
    for text in texts:
        for sentence in split_sentences(text):
            for verb, pattern in _PATTERNS:
                for found in pattern.finditer(sentence):
                    by, to = (_who(one, first, second) for one in found.groups())
                    yield _Deed(verb, by, to, sentence)


def _who(word: str, first: str, second: str) -> str:
    folded = word.casefold()
    if _OF_USER.match(folded):
        return _USER
    if folded in _FIRST:
        return first or _USER
    if folded in _SECOND or word == "Sie":
        return second or _SOMEBODY
    return _SOMEBODY if folded in _THIRD else folded.split()[-1]
