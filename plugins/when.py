"""When a person means, in English, German or Chinese: "tomorrow 9:00", "jeden Montag um 8 Uhr".

Times of the day, spans and repetitions are read here; days are read by dateparser, which knows
their names. Alone it is not exact enough: it leaves out what it does not know, and "morgen um 9
Uhr" became eight in the evening. It takes 0.2 s and 20 MB at its first use, in a thread.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from channels.language import _
from plugins.recurrence import RuleError, check, in_zone

if TYPE_CHECKING:
    from dateparser.date import DateDataParser

MORNING, AFTERNOON, EVENING = time(9), time(15), time(20)
"""The time of the day where none is given, and where only its part is."""
SMALL_HOURS = 5
"""The hour before which a night belongs to either of two days."""
LONGEST = 60
"""Characters that say when, at most."""
EXAMPLES = (
    "`tomorrow 9:00`, `in 20 minutes`, `friday 18:30`, `2027-01-05 8:00`, `every monday 9:00`"
)


class WhenError(ValueError):
    """Nobody knows when. The text is a sentence."""


class When(Struct, frozen=True):
    """A rule (`plugins/recurrence.py`) that counts from `anchor` (seconds since 1970), which is the
    time itself for what happens once; and the text after it. `is_assumed` says that no time of the
    day was given."""

    rule: str
    anchor: float
    rest: str
    is_assumed: bool = False


def read(text: str, now: float, zone: ZoneInfo) -> When:
    """When the beginning of a text says, as much of it as says anything, and what follows. Raises
    WhenError."""
    text = text.strip()
    try:
        found = _read_cron(text) or _read_span(text, now) or _read_repetition(text, now, zone)
        found = found or _read_day(text, now, zone)
    except OverflowError:  # a year at the end of all calendars
        found = None
    if found is None:
        raise WhenError(
            _("I can't tell when you mean. Begin with the time: {examples}.", examples=_(EXAMPLES))
        )
    if found.is_assumed and (odd := _ODD.match(found.rest)):
        raise WhenError(_("{time} is no time of the day.", time=odd[1]))
    try:
        if found.rule:
            check(found.rule, zone, now)
    except RuleError as error:
        raise WhenError(str(error)) from None
    return found


_ODD = re.compile(r"(?:(?:at|um|gegen)\s+)?(\d{1,2}[:：]\d{2})\b", re.IGNORECASE)

# --- spans, and fields of crontab -----------------------------------------------------------------

_CRON = re.compile(r"cron\s+[\"'`“]?((?:[\d*/,A-Za-z#-]+\s+){4}[\d*/,A-Za-z#-]+)[\"'`”]?(?!\S)")
_UNITS = {
    60: r"m|min|mins|minutes?|minuten?|分钟|分鐘",
    3_600: r"h|hours?|stunden?|个?小时|個?小時",
    86_400: r"days?|tage?n?|天",
    604_800: r"weeks?|wochen?|周|个?星期",
}
_UNIT = "|".join(_UNITS.values())
_ONE = r"an?|one|einer?|einem"
_HAN_DIGITS = "〇一二三四五六七八九"
_HAN_NUMBER = "[一二两三四五六七八九十]{1,3}"
_HALF = {"half an hour": 1_800, "einer halben stunde": 1_800, "半小时": 1_800, "半个小时": 1_800}
_SPAN = re.compile(rf"(?:in\s+)(\d{{1,4}}|{_ONE})\s*({_UNIT})\b", re.IGNORECASE)
_MORE = re.compile(rf",?\s*(?:(?:and|und)\s+)?(\d{{1,4}}|{_ONE})\s*({_UNIT})\b", re.IGNORECASE)
_SPAN_ZH = re.compile(rf"(\d{{1,4}}|{_HAN_NUMBER})\s*({_UNIT})(?:之?后|之?後)")
_HALVES = re.compile(
    r"(?:in\s+)?(half an hour|einer halben stunde|半个?小时)(?:后|後)?", re.IGNORECASE
)


def _read_cron(text: str) -> When | None:
    if found := _CRON.match(text):
        return When(f"cron {' '.join(found[1].split())}", 0.0, _after(text, found.end()))
    return None


def _read_span(text: str, now: float) -> When | None:
    """Minutes and hours from now, which no clock on a wall has a part in."""
    if found := _HALVES.match(text):
        return When("", now + _HALF[found[1].lower()], _after(text, found.end()))
    if not (found := _SPAN.match(text) or _SPAN_ZH.match(text)):
        return None
    size = _size(found[2])
    if size >= 86_400:
        return None  # a day's time of the day may follow
    seconds = _count(found[1]) * size
    # "in 1 hour and 30 minutes"
    while (more := _MORE.match(text, found.end())) and _size(more[2]) < size:
        size, found = _size(more[2]), more
        seconds += _count(more[1]) * size
    return When("", now + seconds, _after(text, found.end()))


def _size(unit: str) -> int:
    return next(size for size, words in _UNITS.items() if re.fullmatch(words, unit, re.IGNORECASE))


def _count(word: str) -> int:
    if not word or word.isdecimal():
        return int(word or 0)
    if not re.fullmatch(_HAN_NUMBER, word):
        return 1
    tens, ten, ones = word.replace("两", "二").rpartition("十")
    return (10 * (_HAN_DIGITS.index(tens) if tens else 1) if ten else 0) + _HAN_DIGITS.find(ones)


def _after(text: str, end: int) -> str:
    return text[end:].lstrip(" \t\n,:;-–—，：、")


# --- times of the day -----------------------------------------------------------------------------

_LATE = r"evening|tonight|\bnight\b|afternoon|nachmittags?|(?<!sonn)abends?|晚上|今晚|下午"
_NIGHT = re.compile(r"evening|\b(?:to)?night\b|(?<!sonn)abends?|晚上|今晚", re.IGNORECASE)
_EARLY = r"morning|früh|morgens|vormittags?|早上|上午"
_HALF_DAY = r"[ap]m\b|[ap]\.\s?m\.?"
_AFTER_AT = r"(?:(?<=\bat )|(?<=\bum )|(?<=\bgegen ))"
_CLOCK = re.compile(
    r"(?P<part>早上|上午|中午|下午|晚上|今晚)?\s*(?:\b(?:at|um|gegen)\s+)?(?:"
    rf"(?<![\d.:-])(?P<h1>\d{{1,2}})[:：](?P<m1>\d{{2}})(?![\d:])(?:\s*(?P<half1>{_HALF_DAY}))?(?:\s*uhr\b)?"
    rf"|(?<![\d.:-])(?P<h2>\d{{1,2}})\s*(?P<half2>{_HALF_DAY})"
    rf"|{_AFTER_AT}(?P<h6>\d{{1,2}})\.(?P<m6>\d{{2}})(?![\d.])(?:\s*(?P<half6>{_HALF_DAY}))?(?:\s*uhr\b)?"
    r"|(?<![\d.:-])(?P<h7>\d{1,2})\.(?P<m7>\d{2})\s*uhr\b"
    r"|(?<![\d.:-])(?P<h3>\d{1,2})\s*uhr(?:\s+(?P<m3>\d{2})\b)?"
    rf"|(?<!\d)(?P<h4>\d{{1,2}}|{_HAN_NUMBER})[点點](?:(?P<m4>\d{{1,2}}|{_HAN_NUMBER})分?|(?P<half4>半))?"
    rf"|{_AFTER_AT}(?P<h5>\d{{1,2}})(?![\d.:/-])(?:\s*o['’]clock\b)?"
    r"|(?P<word>\bnoon\b|\bmidday\b|\bmittags?\b|中午|\bmidnight\b|\bmitternacht\b|午夜))",
    re.IGNORECASE,
)
_HOURS = ("h1", "h2", "h3", "h4", "h5", "h6", "h7")
_MINUTES = ("m1", "m3", "m4", "m6", "m7")
_NOON = re.compile(r"noon|midday|mittags?|中午", re.IGNORECASE)


def _to_time(found: re.Match[str], phrase: str) -> time | None:
    """The time of the day that a match names; None where no day has it."""
    if word := found["word"]:
        return time(12) if _NOON.fullmatch(word) else time(0)
    hour = next(_count(found[name]) for name in _HOURS if found[name])
    minute = next((_count(found[name]) for name in _MINUTES if found[name]), 0)
    minute = 30 if found["half4"] else minute
    half = (found["half1"] or found["half2"] or found["half6"] or "")[:1].lower()
    if half and not 1 <= hour <= 12:
        return None
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    elif hour == 12 and _NIGHT.search(phrase):
        hour = 0
    elif hour < SMALL_HOURS and re.search(r"\b(?:to)?night\b", phrase, re.IGNORECASE):
        return None  # of this day, or of the next?
    elif hour < 12 and re.search(_LATE, phrase, re.IGNORECASE):
        hour += 12
    return time(hour, minute) if hour < 24 and minute < 60 else None


# --- what comes again -----------------------------------------------------------------------------

_WEEKDAYS = (
    r"sun(?:day)?s?|sonntags?|周日|周天|星期日|星期天",
    r"mon(?:day)?s?|montags?|周一|星期一",
    r"tue(?:s|sday)?s?|dienstags?|周二|星期二",
    r"wed(?:nesday)?s?|mittwochs?|周三|星期三",
    r"thu(?:rs|rsday)?s?|donnerstags?|周四|星期四",
    r"fri(?:day)?s?|freitags?|周五|星期五",
    r"sat(?:urday)?s?|samstags?|sonnabends?|周六|星期六",
)
_DAY = "|".join(_WEEKDAYS)
_AND_DAY = rf"\s*(?:,|and|und|&|和|、)\s*(?:{_DAY})"
_EVERY = re.compile(
    rf"(?:(?:every|each|jede[nrsm]?|alle|每隔?)\s*"
    rf"(?:(?P<count>\d{{1,4}}|other|zweite[nrs]?)\s*)?"
    rf"(?:(?P<working>weekdays?|werktags?|werktag|个?工作日)|"
    r"(?P<part>morning|evening|morgen|abend|早上|晚上)|"
    rf"(?P<days>(?:{_DAY})(?:{_AND_DAY})*)|"
    rf"(?P<unit>{_UNIT})(?:\s*(?:on|am)?\s*(?P<on>(?:{_DAY})(?:{_AND_DAY})*))?)"
    r"|(?P<daily>daily|täglich)|(?P<hourly>hourly|stündlich)|(?P<werktags>weekdays|werktags|工作日))"
    r"(?![A-Za-zäöüß])",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    rf"\s*,?\s*(?:(?:in the\s+|am\s+)?(?P<part>{_EARLY}|{_LATE})(?![A-Za-zäöüß])\s*,?\s*)?",
    re.IGNORECASE,
)


def _read_repetition(text: str, now: float, zone: ZoneInfo) -> When | None:
    if not (found := _EVERY.match(text)):
        return None
    end = found.end()
    if gap := _BETWEEN.match(text, end):
        clock = _CLOCK.match(text, gap.end())
        end = gap.end() if gap["part"] else end
    else:
        clock = _CLOCK.match(text, end)
    at = _to_time(clock, text[: clock.end()]) if clock else None
    end = clock.end() if clock and at else end
    count = _every_so_many(found["count"])
    size = _size(found["unit"]) if found["unit"] else 3_600 if found["hourly"] else 0
    rest, moment = _after(text, end), at or _guess_time(text[:end])
    if 0 < size < 86_400:
        return None if at or found["on"] or not count else When(f"every {count * size}", now, rest)
    named = _weekdays(found["days"] or found["on"] or "")
    if not count or (named and (size == 86_400 or (count > 1 and len(named) > 1))):
        return None
    if cron := _to_cron(found, named, moment, count):
        return When(cron, 0.0, rest, at is None)
    days = count * (7 if named or size > 86_400 else 1)
    first = datetime.combine(datetime.fromtimestamp(now, zone).date(), moment)
    while in_zone(first, zone) <= now or (named and first.isoweekday() % 7 not in named):
        first += timedelta(1)
    return When(f"days {days}", in_zone(first, zone), rest, at is None)


def _every_so_many(word: str | None) -> int:
    if word is None:
        return 1
    return int(word) if word.isdecimal() else 2


def _weekdays(text: str) -> list[int]:
    """The days of the week in a list of them."""
    return sorted({_weekday(name) for name in re.findall(_DAY, text, re.IGNORECASE)})


def _to_cron(found: re.Match[str], named: list[int], at: time, count: int) -> str:
    """The fields for days of the week, and for every day; "" for what crontab can't say."""
    if named and count == 1:
        return f"cron {at.minute} {at.hour} * * {','.join(map(str, named))}"
    if found["working"] or found["werktags"]:
        return f"cron {at.minute} {at.hour} * * 1-5"
    is_day = found["daily"] or found["part"] or (found["unit"] and _size(found["unit"]) == 86_400)
    return f"cron {at.minute} {at.hour} * * *" if is_day and count == 1 else ""


