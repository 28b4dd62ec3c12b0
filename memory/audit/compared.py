"""Comparisons that a summary turns round: "Ann is faster than Ben" for "Ben is faster than Ann", or
"cheaper" for "more expensive". Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from memory.audit.exchanged import USER, Clauses
from memory.audit.moved import unit_of
from memory.patterns import lazy
from memory.text.wording import is_wide

_MOST, _MOST_FOUND = 40, 4
_RARE = 12  # clauses with a thing whose price is looked up
_LEFT, _RIGHT = 60, 40  # characters on both sides
_OPPOSITES = """
faster quicker schneller 快 | slower langsamer 慢
dearer teurer 贵 | cheaper günstiger billiger 便宜
bigger larger greater größer 大 | smaller kleiner 小
older älter 老 | younger newer jünger neuer 年轻
longer länger 长 | shorter kürzer 短
higher taller höher 高 | lower niedriger tiefer 低 矮
better besser 好 强 | worse schlechter 差
heavier schwerer 重 | lighter leichter 轻
later später 晚 | earlier früher 早
more mehr 多 | less fewer weniger 少
farther further weiter 远 | nearer closer näher 近
warmer hotter wärmer 热 | colder cooler kälter 冷
stronger stärker | weaker schwächer 弱
harder schwieriger 难 | easier einfacher
"""
_WAY_OF = {
    word: (number, way)
    for number, line in enumerate(_OPPOSITES.strip().splitlines())
    for way, words in zip((1, -1), line.split(" | "), strict=True)
    for word in words.split()
}
_PRICE, _AMOUNT = _WAY_OF["cheaper"][0], _WAY_OF["more"][0]
_LATIN = "|".join(one for one in _WAY_OF if not is_wide(one))
_WIDE = "".join(one for one in _WAY_OF if len(one) == 1)
_THAN = lazy(
    rf"\b(?P<more>{_LATIN})(?P<what>(?: \w{{2,20}}){{0,3}}?) (?:than|als)\b"
    rf"|(?P<left>[\u4e00-\u9fffA-Za-z]{{1,12}})比(?P<right>[\u4e00-\u9fffA-Za-z]{{1,8}}?)(?:更|还|要|的\w{{1,4}})?"
    rf"(?P<wide>便宜|年轻|[{_WIDE}])"
    rf"|\b(?:is|was|are|lasts?|ist|war|sind|hält)\b(?P<how>[^,;:.!?]{{0,24}}?)\b(?P<alone>{_LATIN})(?=\s*(?:[,;.!?)]|$))",
    re.IGNORECASE,
)
_COSTS = lazy(r"\b(?:costs?|kostet|kosten)\s\Z", re.IGNORECASE)
_NO = lazy(r"\b(?:not?|n['’]t|nicht|kein\w*)\b|n['’]t\b|[不没]", re.IGNORECASE)
_NUMBER = lazy(r"\d{1,15}(?:\.\d{1,9})?")
_UNITS = {
    _WAY_OF[word][0]: lazy(rf"(?:{units})\Z", re.IGNORECASE)
    for word, units in (
        ("cheaper", "euros?|eur|dollars?|pounds?|usd|gbp|chf|[€$£¥元块]"),
        ("lighter", "kg|g|kilos?|gramm?s?|t|lbs?|斤|公斤|千克|克|吨"),
        (
            "longer",
            "h|hours?|stunden?|min|minuten?|minutes?|days?|tage?n?|years?|jahre?n?|小时|分钟|天",
        ),
        ("older", "years?|jahre?n?|岁|年"),
        ("warmer", "degrees?|grad|[°度]"),
    )
}
"""The units of what is compared; a number without one has that of its sentence."""


class ComparedSides(NamedTuple):
    """A comparison: its kind, its direction, the words of both sides, and the clause."""

    of: int
    way: int
    left: frozenset[str]
    right: frozenset[str]
    text: str


def list_compared(clauses: Clauses) -> list[ComparedSides]:
    """Return the comparisons in texts."""
    return [*islice(_read(clauses), _MOST)]


def find_turned_comparisons(
    told: Clauses, said: Clauses, known: Sequence[ComparedSides]
) -> list[str]:
    """Return the comparisons of the source that a text turns round, and those of the text that the
    prices in the source contradict."""
    found = dict[str, None]()
    for one in _read(told):
        like = [ones for ones in known if ones.of == one.of]
        same = [x for x in like if _is_like(one, x.left, x.right) and x.way == one.way]
        same += [x for x in like if _is_like(one, x.right, x.left) and x.way != one.way]
        turned = [x for x in like if _is_like(one, x.right, x.left) and x.way == one.way]
        turned += [x for x in like if _is_like(one, x.left, x.right) and x.way != one.way]
        if turned and not same:
            found[turned[0].text.strip()] = None
        elif one.right and not like and _is_wrong_value(one, said):
            found[one.text.strip()] = None
    return [*found][:_MOST_FOUND]


def _is_like(one: ComparedSides, left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether a comparison has one word of each of these sides on that side. What both
    compare may be a word of either side."""
    if not (left and right):  # "Ann is faster": than the other
        return bool(one.left & left - one.right or one.right & right - one.left)
    is_crossed = one.left & right - one.right and one.right & left - one.left
    return bool(one.left & left and one.right & right and not is_crossed)


