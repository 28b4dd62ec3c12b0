"""Numbers of a summary that its source has in another form: in words, in another unit, as the sum
of two, or with other separators between its digits; and dates: in a range ("5 to 7 June"), in two
sentences, or relative to another date. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property

from memory.patterns import lazy
from memory.text.names import MONTH_OF
from memory.text.numbers import NUMBER_WORDS, read_numeral
from memory.text.wording import split_sentences

_SCALES = (1_000, 10_000)
_LEAST_SUM = 100  # a smaller one is often the sum of two others by chance
_MOST_SUMMED = 24  # numbers of a message that are added in pairs
_LONGEST = 30  # digits of a number that may be a slip
_DIGITS = lazy(r"\d+")
_NUMBER = lazy(r"\d+(?:[.,]\d{3})*(?:[.,]\d{1,2}(?!\d))?|\d+")
_CODE = lazy(r"(?<!\d)\d+(?:[-/]\d+)+")
_WORD = lazy(r"[^\W\d_]{3,18}(?:[- ](?:one|two|three|four|five|six|seven|eight|nine)\b)?")
_NUMERAL = lazy(r"[一二两三四五六七八九十百千万零]{1,8}")
_PARTS_OF_HOURS = lazy(r"\b(?:half past|quarter|halb|viertel|dreiviertel)\b|点半|刻")
_TIMES = lazy(r"(?<!\d)(\d{1,2}):(\d\d)(?!\d)")
_QUARTERS = frozenset(("00", "15", "30", "45"))


class MentionedNumbers:
    """The numbers in texts."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def has(self, number: str) -> bool:
        """Return whether these texts have a number, a date, a time or an identifier in another
        notation or in words, or numbers that it follows from."""
        groups = _DIGITS.findall(number)
        if groups and all(self._has_group(one) for one in groups):
            return True
        if times := _TIMES.findall(number):
            return all(self._has_hour(int(hour)) and self._has_minute(m) for hour, m in times)
        if re.search(r"[^\W\d_]-?\d|\d[^\W\d_]", number):
            return False
        return any(self._follows(value) for value in read(number))

    def find_like(self, number: str) -> str:
        """Return the number in these texts that another one may be a slip of: the same digits in
        another order, or one digit changed; "" if there is none."""
        digits = "".join(_DIGITS.findall(number))
        found = (one for key in _keys(digits) for one in self._by_key.get(key, ()))
        return next((one for one in found if one != digits), "")

    def _has_hour(self, hour: int) -> bool:
        """Return whether the texts have an hour, in the 24-hour or 12-hour clock."""
        return any(self._has_group(str(one)) for one in (hour, hour % 12, hour % 12 + 12))

    def _has_minute(self, minute: str) -> bool:
        return self._has_group(minute) or (self._mentions_quarters and minute in _QUARTERS)

    def _has_group(self, digits: str) -> bool:
        return digits.lstrip("0") in self._groups or int(digits) in self._in_words

    def _follows(self, value: float) -> bool:
        known = self._values
        if value in known or value in self._in_words:
            return True
        if any(value * scale in known or value / scale in known for scale in _SCALES):
            return True
        return value >= _LEAST_SUM and round(value, 2) in self._sums

    @cached_property
    def _groups(self) -> Set[str]:
        return {one.lstrip("0") for text in self._texts for one in _DIGITS.findall(text)} | {""}

    @cached_property
    def _long(self) -> Set[str]:
        found = {"".join(_DIGITS.findall(one)) for text in self._texts for one in _find(text)}
        found |= {"".join(_DIGITS.findall(one)) for t in self._texts for one in _CODE.findall(t)}
        return {one for one in found if len(one) > 1} | {g for g in self._groups if len(g) > 2}

    @cached_property
    def _by_key(self) -> Mapping[str, Sequence[str]]:
        """At most two numbers for each key: one of them may be the number that is looked up."""
        found: dict[str, list[str]] = {}
        for one in sorted(self._long):
            for key in _keys(one):
                known = found.setdefault(key, [])
                if len(known) < 2:
                    known.append(one)
        return found

    @cached_property
    def _values(self) -> Set[float]:
        return {value for text in self._texts for one in _find(text) for value in read(one)}

    @cached_property
    def _sums(self) -> Set[float]:
        found = set[float]()
        for text in self._texts:
            some = list(dict.fromkeys(v for one in _find(text) for v in read(one)))[:_MOST_SUMMED]
            for at, a in enumerate(some):
                for b in some[at + 1 :]:
                    found.update((round(a + b, 2), round(abs(a - b), 2), round(a * b, 2)))
        return found

    @cached_property
    def _in_words(self) -> Set[int]:
        found = set[int]()
        for text in self._texts:
            folded = text.casefold()
            words = set(_WORD.findall(folded))
            found |= {NUMBER_WORDS[word] for word in words if word in NUMBER_WORDS}
            found |= {MONTH_OF[word] for word in words if word in MONTH_OF}
            if not text.isascii():
                found |= {read_numeral(one) for one in _NUMERAL.findall(text)}
        return found

    @cached_property
    def _mentions_quarters(self) -> bool:
        return any(_PARTS_OF_HOURS.search(text.casefold()) for text in self._texts)