def _weekday(name: str) -> int:
    """The number of a day of the week in crontab, where Sunday is 0."""
    return next(n for n, w in enumerate(_WEEKDAYS) if re.fullmatch(w, name, re.IGNORECASE))


# --- days -----------------------------------------------------------------------------------------

_DOTS = re.compile(r"(?<!\d)(\d{1,2})\.\s?(\d{1,2})\.(?:\s?(\d{4})|(\d{2}))?(?!\d)")
_YEAR_FIRST = re.compile(r"(?<!\d)(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_SLASHES = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})(?:/(\d{4}|\d{2}))?(?!\d)")
_LOOSE = re.compile(r"(\d{1,2})([-–_ .,])(\d{1,2})(?:\2(\d{4}|\d{2}))?")
"""A day in digits alone, which dateparser takes for an American's."""
_MONTH_ZH = re.compile(r"(?:(\d{4})年)?(\d{1,2})月(\d{1,2})[日号號]")
_DAYS_ZH = re.compile(rf"{_HAN_NUMBER}(?=(?:天|周|个?星期)之?[后後])")
_THIS_ZH = re.compile(r"[本这這]个?(?=周|星期)")
_CLOCK_WORD = re.compile(r"\b(?:at|um|gegen|uhr)\b", re.IGNORECASE)
"""What says a time of the day, where no time could be read."""
_NEXT_WEEK_ZH = re.compile(r"下个?(?:周|星期)([一二三四五六日天])")
_FILLING = re.compile(
    r"\b(?:on|am|den|der|dem|the|of|next|this|coming|nächste[nrs]?|kommende[nrs]?|diese[nrs]?)\b"
    rf"|\b(?:{_EARLY}|{_LATE.replace('tonight|', '')})\b|早上|上午|中午|下午|晚上|[,，]",
    re.IGNORECASE,
)
_NEXT_LEAP = 9
"""Years among which there is a 29th of February to come."""
_BARE = re.compile(r"\d*")
_SMALL = re.compile(r"\s([^\W\d_]{1,4}|(?!(?:19|20)\d\d$)[\d-]{1,5})$")
_HAN = 0x2E7F
"""Where the characters begin that stand without spaces between them."""


