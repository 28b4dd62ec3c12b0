"""Times of the day and time zones as people write them: "7.30pm", "halb neun", "3点一刻",
"9am EST", "Tokyo time". Pure functions over folded text; each pattern is bounded, so that parsing
is linear."""

from __future__ import annotations

import re
from datetime import time
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from msgspec import Struct
from msgspec.structs import replace

from plugins.jobs.when_days import WhenError
from plugins.jobs.when_words import EDGE, HAN_NUMBER, HOUR_WORD, NUMBERS, PARTS, any_of, count, fold


class TimeOfDay(Struct, frozen=True):
    """An hour as it was written, its end in the text, and "a" or "p" if that was written.

    `part` is a part of the day that was named with it; `is_loose` is set for a bare number after a
    word like "at".
    """

    hour: int
    minute: int
    end: int
    half: str = ""
    part: str = ""
    is_loose: bool = False
    has_colon: bool = False


class ClockError(ValueError):
    """A time that does not exist on any day."""


_AT_WORDS = (
    "(?:exactly |genau |punktlich |exactamente )?(?:at|um|a las?|a)(?: exactly| punkt)?|around|by"
)
_AT_WORDS += "|gegen|punkt|sobre las|vers|las|la"
AT = rf"(?:(?:{_AT_WORDS})\s+)"
_HALF = r"\s*(?P<half{}>[ap]m\b|[ap]\.\s?m\.?(?![^\W\d_]))"
_HALF_24 = r"(?:\s*(?P<half{}>[ap]m\b|[ap]\.\s?m\.?(?![^\W\d_])))?"
_START = r"(?<![\d.:,/-])"
_TO_HOUR = {"past": 1, "after": 1, "nach": 1, "to": -1, "before": -1, "vor": -1, "till": -1}
_MINUTE_WORD = any_of(
    ("five", "ten", "twenty", "twenty-five", "funf", "zehn", "zwanzig", "funfundzwanzig")
)
_ONES = any_of(word for word, n in NUMBERS.items() if n in range(1, 10))
_MINUTES = (
    rf"(?:(?:oh|o)[ -](?:{_ONES})|{any_of(w for w, n in NUMBERS.items() if n in range(10, 60))})"
)
"""Minutes in words after an hour: "nine oh five", "neun Uhr dreißig"."""
_HOUR = rf"(?:\d{{1,2}}|{HOUR_WORD})"

