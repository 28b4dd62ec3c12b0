"""Days and spans as people write them: "friday", "31.12.", "in two weeks", "一个半小时后". Pure
functions over folded text (`when_words.py`)."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from channels.language import _
from plugins.jobs.when_words import (
    DAY,
    EDGE,
    FORTNIGHT,
    HAN_NUMBER,
    HOUR,
    MINUTE,
    MONTH,
    MONTH_NAME,
    NUMBER,
    PLURAL,
    RELATIVE,
    SHORT,
    UNIT,
    WEEK,
    WEEKDAY,
    YEAR,
    count,
    month,
    size_of,
    weekday,
)


class WhenError(ValueError):
    """A time that can't be determined. The text is a sentence in the person's language."""

    def __init__(self, text: str, /, **values: Any) -> None:
        super().__init__(_(text, **values))


class Day(Struct, frozen=True):
    """A day that was named, the end of its name, and the part of it. `again` are the days of the
    week (0 for Sunday) on which it recurs; `other` is another day that may be meant."""

    on: date
    end: int
    part: str = ""
    again: tuple[int, ...] = ()
    other: date | None = None
    is_weekday: bool = False


class Duration(Struct, frozen=True):
    """A span of time in months, days and seconds, and its end in the text."""

    months: int
    days: int
    seconds: float
    end: int


# --- spans ----------------------------------------------------------------------------------------

_COUNT = rf"\d{{1,4}}(?:[.,]\d{{1,2}})?(?!\d)|(?:{NUMBER})(?=\s)"
_AND_HALF = r"(?:\s+and\s+a\s+half|\s+und\s+eine?\s+halbe?|\s+et\s+demie?|\s+y\s+medi[ao])"
_HALVES = (
    (
        1_800,
        r"half\s+an\s+hour|an?\s+half\s+hour|half\s+hour|(?:eine[r]?\s+)?halben?\s+stunde"
        r"|(?:une\s+|les\s+)?demi-heures?|media\s+hora",
    ),
    (
        900,
        r"(?:a\s+)?quarter\s+of\s+an\s+hour|(?:a\s+)?quarter\s+hour|(?:eine[r]?\s+)?viertelstunde"
        r"|(?:un\s+)?quart\s+d'heure|(?:un\s+)?cuarto\s+de\s+hora",
    ),
    (
        2_700,
        r"three\s+quarters\s+of\s+an\s+hour|(?:eine[r]?\s+)?dreiviertelstunde"
        r"|trois\s+quarts\s+d'heure|tres\s+cuartos\s+de\s+hora",
    ),
    (5_400, r"hour\s+and\s+a\s+half|heure\s+et\s+demie|hora\s+y\s+media"),
)
_HALF_SPANS = tuple((size, re.compile(f"(?:{words}){EDGE}")) for size, words in _HALVES)
_TERM = re.compile(
    rf"(?P<n>{_COUNT})(?P<half1>{_AND_HALF})?\s*(?P<u>{UNIT}){EDGE}(?P<half2>{_AND_HALF}{EDGE})?"
)
_TIGHT = re.compile(r"(?P<h>\d{1,2})\s*h\s?(?P<m>\d{2})(?!\d)(?:\s*m(?:in)?)?" + EDGE)
_MORE = re.compile(r"\s*,?\s*(?:(?:and|und|et|y)\s+)?")
_BEFORE = re.compile(r"(?:in|dans|d'ici|en|nach|dentro de|de aqui a)\s+")
_AFTER = re.compile(r"\s+(?:from now|from today|later)" + EDGE)
_HAN_TERM = re.compile(
    rf"\s*(?P<n>\d{{1,4}}(?:\.\d{{1,2}})?|{HAN_NUMBER}|半)\s*个?個?(?P<half1>半)?\s*"
    r"(?P<u>秒钟?|分钟|分鐘|分|小时|小時|钟头|鐘頭|天|日|周|週|星期|礼拜|月|年|刻钟)(?P<half2>半)?"
)
_HAN_AFTER = re.compile(r"\s*(?:之|以)?[后後]")
_NO_PREFIX = re.compile(r"an?\s+hour\s+and\s+a\s+half|half\s+an\s+hour|(?:anderthalb|eineinhalb)\s")


def read_after(text: str, start: int) -> Duration | None:
    """Return a span from now, which begins with "in" or ends with "from now"."""
    if found := _read_han(text, start):
        return found
    before = _BEFORE.match(text, start)
    span = read_span(text, before.end() if before else start)
    if span is None:
        return None
    if not before and not _NO_PREFIX.match(text, start):
        after = _AFTER.match(text, span.end)
        return Duration(span.months, span.days, span.seconds, after.end()) if after else None
    after = _AFTER.match(text, span.end)
    return replace(span, end=after.end()) if after else span


def read_span(text: str, start: int) -> Duration | None:
    """Return a span: numbers with their units, the larger before the smaller."""
    for size, pattern in _HALF_SPANS:
        if found := pattern.match(text, start):
            return Duration(0, 0, size, found.end())
    if found := _TIGHT.match(text, start):
        return Duration(0, 0, int(found["h"]) * HOUR + int(found["m"]) * MINUTE, found.end())
    span, last, at = None, YEAR + 1, start
    while (found := _TERM.match(text, at)) and size_of(found["u"]) < last:
        last = size_of(found["u"])
        amount = count(found["n"]) + (0.5 if found["half1"] or found["half2"] else 0)
        span = _add(span, amount, last, found.end(), found[0])
        if found["half2"] or not (more := _MORE.match(text, found.end())):
            break
        at = more.end()
    return span


def _read_han(text: str, start: int) -> Duration | None:
    at = start + 1 if text[start : start + 1] in ("过", "過") else start
    span, last = None, YEAR + 1
    while found := _HAN_TERM.match(text, at):
        unit = found["u"]
        unit = {"分": "分钟", "秒钟": "秒"}.get(unit, unit)
        size = 900 if unit == "刻钟" else size_of(unit)
        if size >= last:
            return None
        number = 0.5 if found["n"] == "半" else count(found["n"])
        number += 0.5 if found["half1"] or found["half2"] else 0
        span, last, at = _add(span, number, size, found.end(), found[0]), size, found.end()
    if span is None:
        return None
    if after := _HAN_AFTER.match(text, at):
        return Duration(span.months, span.days, span.seconds, after.end())
    return span if at != start and text[start] in "过過" else None


def _add(span: Duration | None, amount: float, size: int, end: int, text: str) -> Duration:
    span = span or Duration(0, 0, 0, end)
    if size < DAY:
        return Duration(span.months, span.days, span.seconds + round(amount * size), end)
    if size == FORTNIGHT:
        amount, size = amount * 2, WEEK
    if amount != int(amount) and size == WEEK and amount * 7 == int(amount * 7):
        amount, size = amount * 7, DAY
    if amount != int(amount):
        raise WhenError(
            "“{said}” is no whole number of days. Say the day and the time.", said=text.strip()
        )
    days = {DAY: 1, WEEK: 7}.get(size, 0) * int(amount)
    months = {MONTH: 1, YEAR: 12}.get(size, 0) * int(amount)
    return Duration(span.months + months, span.days + days, span.seconds, end)


def add_months(day: date, months: int) -> date:
    """Return the day this many months later, at most the last day of that month."""
    index = day.year * 12 + day.month - 1 + months
    year, number = index // 12, index % 12 + 1
    return date(year, number, min(day.day, calendar.monthrange(year, number)[1]))


# --- days -----------------------------------------------------------------------------------------

_RELATIVE = tuple(
    (re.compile(f"(?:{words}){EDGE}" if words[0] < "\u3000" else words), *what)
    for words, what in RELATIVE.items()
)
_NEXT = (
    r"(?:(?P<next>next|nachste[nrs]?|prochaine?|le prochain|proximo|proxima|el proximo|la proxima)"
    r"|this|coming|kommende[nrs]?|diese[nrs]?|ce|este|cette|esta)\s+"
)
_FRONT = r"(?:(?:on|am|an|den|der|dem|the|of|le|el|este|los?)\s+){0,2}"
_WEEKDAY = re.compile(
    rf"{_FRONT}(?:{_NEXT})?(?P<day>{WEEKDAY}){EDGE}\.?"
    rf"(?P<after>\s+(?:prochain|proximo|que viene){EDGE})?"
)
_HAN_WEEKDAY = re.compile(
    r"(?P<which>下下|下|本|这|這)个?個?(?:周|週|星期|礼拜)(?P<day>[一二三四五六日天])?"
)
_NEXT_UNIT = re.compile(
    r"(?:next (?P<week>week)|next month|nachste (?P<woche>woche)|nachsten monat"
    r"|la semaine prochaine|le mois prochain|la semana que viene|la proxima semana"
    r"|el mes que viene|el proximo mes|下个?個?月)" + EDGE
)
_THEREOF = re.compile(
    r"\s*(?:(?:on|am|le|el)\s+)?(?:the\s+|den\s+|dia\s+)?(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.)(?!\d)"
    r"|(?P<han>\d{1,2})[号號日]"
)
_WEEKEND = re.compile(
    r"(?:(?:at|on|this|the|over|am|dieses|kommendes|ce|le|el|este)\s+){0,2}"
    r"(?:(?P<next>next|nachste[ns]|proximo)\s+)?(?:weekend|wochenende|week-end|fin de semana)"
    rf"(?:\s+prochain{EDGE})?{EDGE}|[这這本]?个?(?:周|週)末"
)
_IS_MONTH = re.compile("month|monat|mois|mes|月")
_ORD = r"(?:st|nd|rd|th|er|\.)?"
_DATES = (
    re.compile(
        r"(?<!\d)(?P<y>\d{4})(?P<sep>[-/. ])(?P<m>\d{1,2})(?P=sep)(?P<d>\d{1,2})(?![\d:.,])"
    ),
    re.compile(r"(?:(?P<y>\d{4})年)?(?P<m>\d{1,2})月(?P<d>\d{1,2})[日号號]?"),
    re.compile(
        rf"{_FRONT}(?P<d>\d{{1,2}}){_ORD}\s*(?:of\s+|de\s+)?(?P<name>{MONTH_NAME}){EDGE}\.?"
        r"(?:,?\s+(?:del?\s+)?(?P<y>20\d\d)(?![\d:]|[.,]\d))?"
    ),
    re.compile(
        rf"{_FRONT}(?P<name>{MONTH_NAME})\.?\s+(?:the\s+)?(?P<d>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:.h]){EDGE}"
        r"(?!\s*(?:uhr|am|pm|a\.m|p\.m))(?:,?\s+(?P<y>20\d\d)(?![\d:]|[.,]\d))?"
    ),
    re.compile(
        r"(?:(?:am|den|dem|der|le|el)\s+)?(?<!\d)(?P<d>\d{1,2})\.\s?(?P<m>\d{1,2})\."
        r"(?:\s?(?P<y>\d{4}|\d{2})(?![\d:.]))?(?!\d)"
    ),
)
_EITHER = (
    re.compile(
        r"(?:(?:on|le|el)\s+)?(?<!\d)(?P<a>\d{1,2})/(?P<b>\d{1,2})(?:/(?P<y>\d{4}|\d{2}))?(?![\d/])"
    ),
    re.compile(r"(?<!\d)(?P<a>\d{1,2})(?P<sep>[-–_ .,])(?P<b>\d{1,2})(?P=sep)(?P<y>\d{4})(?!\d)"),
    re.compile(r"(?<!\d)(?P<a>\d{1,2})[.](?P<b>\d{1,2})(?P<y>)(?![\d:.]|\s*(?:uhr|[ap]\.?m))"),
)
_OF_MONTH = re.compile(
    r"(?:(?:on the|am|den|le|el(?: dia)?)\s+(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.)?(?![\d:.h])"
    r"(?!\s*(?:uhr|h\b|[ap]\.?m))"
    r"|(?P<han>\d{1,2})[号號])" + EDGE
)
_NEXT_LEAP = 9
"""The number of years that include a future 29th of February."""


def read_day(text: str, start: int, today: date, *, is_behind: bool) -> Day | None:
    """Return the day that is named at a position. `is_behind` means that a time came before it, so
    that a short word ("sun") may belong to the reminder's text. Raises WhenError for an ambiguous
    or impossible day."""
    for pattern, days, part in _RELATIVE:
        if found := pattern.match(text, start):
            return Day(today + timedelta(days), found.end(), part)
    if found := _NEXT_UNIT.match(text, start):
        return _in_next_unit(text, found, today)
    if not is_behind and (found := _WEEKEND.match(text, start)):
        saturday = today + timedelta((5 - today.weekday()) % 7)
        other = saturday + timedelta(7) if found["next"] else None
        return Day(saturday, found.end(), other=other, is_weekday=True)
    found = _HAN_WEEKDAY.match(text, start)
    if found and (found["day"] or "下" in found["which"]):
        weeks = {"下": 1, "下下": 2}.get(found["which"], 0)
        number = ("一二三四五六日".find(found["day"]) if found["day"] else 0) % 7
        monday = today - timedelta(today.weekday())
        day = monday + timedelta(7 * weeks + number)
        if day < today:  # on a Sunday, the coming week is meant
            day += timedelta(7)
        return Day(day, found.end(), is_weekday=True)
    if found := _WEEKDAY.match(text, start):
        if is_behind and SHORT.fullmatch(found[0].strip()):
            return None
        return _next_weekday(found, today)
    return _read_date(text, start, today)


def _in_next_unit(text: str, found: re.Match[str], today: date) -> Day:
    """Return the Monday of the next week, or a day of the next month, the first if none is
    named."""
    if not _IS_MONTH.search(found[0]):
        return Day(today + timedelta(7 - today.weekday()), found.end())
    first = add_months(today.replace(day=1), 1)
    if on := _THEREOF.match(text, found.end()):
        day = _to_date(f"{first.year}", f"{first.month}", on["d"] or on["han"], today)
        return Day(day, on.end())
    return Day(first, found.end())


def _next_weekday(found: re.Match[str], today: date) -> Day:
    number = weekday(found["day"])
    ahead = (number - today.isoweekday()) % 7
    is_next = bool(found["next"] or found["after"])
    day = today + timedelta(ahead or (7 if is_next else 0))
    same_week = is_next and day.isocalendar()[:2] == today.isocalendar()[:2]
    other = day + timedelta(7) if same_week else None
    again = (number,) if PLURAL.fullmatch(found["day"]) else ()
    return Day(day, found.end(), "", again, other, is_weekday=True)


def _read_date(text: str, start: int, today: date) -> Day | None:
    for pattern in _DATES:
        if found := pattern.match(text, start):
            got = found.groupdict()
            number = str(month(got["name"])) if got.get("name") else got["m"]
            return Day(_to_date(got["y"], number, got["d"], today), found.end())
    for pattern in _EITHER:
        if found := pattern.match(text, start):
            year = found["y"] or None
            first, second = _in_order(found[0].strip(), found["a"], found["b"], year, today)
            return Day(_to_date(year, first, second, today), found.end())
    if found := _OF_MONTH.match(text, start):
        number = int(found["d"] or found["han"])
        for months in range(4):
            first_day = add_months(today.replace(day=1), months)
            last = calendar.monthrange(first_day.year, first_day.month)[1]
            if 0 < number <= last and first_day.replace(day=number) >= today:
                return Day(first_day.replace(day=number), found.end())
        raise WhenError("No month has a day {day}.", day=number)
    return None


def _to_date(year: str | None, number: str, day: str, today: date) -> date:
    """Return a calendar day; without a year, its next occurrence."""
    years = range(today.year, today.year + _NEXT_LEAP)
    if year:
        whole = int(year) + (2000 if len(year) == 2 else 0)
        years = range(whole, whole + 1)
    for one in years:
        try:
            named = date(one, int(number), int(day))
        except ValueError:
            continue
        if year or named >= today:
            return named
    raise WhenError("There is no day {day} in month {month}.", day=day, month=number)


def _in_order(
    written: str, first: str, second: str, year: str | None, today: date
) -> tuple[str, str]:
    """Return month and day of a date in digits, whose order differs between countries. Raises
    WhenError if both orders are possible."""
    if int(first) <= 12 and int(second) <= 12 and int(first) != int(second):
        raise WhenError(
            "{date} could be day {first} of month {second}, or the other way around. Write "
            "`{one}` or `{other}`.",
            date=written,
            first=first,
            second=second,
            one=_to_date(year, second, first, today).isoformat(),
            other=_to_date(year, first, second, today).isoformat(),
        )
    return (second, first) if int(first) > 12 else (first, second)