def _read_day(text: str, now: float, zone: ZoneInfo) -> When | None:
    doubt: WhenError | None = None
    for end in _ends(text):
        try:
            found = _read_moment(text[:end], now, zone)
            if found is None or _is_said_without(text[:end], found, now, zone):
                continue
        except WhenError as error:
            doubt = (
                doubt or error
            )  # or what looks like a day belongs to the text: "9:00 mix 1/2 cup"
            continue
        wall, is_assumed = found
        rest = _after(text, end)
        if doubt and any(day.match(rest) for day in (_DOTS, _YEAR_FIRST, _SLASHES)):
            raise doubt
        return When("", in_zone(wall, zone), rest, is_assumed)
    if doubt:
        raise doubt
    return None


def _is_said_without(phrase: str, found: tuple[datetime, bool], now: float, zone: ZoneInfo) -> bool:
    """Whether the last word of a phrase is a small one that dateparser passes over: it begins the
    text then ("tomorrow 9:00 a cake")."""
    word = _SMALL.search(phrase)
    if word is None or _FILLING.fullmatch(word[1]) or word[1].lower() in ("uhr", "am", "pm"):
        return False
    return _read_moment(phrase[: word.start()], now, zone) == found


def _ends(text: str) -> Iterator[int]:
    """Where what says when may end, the longest first: after a word, or anywhere in Chinese."""
    head = text[:LONGEST]
    for end in range(len(head), 0, -1):
        around = text[end - 1 : end + 1]
        is_mark = around[0] in ":,;，：" and not around[1:].isdigit()
        if end == len(text) or around[1:].isspace() or is_mark or max(map(ord, around)) > _HAN:
            yield end