_FORMS = tuple(
    re.compile(form.replace("{EDGE}", EDGE))
    for form in (
        # 9:30, 9:30pm, 9:30 Uhr
        rf"{_START}(?P<h>\d{{1,2}}):(?P<m>\d{{2}})(?!:?\d|[.,]\d){_HALF_24.format('')}"
        r"(?:\s*(?:uhr|h|hrs|hours){EDGE})?",
        # 7.30pm, 8.30 Uhr, 730pm, 9pm
        rf"{_START}(?P<h>\d{{1,2}})[.h](?P<m>\d{{2}})(?!\d){_HALF.format('')}",
        rf"{_START}(?P<h>\d{{1,2}})\.(?P<m>\d{{2}})\s*(?:uhr|h){{EDGE}}",
        rf"{_START}(?P<h>\d{{1,2}})(?P<m>\d{{2}})(?!\d)"
        rf"(?:{_HALF.format('')}|\s*(?:uhr|hours|hrs){{EDGE}})",
        rf"{_START}(?P<h>\d{{1,2}})(?!\d){_HALF.format('')}",
        # 9 Uhr 30, neun Uhr, 19h30, 19 heures 30
        rf"(?P<h>{_HOUR})\s*(?:uhr|heures?|h){{EDGE}}\s+et\s+(?P<quarter>demie|quart){{EDGE}}",
        rf"(?P<h>{_HOUR})\s*(?:heures?|h){{EDGE}}\s+moins\s+le\s+(?P<less>quart){{EDGE}}",
        rf"{_START}(?P<h>\d{{1,2}})\s*h\s?(?P<m>\d{{2}})(?!\d)(?:\s*min)?{{EDGE}}",
        rf"(?P<h>{_HOUR})\s+heures?\s+(?P<m>\d{{2}})(?!\d){{EDGE}}",
        rf"(?P<h>{_HOUR})\s*uhr\s+(?P<m>\d{{2}})(?!\s*[\d:.,])(?=\s|$)",
        rf"(?P<h>{_HOUR})\s*(?:uhr|heures?|h)\s+(?P<m>{_MINUTES}){{EDGE}}",
        rf"(?P<h>{_HOUR})\s*(?:uhr|heures?|h){{EDGE}}(?!\d)",  # 1h30m is no time of the day
        # seven fifteen pm
        rf"(?P<h>{HOUR_WORD})\s+(?P<m>{_MINUTES}){_HALF.format('')}",
        # nine o'clock
        rf"(?P<h>{_HOUR})\s*o'clock{{EDGE}}{_HALF_24.format('')}",
        # half past nine, quarter to nine, halb neun, viertel vor neun, fünf vor halb neun
        rf"(?P<half_past>half)\s+past\s+(?P<h>{_HOUR}){{EDGE}}{_HALF_24.format('')}",
        rf"(?:a\s+)?(?P<quarter_of>quarter|viertel|{_MINUTE_WORD}|\d{{1,2}})(?:\s+(?:minutes?|minuten))?"
        rf"\s+(?P<to>past|after|nach|to|before|vor|till)\s+(?P<halb>halb\s+)?(?P<h>{_HOUR}){{EDGE}}"
        rf"(?![:.]\d){_HALF_24.format('')}(?:\s*uhr{{EDGE}})?",
        rf"(?P<halb>halb)\s+(?P<h>{_HOUR}){{EDGE}}(?:\s*uhr{{EDGE}})?",
        rf"(?P<dreiviertel>dreiviertel|viertel)\s+(?P<h>{_HOUR}){{EDGE}}(?:\s*uhr{{EDGE}})?",
        # 3点, 三点半, 3点一刻, 3点20分
        rf"(?<!\d)(?P<h>\d{{1,2}}|{HAN_NUMBER})[点點时時](?!间)(?:(?P<han>半|一刻|三刻|整|钟)"
        rf"|(?P<m>\d{{1,2}}|{HAN_NUMBER})(?:分(?![钟鐘])|(?![\d天个小分年月])(?=\W|$|[\u3400-\u9fff])))?",
        # las siete y media, a las 7 menos cuarto
        rf"(?P<las>a\s+las?|las?)\s+(?P<h>{_HOUR}){{EDGE}}\s+(?P<y>y|menos)\s+"
        rf"(?P<es>media|cuarto|\d{{1,2}}|diez|veinte|cinco|veinticinco){{EDGE}}",
    )
)
_SPOKEN = re.compile(
    rf"(?P<h>{HOUR_WORD})\s+(?:(?P<m>{_MINUTES})|hundred(?:\s+hours)?){EDGE}(?![\d:/%-]|[.,]\d)"
)
_SHARP = re.compile(rf"\s+(?:sharp|on the dot|exactly|punktlich|precises?|pile|en punto){EDGE}")
"""Words after a time that don't change it."""
_LOOSE = re.compile(rf"(?P<h>{_HOUR}){EDGE}(?!\d|[/%-]|[:.,]\d)")
_DOTTED = re.compile(r"(?<![\d.:,/-])(?P<h>\d{1,2})\.(?P<m>\d{2})(?![\d.]|,\d)" + EDGE)
_FOUR = re.compile(r"(?<![\d.:,/-])(?P<h>[01]\d|2[0-3])(?P<m>[0-5]\d)(?![\d.,/%-]|:\d)" + EDGE)
_WORDS = re.compile(
    r"(?:(?P<noon>(?:12\s+)?(?:noon|midday)|mittags?(?!\s+um)|am mittag(?!\s+um)"
    r"|midi|(?:al?\s+)?mediodia|中午|正午)"
    rf"|(?:(?:12\s+)?midnight|mitternacht|minuit|(?:a\s+)?medianoche|午夜)){EDGE}"
    rf"(?:\s+(?:et|y)\s+(?P<more>demie?|media|quart|cuarto){EDGE})?"
)
_AT = re.compile(AT)
_AT_ALONE = re.compile(rf"(?!a\s+(?!las?\s))(?:{_AT_WORDS})\s+")
_PART = {
    name: re.compile(rf"(?:{words}){EDGE}" if name else words) for name, words in PARTS.items()
}
_HAN_PART = re.compile(r"早上|上午|早晨|清晨|中午|下午|午后|晚上|傍晚|夜里|半夜|深夜|凌晨|早|晚")
_SHORT_PART = {"早": "morning", "晚": "evening"}


