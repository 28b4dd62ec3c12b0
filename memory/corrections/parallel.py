"""Parallel statements: sentences that differ in nothing but their subjects and values, and are each
about a thing of its own. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from memory.corrections.pairs import ParsedSentence, ValuePair
from memory.corrections.targets import part_of
from memory.patterns import lazy
from memory.text.values import Value

_UNIT = lazy(r"[^\W\d_\u3400-\u9fff]+|\d+|[\u3400-\u9fff]")
_PASSING = lazy(
    r"\b(?:and|but|now|still|just|then|only|already|actually|usually|even|und|aber|jetzt|nun|schon|"
    r"erst|nur|noch|immer|dann|eben|meist\w*|[dm]r|mrs|ms|prof|herrn?|frau)\b|"
    r"现在|其实|应该|已经|原来|目前|如今|刚才|不对|一般|通常|明明|也许|可能|大概|[也都就才只还改]",
    re.IGNORECASE,
)
"""Words that do not tell two statements apart."""


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_VAGUE = _set(
    "it its this that these those the a an he she they i there es er sie das dies der die den dem "
    "ein eine ich da 它 这 那 该 此 本 是"
)
"""Words for a thing that was named before."""
_HIS = _set("his her hers their theirs sein seine seinen ihr ihre ihren 他 她")
"""Words for a person who may have been named before."""
_MINE = _set("my mein meine meinen 我")
_OPENING = _MINE | _set(
    "the a an on in at for from to by his her their der die das den dem des ein eine am im an auf "
    "für ab bis vom zum zur sein seine ihr ihre"
)
"""Words before the first noun of a clause."""
_SPEAKERS = {
    **dict.fromkeys(("our", "your"), "my"),
    **dict.fromkeys(("unser", "dein"), "mein"),
    **dict.fromkeys(("unsere", "deine"), "meine"),
    **{"we": "i", "wir": "ich", "你": "我"},
}
"""Words of the person and of the bot for the same thing."""
_NAMES = frozenset(("name", "word"))
_SUBJECT = 3  # words, or Chinese characters, of a subject
_LONGEST = 120  # characters of a clause


def is_parallel(pair: ValuePair) -> bool:
    """Return whether the clauses of the two values differ in nothing but their subjects and values:
    "the late shift starts at 14:00" is not about the early shift, nor "on Tuesday I work until 3"
    about Monday."""
    if pair.back < 0:
        return False
    here, there = _divide(pair.sentence, pair.new), _divide(pair.source, pair.old)
    if here is None or there is None:
        return False
    (before, after), (then, behind) = here, there
    if _OPENING.issuperset(before) and _OPENING.issuperset(then):
        return after != behind and _mask(after) == _mask(behind)
    same = _count_same(reversed(before), reversed(then))
    own, other = before[: len(before) - same], then[: len(then) - same]
    lead = _count_same(own, other)
    if not _OPENING.issuperset(own[:lead]):
        return False
    own, other = own[lead:], other[lead:]
    if not same or not own or not other or max(len(own), len(other)) > _SUBJECT:
        return False
    return _mask(after) == _mask(behind) and not _may_be_same(own, other)


def _may_be_same(own: list[str], other: list[str]) -> bool:
    """Return whether two subjects may be words for one thing: a pronoun, or a part of a
    compound."""
    if not (_VAGUE.isdisjoint(own) and _VAGUE.isdisjoint(other)):
        return True
    if _HIS.isdisjoint(own) != _HIS.isdisjoint(other) and _MINE.isdisjoint({*own, *other}):
        return True
    return own[-1].endswith(other[-1]) or other[-1].endswith(own[-1])


def _divide(source: ParsedSentence, value: Value) -> tuple[list[str], list[str]] | None:
    """Return the words and values of a value's clause before and behind the value."""
    start, end = part_of(source.text, value)
    if end - start > _LONGEST:
        return None
    others = [one for one in source.values if one is not value and one.kind not in _NAMES]
    before = _list_units(source.text, start, value.start, others)
    return before, _list_units(source.text, value.end, end, others)


def _list_units(text: str, start: int, end: int, values: list[Value]) -> list[str]:
    """Return the words of a part of a text in lower case, and its values, each behind a "<"."""
    units, at = [], start
    for one in values:
        if at <= one.start and one.end <= end:
            units += [*_list_words(text[at : one.start]), f"<{one.kind} {one.text}"]
            at = one.end
    return units + _list_words(text[at:end])


def _list_words(text: str) -> list[str]:
    words = _UNIT.findall(_PASSING.sub(" ", text).casefold())
    return [_SPEAKERS.get(word, word) for word in words]


def _mask(units: Iterable[str]) -> list[str]:
    """Return the units with each value replaced by its kind."""
    return [one.split()[0] if one.startswith("<") else one for one in units]


def _count_same(ones: Iterable[str], others: Iterable[str]) -> int:
    """Return the number of equal words at the beginning."""
    count = 0
    for one, other in zip(ones, others, strict=False):
        if one != other:
            break
        count += 1
    return count