def _read_moment(phrase: str, now: float, zone: ZoneInfo) -> tuple[datetime, bool] | None:
    """What a phrase says as a whole, on the clocks of the zone, and whether it leaves the time of
    the day open."""
    phrase = phrase.strip(" \t\n,:;，：")
    clock = _CLOCK.search(phrase)
    at = _to_time(clock, phrase) if clock else None
    if clock and at is None:
        return None
    day = phrase[: clock.start()] + " " + phrase[clock.end() :] if clock else phrase
    if clock and clock["part"] == "今晚":
        day = f"今天 {day}"
    here = datetime.fromtimestamp(now, zone).replace(tzinfo=None)
    named = _read_date(day, here)
    is_open = _FILLING.sub(" ", day).strip() == ""
    if named is None and not (at and is_open):
        return None
    moment = at or _guess_time(phrase)
    wall = datetime.combine(named or here.date(), moment)
    is_night_after = named is not None and moment.hour == 0 and _NIGHT.search(phrase)
    if is_night_after or (named is None and wall <= here):
        wall += timedelta(1)
    return wall, at is None


def _guess_time(phrase: str) -> time:
    if re.search(r"evening|night\b|(?<!sonn)abend|晚", phrase, re.IGNORECASE):
        return EVENING
    is_afternoon = re.search(r"afternoon|nachmittag|下午", phrase, re.IGNORECASE)
    return AFTERNOON if is_afternoon else MORNING


