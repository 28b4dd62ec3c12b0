"""Time zones as people write them after a time of the day: "9am EST", "(UTC+2)", "Tokyo time"."""

from __future__ import annotations

import re
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from channels.language import _
from plugins.jobs.when_days import WhenError
from plugins.jobs.when_words import any_of, fold

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
    said = found[0].strip(" ()")
    if name := found["name"]:
        if name in _UNCLEAR:
            raise unknown_zone(said)
        if name in _CHINESE:
            return _CHINESE[name], "", found.end()
        is_exact = len(name) > 2 and name not in ("UTC", "GMT")
        return _ZONES[name], _GERMAN.get(name, name) if is_exact else "", found.end()
    key = _find_key(found, said)
    if not key:
        return None
    try:
        ZoneInfo(key)
    except (OSError, ValueError, KeyError):
        if found["key"]:
            return None
        raise unknown_zone(said) from None
    return key, "", found.end()


def _find_key(found: re.Match[str], said: str) -> str:
    """Return the key of a zone that is named by its offset from UTC or by a city; "" if it is not a
    zone. Raises WhenError."""
    if found["odd"]:
        raise unknown_zone(said)
    if off := found["off"]:
        return f"Etc/GMT{'-' if off[0] == '+' else '+'}{int(off[1:])}" if int(off) else "UTC"
    if found["key"]:
        return found["key"]
    city = found["city"] or found["city_behind"] or found["german"]
    known = _cities(is_alone=not city)
    key = known.get(fold(city or found["city_in"] or found["alone"]), "")
    if not key and found["german"]:
        raise unknown_zone(said)
    return key


def unknown_zone(name: str) -> WhenError:
    return WhenError(
        _("“{name}” can be more than one time zone. Write it like Europe/Berlin.", name=name)
    )