def read(number: str) -> Iterator[float]:
    """Yield the values that a number may have: the thousands separator of one country is the
    decimal separator of another."""
    for found in _find(number):
        bare = found.replace(",", "")
        readings = {bare, found.replace(".", "").replace(",", ".")}
        for one in readings:
            if one.count(".") <= 1:
                yield float(one)


def _find(text: str) -> list[str]:
    return _NUMBER.findall(text)


def _keys(digits: str) -> Iterator[str]:
    """Yield the keys that a number shares with those that have its digits in another order, or
    differ in one digit of three or more."""
    if not 1 < len(digits) <= _LONGEST:
        return
    yield "".join(sorted(digits))
    for at in range(len(digits)) if len(digits) > 2 else ():
        yield f"{digits[:at]}?{digits[at + 1 :]}"


_MOST_AFTER = 15  # the maximum distance of a relative date, in days
_MONTH_WORD = lazy(r"[^\W\d_]{3,9}")
_NAMES = "|".join(MONTH_OF)
_DAY_IN = lazy(
    r"(?<!\d)(\d{1,2})(?:[日号]|(?:st|nd|rd|th|\.)?(?=\s?(?:$|[-–—,;:.!?)/&(+到至和、，。]"
    rf"|(?:to|and|bis|und|or|oder|through|until|of|at|um|from|{_NAMES})\b)))"
    rf"|\b(?:{_NAMES})\.?\s(\d{{1,2}})(?!\d)",
)
"""A number that may be a day in a sentence with a month, because it counts no word."""
_MONTH = lazy(
    r"(?<!\d)(\d{1,2})月|\d\.\s?(\d{1,2})\.|(?<!\d)\d{4}-(\d{1,2})-\d|\d/(\d{1,2})\b|\b(\d{1,2})/\d"
)
_DAY = lazy(
    r"\b(\d{1,2})(?:st|nd|rd|th)\b|\b(?:the|der|den|dem|am|zum|vom|bis) (\d{1,2})\b|(\d{1,2})[号日]"
)
_FOLLOWS = lazy(
    r"\bdays? (?:after|later|before|earlier)|\b(?:next|following) day|\btomorrow|\byesterday"
    r"|\bweeks? (?:later|after|before|from)|\b(?:in|within) (?:\w+ ){1,2}(?:days|weeks)"
    r"|\b(?:morgen|gestern|tage?s?|wochen?|später)\b|次日|第二天|明天|后天|天后|天前|[周星期]",
)
"""Words of a relative date."""


class MentionedDates:
    """The dates in texts, as pairs of a month and a day."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts

    def has(self, days: Iterable[str]) -> bool:
        """Return whether one of these dates ("3/14") is in the texts, or relative to theirs."""
        asked = _pairs(days)
        if any(pair in self._days or self._is_in_two(*pair) for pair in asked):
            return True
        return self._mentions_spans and any(
            abs(31 * (month - m) + day - d) <= _MOST_AFTER
            for month, day in asked
            for m, d in self._days
        )

    def is_like(self, days: Iterable[str]) -> bool:
        """Return whether a date differs from one of the texts only in month, or only in day."""
        return any((m == n) != (d == e) for m, d in _pairs(days) for n, e in self._days)

    def _is_in_two(self, month: int, day: int) -> bool:
        """Return whether one sentence has the month, and another one the day without a month."""
        return day in self._loose and any(month == one for one, _ in self._days)

    @cached_property
    def _days(self) -> Set[tuple[int, int]]:
        return {
            (month, int(first or second))
            for text in self._texts
            for sentence in split_sentences(text)
            for month in _months_in(sentence)
            for first, second in _DAY_IN.findall(sentence.casefold())
        }

    @cached_property
    def _loose(self) -> Set[int]:
        found = (groups for text in self._texts for groups in _DAY.findall(text.casefold()))
        return {int(one) for groups in found for one in groups if one}

    @cached_property
    def _mentions_spans(self) -> bool:
        return any(_FOLLOWS.search(text.casefold()) for text in self._texts)


def _pairs(days: Iterable[str]) -> list[tuple[int, int]]:
    return [(int(month), int(day)) for month, _, day in (one.partition("/") for one in days)]


def _months_in(text: str) -> Set[int]:
    words = {MONTH_OF[one] for one in _MONTH_WORD.findall(text.casefold()) if one in MONTH_OF}
    return words | {int(one) for groups in _MONTH.findall(text) for one in groups if one}