def read_part(text: str, start: int) -> tuple[str, int] | None:
    """Return the part of the day that is named at a position, and the end of its name."""
    best: tuple[str, int] | None = None
    for name, pattern in _PART.items():
        found = pattern.match(text, start)
        if found and (best is None or found.end() > best[1]):
            best = (name, found.end())
    return best


def read_clock(text: str, start: int, is_after_day: bool) -> TimeOfDay | None:
    """Return the time of the day at a position in folded text. After a day, "1930" and "7.30" are
    times, and after a word like "at" also a bare hour. Raises ClockError for 25:00."""
    found = _read_with_part(text, start, is_after_day)
    sharp = _SHARP.match(text, found.end) if found else None
    return replace(found, end=sharp.end()) if found and sharp else found


def _read_with_part(text: str, start: int, is_after_day: bool) -> TimeOfDay | None:
    if han := _HAN_PART.match(text, start):
        name = _SHORT_PART.get(han[0]) or next(n for n, p in PARTS.items() if han[0] in p)
        if found := _read_plain(text, _skip(text, han.end()), is_after_day):
            return TimeOfDay(found.hour, found.minute, found.end, found.half, name)
    return _read_plain(text, start, is_after_day)


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] == " ":
        at += 1
    return at


def _read_plain(text: str, start: int, is_after_day: bool) -> TimeOfDay | None:
    word = _AT.match(text, start)
    for begin in (start, word.end()) if word else (start,):
        for form in _FORMS:
            if found := form.match(text, begin):
                return _to_clock(found)
        if found := _WORDS.match(text, begin):
            minute = {"d": 30, "m": 30, "q": 15, "c": 15}.get((found["more"] or "")[:1], 0)
            return TimeOfDay(12 if found["noon"] else 0, minute, found.end(), "", "exact")
    alone = _AT_ALONE.match(text, start)
    begin = alone.end() if alone else start
    if is_after_day or alone:
        for form in (_DOTTED, _FOUR):
            if found := form.match(text, begin):
                return _to_clock(found)
    if alone and (found := _SPOKEN.match(text, begin)):
        return _to_clock(found)
    if alone and (found := _LOOSE.match(text, begin)):
        return _to_clock(found, is_loose=True)
    return None


def _to_clock(found: re.Match[str], *, is_loose: bool = False) -> TimeOfDay:
    got = found.groupdict()
    hour, minute = int(count(got["h"])), int(count(re.sub(r"^oh?[ -]", "", got.get("m") or "0")))
    half = (got.get("half") or "")[:1]
    minute += {"半": 30, "一刻": 15, "三刻": 45}.get(got.get("han") or "", 0)
    minute += {"demie": 30, "quart": 15}.get(got.get("quarter") or "", 0)
    minute += 30 if got.get("half_past") else 0
    shift = -15 if got.get("less") else 0
    if word := got.get("quarter_of"):
        by = 15 if word in ("quarter", "viertel") else int(count(word))
        shift += by * _TO_HOUR[got["to"]]
    if got.get("halb"):
        shift -= 30
    if word := got.get("dreiviertel"):
        shift -= 15 if word == "dreiviertel" else 45
    if word := got.get("es"):
        by = {"media": 30, "cuarto": 15}.get(word) or int(count(word))
        shift += by if got["y"] == "y" else -by
    if hour > 24 or minute > 59 or (hour == 24 and minute) or (half and not 1 <= hour <= 12):
        raise ClockError(found[0].strip())
    whole = hour * 60 + minute + shift
    if shift and whole < 60:  # a quarter to one is 12:45
        whole += 720
    return TimeOfDay(
        whole // 60, whole % 60, found.end(), half, "", is_loose, has_colon=":" in found[0]
    )


