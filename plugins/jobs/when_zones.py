"""Time zones as people write them behind a time of the day: "9am EST", "(UTC+2)", "Tokyo time"."""

from __future__ import annotations

import re
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from channels.language import _
from plugins.jobs.when_days import WhenError
from plugins.jobs.when_words import any_of

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
        "北京时间": "Asia/Shanghai",
    },
}
_GERMAN = {"MEZ": "CET", "MESZ": "CEST"}
_UNCLEAR = ("CST", "IST", "AST", "SST", "WST", "AEST", "AEDT", "NZST", "MSK", "EET", "EEST", "WET")
_ZONE = re.compile(
    rf"\s*\(?(?:(?P<name>{any_of(_ZONES)}|{any_of(_UNCLEAR)})(?![\w+-])"
    r"|(?:UTC|GMT)(?P<off>[+-]\d{1,2})(?![\d:])"
    r"|(?P<key>[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+(?:/[A-Z][a-z_]+)?)"
    r"|(?P<city>[A-Z][a-z]+(?: [A-Z][a-z]+)?) [Tt]ime\b)\)?"
)


@cache
def _cities() -> dict[str, str]:
    return {key.rpartition("/")[2].replace("_", " ").lower(): key for key in available_timezones()}


def read_zone(text: str, start: int, *, is_half: bool) -> tuple[str, str, int] | None:
    """Return the zone at a place, what its clocks are called there and then, and where its name
    ends."""
    found = _ZONE.match(text, start)
    if not found and is_half:  # "9am est" is no word of a text
        word = re.match(r"\s+(est|edt|pst|pdt|cst|cet|cest|utc|gmt)\b", text[start:])
        found = _ZONE.match(text[:start] + text[start : start + 6].upper(), start) if word else None
    if found is None:
        return None
    said = found[0].strip(" ()")
    if name := found["name"]:
        if name in _UNCLEAR:
            raise unknown_zone(said)
        is_exact = len(name) > 2 and name not in ("UTC", "GMT", "北京时间")
        return _ZONES[name], _GERMAN.get(name, name) if is_exact else "", found.end()
    if off := found["off"]:
        key = f"Etc/GMT{'-' if off[0] == '+' else '+'}{int(off[1:])}" if int(off) else "UTC"
    elif city := found["city"]:
        key = _cities().get(city.lower(), "")
        if not key:
            return None
    else:
        key = found["key"]
    try:
        ZoneInfo(key)
    except (OSError, ValueError, KeyError):
        if found["key"]:
            return None
        raise unknown_zone(said) from None
    return key, "", found.end()


def unknown_zone(name: str) -> WhenError:
    return WhenError(
        _("“{name}” can be more than one time zone. Write it like Europe/Berlin.", name=name)
    )
