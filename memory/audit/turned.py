"""Limits, choices, comparisons, orders of two things and roles that a summary turns round: "after 5
pm" for "before 5 pm", "B instead of A", "cheaper" for "more expensive", "first B, then A". Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import islice, pairwise, product
from typing import NamedTuple

from memory.audit.classes import CLASSES, class_of
from memory.audit.exchanged import NO, USER, Clauses
from memory.audit.moved import unit_of
from memory.patterns import lazy
from memory.text.wording import is_wide

_MOST_FOUND = 4
_BELOW, _ABOVE = -1, 1
_DOWN = (
    r"before|until|till|by|at most|up to|max(?:imum|\.)?|no more than|less than|fewer than"
    r"|below|under"
    r"|vor|bis(?: zu[mr]?)?|höchstens|maximal|weniger als|unter"
)
_UP = (
    r"after|since|from|at least|min(?:imum|\.)?|no less than|more than|over|above"
    r"|nach|ab|seit|mindestens|wenigstens|mehr als|über"
)
_LATIN = lazy(
    rf"\b(?:(?P<down>{_DOWN})|(?P<up>{_UP}))\s(?:(?:the|dem|der|den|about|etwa)\s)?"
    r"(?P<what>\d{1,9}(?:[.,:]\d{1,6}){0,3}|[^\W\d_]{3,10})",
    re.IGNORECASE,
)
_WIDE = lazy(
    r"(?:(?P<down>最多|不超过|低于|少于|至多)|(?P<up>至少|超过|高于|多于|不少于|不低于))"
    r"(?P<what>\d{1,9}(?:[.,:]\d{1,6}){0,3})"
    r"|(?<![\d.,:])(?P<what2>\d{1,9}(?:[.,:]\d{1,6}){0,3})[^\d，。；\s]{0,3}?(?:(?P<down2>之?前|以前|以内|以下)|(?P<up2>之?后|以后|以上))"
)

_IF = lazy(
    r"\b(?:if|when|whenever|wenn|falls|sobald|off|cancel\w{0,6})\b|如果|若|一旦", re.IGNORECASE
)


_Key = tuple[str, bool]


class Bound(NamedTuple):
    """A limit: its number or day, whether its clause denies something, and its side."""

    what: str
    is_denied: bool
    way: int
    words: frozenset[str]
    text: str


def find_turned_bounds(told: Clauses, said: Mapping[_Key, Sequence[Bound]]) -> list[str]:
    """Return the clauses of a text with a limit that the source has as the opposite one."""
    found = dict[str, None]()
    for one in (one for bounds in list_bounds(told).values() for one in bounds):
        known = said.get((one.what, one.is_denied), ())
        like = [x for x in known if len(x.words & one.words) > 1]
        about = [x for x in like if x.way != one.way and (USER in x.words or USER not in one.words)]
        if about and len(about) == len(like):
            found[one.text.strip()] = None
    return [*found][:_MOST_FOUND]


def list_bounds(clauses: Clauses) -> dict[_Key, list[Bound]]:
    """Return the limits in texts by what they limit, and by whether a clause denies something."""
    found = defaultdict[_Key, list[Bound]](list)
    for one in _read_bounds(clauses):
        found[one.what, one.is_denied].append(one)
    return found


def _read_bounds(clauses: Clauses) -> Iterator[Bound]:
    for text, words in zip(clauses.texts, clauses.words, strict=True):
        is_counted = any(one[0].isdigit() or one[:2] in CLASSES for one in words)
        if not is_counted or _IF.search(text):
            continue
        for found in (*_LATIN.finditer(text), *_WIDE.finditer(text)):
            groups = found.groupdict()
            what = groups["what"] or groups["what2"]
            if not what[0].isdigit():
                what = class_of(what.casefold(), what)
            if what:
                is_down = groups["down"] or groups.get("down2")
                is_denied = NO in words and not found[0].casefold().startswith(("no ", "不"))
                yield Bound(what, is_denied, _BELOW if is_down else _ABOVE, words, text)


_LONG = 20  # words of a clause that states no choice
_SHORT = 2  # words of a clause that needs the one beside it
_WITHOUT = lazy(r"\b(?:ohne|without)\b", re.IGNORECASE)
_FIRST = lazy(
    r"\b(?:first|erst|zuerst)\s+([^,;.]{1,60}),?\s+(?:and\s+|und\s+)?(?:then|dann|danach)\s+([^,;.]{1,60})"
    r"|先([^，。；]{1,20}?)(?:，?[再后]|，?然后)([^，。；]{1,20})"
    r"|(?:\bfrom |\bvon |从)(\d[\w.,]{0,12})\s?(?:to|auf|bis|in|[到至])\s?(\d[\w.,]{0,12})"
    r"|(\d[\w.,]{0,12})\s?(?:->|→)\s?(\d[\w.,]{0,12})",
    re.IGNORECASE,
)


class _Sides(NamedTuple):
    """The words of a sentence that it affirms, and those that it denies; or those of what comes
    first, and of what comes then."""

    some: frozenset[str]
    others: frozenset[str]
    text: str


class Turnable:
    """The choices and the orders of two things in texts."""

    def __init__(self, clauses: Clauses) -> None:
        self.clauses = clauses
        self.of_each = [[*_list_denied(clauses)], [*_list_ordered(clauses)]]
        self._by_word = [defaultdict[str, list[_Sides]](list) for _ in self.of_each]
        for sides, by_word in zip(self.of_each, self._by_word, strict=True):
            for one in sides:
                for word in one.some:
                    by_word[word].append(one)

    def find_turned(self, told: Clauses) -> list[str]:
        """Return the sentences of these texts that another one turns round."""
        if self.clauses.is_turned_round:
            return []
        found = dict[str, None]()
        for sides, by_word in zip(Turnable(told).of_each, self._by_word, strict=True):
            for mine in sides:
                for first, second in product(mine.some, mine.others):
                    theirs = [one for one in by_word.get(second, ()) if first in one.others]
                    if theirs and not any(second in one.others for one in by_word.get(first, ())):
                        found[theirs[0].text.strip()] = None
        return [*found][:_MOST_FOUND]


def _list_denied(clauses: Clauses) -> Iterator[_Sides]:
    """Yield the sentences with clauses that deny something, and others that do not."""
    for places in clauses.by_sentence():
        for at, then in pairwise(places):
            if clauses.is_joined[then] or (NO in clauses.words[at]) is (NO in clauses.words[then]):
                continue
            denied, other = (at, then) if NO in clauses.words[at] else (then, at)
            no, yes = clauses.words[denied] - {NO}, clauses.words[other]
            if no != {USER} and USER in no:
                no, yes = no - {USER}, yes - {USER}
            elif USER in no:  # "Jens does, not I": "my" on the other side is nobody
                yes = yes - {USER}
            is_short = min(map(_count, (no, yes))) <= _SHORT
            if max(len(no), len(yes)) > _LONG:
                continue
            if (is_short or no & yes) and not _WITHOUT.search(clauses.texts[denied]):
                yield _Sides(yes - no, no - yes, clauses.texts[denied])


def _count(words: Set[str]) -> float:
    """Return the number of words; in Chinese, of pairs of characters, each two words' worth."""
    return sum(1 if one.isascii() or not is_wide(one) else 0.5 for one in words)