def to_time(clock: TimeOfDay, part: str) -> tuple[time, int]:
    """Return the time of the day, and the number of days by which it is later (twelve at night). An
    hour without "am", "pm" or a part of the day is in 24-hour time. Raises ClockError for a time
    that no day has."""
    hour, part_before, part = clock.hour, part, clock.part or part
    if part == "exact":
        return time(hour, clock.minute), int(not hour and part_before in ("evening", "night"))
    if clock.half:
        hour = hour % 12 + (12 if clock.half == "p" else 0)
        if part and (part in ("morning", "small")) != (hour < 12) and part != "night":
            raise ClockError(f"{clock.hour} {clock.half}m")
        return time(hour, clock.minute), 0
    if hour == 24:
        return time(0, clock.minute), 1
    if hour > 12 or not part:
        if hour > 12 and part in ("morning", "small", "noon"):
            raise ClockError(f"{hour}:{clock.minute:02}")
        return time(hour, clock.minute), 0
    return _in_part(hour, clock.minute, part)


def _in_part(hour: int, minute: int, part: str) -> tuple[time, int]:
    fits: dict[str, tuple[range, int, int]] = {
        # the hours that stay, the hour from which 12 is added, and whether 12 is the end of the day
        "morning": (range(12), 99, 0),
        "small": (range(7), 99, 1),
        "noon": (range(11, 13), 1, 0),
        "afternoon": (range(12, 13), 1, 0),
        "evening": (range(0), 4, 1),
        "night": (range(0), 6, 1),
    }
    stay, later, is_end = fits[part]
    if hour == 12 and is_end:
        return time(0, minute), 0 if part == "small" else 1
    if hour in stay:
        return time(hour, minute), 0
    if hour >= later and hour < 12 and not (part == "noon" and hour > 2):
        return time(hour + 12, minute), 0
    raise ClockError(f"{hour}:{minute:02}")


_ZONES = {
    **dict.fromkeys(("UTC", "GMT"), "UTC"),
    **dict.fromkeys(("ET", "EST", "EDT"), "America/New_York"),
    **dict.fromkeys(("PT", "PST", "PDT"), "America/Los_Angeles"),
    **dict.fromkeys(("MST", "MDT"), "America/Denver"),
    **dict.fromkeys(("CT", "CDT"), "America/Chicago"),
    **dict.fromkeys(("CET", "CEST", "MEZ", "MESZ"), "Europe/Berlin"),
    **{
        "BST": "Europe/London",
        "JST": "Asia/Tokyo",
        "HKT": "Asia/Hong_Kong",
    },
}
_CHINESE = {
    "北京时间": "Asia/Shanghai",
    "东京时间": "Asia/Tokyo",
    "纽约时间": "America/New_York",
    "伦敦时间": "Europe/London",
    "巴黎时间": "Europe/Paris",
    "柏林时间": "Europe/Berlin",
}
_GERMAN = {"MEZ": "CET", "MESZ": "CEST"}
_UNCLEAR = ("CST", "IST", "AST", "SST", "WST", "AEST", "AEDT", "NZST", "MSK", "EET", "EEST", "WET")
_CITY = r"[A-Z\u00c0-\u00de][^\W\d_]+(?:[ -][A-Z\u00c0-\u00de][^\W\d_]+){0,2}"
_END = r"(?=\s*(?:[):：;]|$))"
_ZONE = re.compile(
    rf"\s*\(?(?:(?P<name>{any_of(_CHINESE)}|(?:{any_of(_ZONES)}|{any_of(_UNCLEAR)})(?![\w+-]))"
    r"|(?:UTC|GMT)(?P<off>[+-]\d{1,2})(?!\d|:\d)"
    r"|(?P<odd>(?:UTC|GMT)[+-]\d{1,4}(?::\d\d)?)"
    r"|(?P<key>[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][a-z_]+)?)"
    r"|(?P<city>[^\W\d_]+(?: [^\W\d_]+){0,2}?) [Tt]ime\b"
    rf"|(?:heure\s+de|hora\s+de)\s+(?P<city_behind>{_CITY})"
    rf"|(?P<german>{_CITY}?)er\s+Zeit\b"
    rf"|(?:in\s+(?P<city_in>{_CITY})(?=\s*[):：;])|(?P<alone>{_CITY}){_END}))\)?"
)
_AREAS = ("Africa", "America", "Asia", "Australia", "Europe")
_NO_CITIES = re.compile(
    "act|central|east|general|nome|north|oral|regina|south|victoria|virgin|west"
)
"""Names in the time zone database that have another meaning on their own."""


