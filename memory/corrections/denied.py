"""Facts that a person ends without a new value: "I'm not vegetarian any more", "ich bin keine
Raucherin mehr", "我不吃素了". Pure.

The denial takes the place of the fact. Both sentences are about the person who speaks, or share a
word for the thing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from memory.corrections.classes import as_plain
from memory.corrections.frames import is_doubtful
from memory.corrections.pairs import BACK, ParsedMessage, ParsedSentence, ValuePair
from memory.corrections.sentences import content_words
from memory.patterns import lazy

_LONGEST = 300  # maximum characters of a message
_SENTENCES = 4  # of a message
_WORD = r"([^\W\d_\u3400-\u9fff]{4,24}(?:-[^\W\d_]{2,24})?)"
_DENIED = tuple(
    lazy(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:not\s(?:an?\s)?{_WORD}\s(?:any ?more|any longer))\b",
        rf"(?:\b(?:am|is|are)|['’](?:m|s|re))\s(no longer\s(?:an?\s)?{_WORD})\b",
        rf"\b(?:keine?n?\s{_WORD}\smehr)\b",
        rf"\b(?:bin|ist|sind)\s(?:[^\W\d_]{{2,12}}\s){{0,2}}?(nicht mehr\s{_WORD})\b",
        r"不再?是?([\u3400-\u9fff]{2,4}?)了(?=[，。！,.!\s]|$)",
    )
)
"""The last group of each is the fact, the first one or else the whole is its denial."""
_SPEAKER = lazy(r"\b(?:i|we|ich|wir|i['’]m|we['’]re)\b|我", re.IGNORECASE)


_MAY_DENY = lazy(r"\b(?:any ?more|any longer|no longer|mehr)\b|不[^，。]{1,6}了", re.IGNORECASE)


def may_deny(text: str) -> bool:
    """Return whether a message is short and may end a fact."""
    return len(text) <= _LONGEST and bool(_MAY_DENY.search(text))


def find_denied(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the denials in a message, each with the fact that it ends; `before` are the messages
    before it, newest first."""
    if len(said.text) > _LONGEST:
        return
    for sentence in said.sentences[:_SENTENCES]:
        if is_doubtful(sentence.text):
            continue
        for pattern in _DENIED:
            if found := pattern.search(sentence.text):
                fact = found[pattern.groups]
                place = _find_said(sentence, fact, before)
                denial = found.span(1) if found[1] != fact else found.span()
                if place:
                    back, source, start = place
                    old = as_plain(source.text, start, start + len(fact))
                    new = as_plain(sentence.text, *denial)
                    yield ValuePair(sentence, new, source, old, back, 0)
                break


def _find_said(
    sentence: ParsedSentence, fact: str, before: Sequence[ParsedMessage]
) -> tuple[int, ParsedSentence, int] | None:
    """Return the last place where a fact was told of the same person or thing."""
    fact = fact.casefold()
    for back, message in enumerate(before[:BACK]):
        if fact not in message.folded:
            continue
        for source in reversed(message.sentences):
            at = source.folded.find(fact)
            if at >= 0 and len(source.folded) == len(source.text):
                is_about = (source.words & sentence.words) - content_words(fact)
                speaks = all(_SPEAKER.search(one.text) for one in (source, sentence))
                return (back, source, at) if is_about or speaks else None
    return None