def _read_date(text: str, here: datetime) -> date | None:
    """The day that a text names, if that is all it does."""
    if found := _NEXT_WEEK_ZH.fullmatch(text.strip()):
        monday = here.date() + timedelta(7 - here.weekday())
        return monday + timedelta("一二三四五六日天".index(found[1]) % 7 if found[1] != "天" else 6)
    text = _YEAR_FIRST.sub(lambda m: _iso(m[1], m[3], m[4], here), text)
    text = _MONTH_ZH.sub(lambda m: _iso(m[1], m[2], m[3], here), text)
    text = _DOTS.sub(lambda m: _iso(m[3] or m[4], m[2], m[1], here), text)
    text = _SLASHES.sub(lambda m: _iso(m[3], *_in_order(m[0], m[1], m[2], m[3], here), here), text)
    text = _DAYS_ZH.sub(lambda m: str(_count(m[0])), _THIS_ZH.sub("", text))
    text = " ".join(_FILLING.sub(" ", text).split())
    if _BARE.fullmatch(text) or _CLOCK_WORD.search(text):
        return None
    if loose := _LOOSE.fullmatch(text):
        text = _iso(loose[4], *_in_order(text, loose[1], loose[3], loose[4], here), here)
    found_date: Any = _parser(here).get_date_data(text)  # its types are older than it
    named, parts = found_date.date_obj, found_date.parts
    if named is None or found_date.period not in ("day", "week", "time"):
        return None
    if "time" in parts and not found_date.part_of_day:
        return None  # "in five minutes"
    if text.lower().startswith("in ") and "year" not in parts:
        return None  # "in 30" is no 30th
    day: date = named.date()
    return None if named.tzinfo else day  # "eat" is a time in East Africa, too


def _iso(year: str | None, month: str, day: str, here: datetime) -> str:
    """A day as dateparser can't misread it; one without a year is the next."""
    years = range(here.year, here.year + _NEXT_LEAP)
    if year:
        years = range(_whole(year), _whole(year) + 1)
    for one in years:
        try:
            named = date(one, int(month), int(day))
        except ValueError:
            continue
        if year or named >= here.date():
            return f" {named.isoformat()} "
    raise WhenError(_("There is no day {day} in month {month}.", day=day, month=month))


def _whole(year: str) -> int:
    """A year that may have been written with its last two digits."""
    return int(year) + (2000 if len(year) == 2 else 0)


def _in_order(
    written: str, first: str, second: str, year: str | None, here: datetime
) -> tuple[str, str]:
    """Month and day of a date in digits, which one half of the world reads the other way."""
    if int(first) <= 12 and int(second) <= 12 and int(first) != int(second):
        raise WhenError(
            _(
                "{date} could be day {first} of month {second}, or the other way around. Write "
                "{one} or {other}.",
                date=written,
                first=first,
                second=second,
                one=_iso(year, second, first, here).strip(),
                other=_iso(year, first, second, here).strip(),
            )
        )
    return (second, first) if int(first) > 12 else (first, second)


def _parser(here: datetime) -> DateDataParser:
    # Slow, and seldom needed.
    from dateparser.date import DateDataParser  # noqa: PLC0415

    settings = {"RELATIVE_BASE": here, "PREFER_DATES_FROM": "future"}
    return DateDataParser(languages=["en", "de", "zh"], settings=settings)