@cache
def _cities(*, is_alone: bool) -> dict[str, str]:
    """Return the zones by the names of their cities; with `is_alone`, only unambiguous names."""
    found = {fold(key.rpartition("/")[2].replace("_", " ")): key for key in available_timezones()}
    found |= {"auckland": "Pacific/Auckland", "honolulu": "Pacific/Honolulu"}
    if not is_alone:
        return found
    big = {c: k for c, k in found.items() if k.count("/") == 1 and not _NO_CITIES.fullmatch(c)}
    others = ("auckland", "honolulu")
    return {c: key for c, key in big.items() if key.partition("/")[0] in _AREAS or c in others}


def read_zone(text: str, start: int, *, is_half: bool) -> tuple[str, str, int] | None:
    """Return the zone at a position, its abbreviation if that was given ("EST"; else ""), and the
    end of its name. Raises WhenError for an ambiguous zone."""
    found = _ZONE.match(text, start)
    if not found and is_half:  # in "9am est", "est" is a zone
        word = re.match(r"\s+(est|edt|pst|pdt|cst|cet|cest|utc|gmt)\b", text[start:])
        found = _ZONE.match(text[:start] + text[start : start + 6].upper(), start) if word else None
    if found is None:
        return None
    zone_name = found[0].strip(" ()")
    if name := found["name"]:
        if name in _UNCLEAR:
            raise unknown_zone(zone_name)
        if name in _CHINESE:
            return _CHINESE[name], "", found.end()
        is_exact = len(name) > 2 and name not in ("UTC", "GMT")
        return _ZONES[name], _GERMAN.get(name, name) if is_exact else "", found.end()
    key = _find_key(found, zone_name)
    if not key:
        return None
    try:
        ZoneInfo(key)
    except (OSError, ValueError, KeyError):
        if found["key"]:
            return None
        raise unknown_zone(zone_name) from None
    return key, "", found.end()


def _find_key(found: re.Match[str], zone: str) -> str:
    """Return the key of a zone that is named by its offset from UTC or by a city; "" if it is not a
    zone. Raises WhenError."""
    if found["odd"]:
        raise unknown_zone(zone)
    if off := found["off"]:
        return f"Etc/GMT{'-' if off[0] == '+' else '+'}{int(off[1:])}" if int(off) else "UTC"
    if found["key"]:
        return found["key"]
    city = found["city"] or found["city_behind"] or found["german"]
    known = _cities(is_alone=not city)
    key = known.get(fold(city or found["city_in"] or found["alone"]), "")
    if not key and found["german"]:
        raise unknown_zone(zone)
    return key


def unknown_zone(name: str) -> WhenError:
    return WhenError(
        "“{name}” can be more than one time zone. Write it like Europe/Berlin.", name=name
    )