def _list_ordered(clauses: Clauses) -> Iterator[_Sides]:
    for whole in clauses.sentences_with(_FIRST):
        for found in _FIRST.finditer(whole):
            first, then = (one for one in found.groups() if one)
            one, two = clauses.key_words(first), clauses.key_words(then)
            if one - two and two - one:
                yield _Sides(one - two, two - one, found[0])


_MOST = 40
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
_LATIN_WAYS = "|".join(one for one in _WAY_OF if not is_wide(one))
_WIDE_WAYS = "".join(one for one in _WAY_OF if len(one) == 1)
_THAN = lazy(
    rf"\b(?P<more>{_LATIN_WAYS})(?P<what>(?: \w{{2,20}}){{0,3}}?) (?:than|als)\b"
    rf"|(?P<left>[\u4e00-\u9fffA-Za-z]{{1,12}})比(?P<right>[\u4e00-\u9fffA-Za-z]{{1,8}}?)(?:更|还|要|的\w{{1,4}})?"
    rf"(?P<wide>便宜|年轻|[{_WIDE_WAYS}])"
    rf"|\b(?:is|was|are|lasts?|ist|war|sind|hält)\b(?P<how>[^,;:.!?]{{0,24}}?)\b(?P<alone>{_LATIN_WAYS})(?=\s*(?:[,;.!?)]|$))",
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
