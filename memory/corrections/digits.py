"""Messages that correct one digit of a number: "the 2nd digit is 7", "最后一位是9". Pure.

The number is the latest one with enough digits, if no other one is equally near.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from memory.corrections.frames import is_doubtful
from memory.corrections.pairs import ParsedMessage, ParsedSentence, ValuePair
from memory.patterns import lazy
from memory.text.values import Value

_LEAST, _BACK = 3, 3  # digits of a number, and earlier messages that may have it
_ORDINALS = {
    word: place
    for place, words in enumerate(
        (
            "first 1st erste 第一",
            "second 2nd zweite 第二",
            "third 3rd dritte 第三",
            "fourth 4th vierte 第四",
            "fifth 5th fünfte 第五",
            "sixth 6th sechste 第六",
        )
    )
    for word in words.split()
} | dict.fromkeys(("last", "final", "letzte", "最后", "末尾", "最后一"), -1)
_DIGIT = lazy(
    r"\b(first|second|third|fourth|fifth|sixth|last|final|[1-6](?:st|nd|rd|th))\s(?:digit|number|figure)\s"
    r"(?:is|should be|must be|was|has to be)\s(?:an?\s)?(\d)\b(?!\d)"
    r"|\b(erste|zweite|dritte|vierte|fünfte|sechste|letzte)\s(?:ziffer|zahl|stelle)\s"
    r"(?:ist|muss|soll(?:te)?|war)\s(?:eine\s)?(\d)\b"
    r"|(第[一二三四五六]|最后一?|末尾)[位个](?:数字?|号码)?(?:应该?)?是(\d)(?!\d)",
    re.IGNORECASE,
)


def find_digits(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the number that a message corrects by one digit, with the old one; `before` are the
    messages before it, newest first."""
    for sentence in said.sentences:
        found = _DIGIT.search(sentence.text)
        if found is None or is_doubtful(sentence.text):
            continue
        ordinal, digit = (group for group in found.groups() if group)
        place = _ORDINALS[ordinal.casefold()]
        for back, message in enumerate(before[:_BACK]):
            olds = [*_list_numbers(message, place)]
            if olds and all(old.is_same(olds[0][1]) for _source, old in olds):
                source, old = olds[0]
                if new := _with_digit(old, place, digit):
                    start, end = found.span()
                    yield ValuePair(
                        sentence, replace(new, start=start, end=end), source, old, back, 0
                    )
            if olds:
                break


def _list_numbers(message: ParsedMessage, place: int) -> Iterator[tuple[ParsedSentence, Value]]:
    for source in message.sentences:
        for value in source.values:
            count = sum(map(str.isdigit, value.text))
            if value.kind in ("number", "identifier") and count >= max(_LEAST, place + 1):
                yield source, value


def _with_digit(old: Value, place: int, digit: str) -> Value | None:
    """Return a value with another digit at a position; None if it is the same."""
    at = [index for index, sign in enumerate(old.text) if sign.isdigit()][place]
    if old.text[at] == digit:
        return None
    text = old.text[:at] + digit + old.text[at + 1 :]
    return replace(old, text=text, forms=frozenset({text.casefold()}))
