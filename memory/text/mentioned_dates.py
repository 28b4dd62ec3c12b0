"""Dates of a summary that its source has in another form: in a range ("5 to 7 June"), in two
sentences, or relative to another date. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property

from memory.patterns import lazy
from memory.text.names import MONTH_OF
from memory.text.wording import split_sentences

_MOST_AFTER = 15  # the maximum distance of a relative date, in days
_WORD = lazy(r"[^\W\d_]{3,9}")
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
    words = {MONTH_OF[one] for one in _WORD.findall(text.casefold()) if one in MONTH_OF}
    return words | {int(one) for groups in _MONTH.findall(text) for one in groups if one}