def _read(clauses: Clauses) -> Iterator[ComparedSides]:
    for whole in clauses.sentences_with(_THAN):
        for found in islice(_THAN.finditer(whole), _MOST_FOUND):
            if found["wide"]:
                before, behind, word = found["left"], found["right"], found["wide"]
            else:
                before = whole[max(0, found.start() - _LEFT) : found.start()]
                before = re.split(r"[,;:.]\s", before)[-1]
                behind = re.split(r"[,;:.()]", whole[found.end() : found.end() + _RIGHT])[0]
                behind = "" if found["alone"] else behind
                word = (found["more"] or found["alone"]).casefold()
            of, way = _WAY_OF[word]
            is_of_price = "expensive" in (found["what"] or "") or _COSTS.search(before)
            denies = _NO.search(found["how"] or "")
            of = _PRICE if of == _AMOUNT and is_of_price else of
            if denies or _NO.search(before) or _NO.search(behind):
                continue
            left, right = clauses.key_words(before), clauses.key_words(behind)
            if left and (right or found["alone"]):
                yield ComparedSides(of, way, left, right, whole)


def _is_wrong_value(one: ComparedSides, said: Clauses) -> bool:
    """Return whether the source has values of both sides, and all the other way round."""
    units = _UNITS.get(one.of)
    if units is None:
        return False
    left, right = (
        [value for word in words - {USER} for value in _values(word, others, said, units)]
        for words, others in ((one.left - one.right, one.right), (one.right - one.left, one.left))
    )
    if not left or not right:
        return False
    return max(left) < min(right) if one.way > 0 else min(left) > max(right)


def _values(
    word: str, others: frozenset[str], said: Clauses, units: re.Pattern[str]
) -> Iterator[float]:
    """Yield the values in the clauses with a word, and without those of another thing."""
    places = said.places.get(word, ())
    for at in places if len(places) <= _RARE else ():
        for number in said.words[at] if not said.words[at] & others else ():
            if _NUMBER.fullmatch(number) and _is_in(units, number, said, at):
                yield float(number)


def _is_in(units: re.Pattern[str], number: str, said: Clauses, at: int) -> bool:
    """Return whether a number has one of these units, or has none, and its sentence has one."""
    if unit := unit_of(number, said.texts[at]):
        return units.search(unit) is not None
    near = (at - 1, at + 1)
    return any(
        said.sentences[one] == said.sentences[at] and units.search(unit_of(value, said.texts[one]))
        for one in near
        if 0 <= one < len(said.words)
        for value in said.words[one]
        if value[0].isdigit()
    )
