"""The wait that an endpoint requests, in its headers or in its message. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from memory.patterns import lazy

MOST_WAIT = 7 * 86_400.0
"""The maximum seconds of an accepted wait."""
_LONGEST = 64  # characters of a header
_UNITS = {
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("", "s", "sec", "secs", "second", "seconds", "second(s)", "秒"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes", "minute(s)", "分钟"), 60.0),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "hour(s)", "小时"), 3_600.0),
    **dict.fromkeys(("d", "day", "days"), 86_400.0),
}
_UNIT = "|".join(re.escape(unit) for unit in sorted(_UNITS, key=len, reverse=True) if unit)
_PART = lazy(rf"(\d{{1,15}}(?:\.\d{{1,9}})?|\.\d{{1,9}}) ?({_UNIT})?(?![a-z])", re.IGNORECASE)
_SPAN = rf"(?:\d{{1,15}}(?:\.\d{{1,9}})? ?(?:{_UNIT})(?:,? (?:and )?)?)+"
_SAID = lazy(
    rf"(?:\bagain|\bretry|\bwait|\bresets?|\breset|retryDelay)\b[^.\d]{{0,20}}?(?P<span>{_SPAN})"
    r"|\bretry after (?P<number>\d{1,7})\b"
    rf"|(?P<late>{_SPAN})后",
    re.IGNORECASE,
)
_LIMITS = ("", "-requests", "-tokens")


def read_wait(headers: Mapping[str, str], status: int = 0) -> float:
    """Return the wait in seconds that an endpoint requests: in whole seconds, with fractions, in
    milliseconds, with units, or as a date; 0 if there is none. With 429, the reset time of the
    used-up limit counts, too."""
    said = headers.get("retry-after", "").strip()[:_LONGEST]
    milliseconds = headers.get("retry-after-ms", "").strip()[:16]
    wait = parse_span(f"{milliseconds}ms") if milliseconds else parse_span(said)
    if not wait and not said and status == 429:
        wait = max(_until_reset(headers, kind) for kind in _LIMITS)
    return min(max(wait, 0.0), MOST_WAIT)


def _until_reset(headers: Mapping[str, str], kind: str) -> float:
    for name in ("x-ratelimit", "ratelimit"):
        is_used_up = headers.get(f"{name}-remaining{kind}", "0") == "0"
        if is_used_up and (said := headers.get(f"{name}-reset{kind}", "").strip()[:_LONGEST]):
            return parse_span(said)
    return 0.0


def find_wait(text: str) -> float:
    """Return the seconds after which a message permits a retry; 0 if it does not say."""
    found = _SAID.search(text)
    said = found and next(filter(None, found.groups()))
    return min(parse_span(said.strip(" ,").removesuffix(" and")), MOST_WAIT) if said else 0.0


def parse_span(text: str) -> float:
    """Return the seconds of a time span, or until a date; 0 for other text."""
    parts = [*_PART.finditer(text)]
    rest = _PART.sub("", text).replace("and", "").strip(" ,")
    if parts and not rest:
        seconds = sum(float(part[1]) * _UNITS[(part[2] or "").lower()] for part in parts)
        if seconds > 1e11:
            seconds /= 1_000  # a time in milliseconds
        return seconds if seconds < 1e9 else max(0.0, seconds - datetime.now(UTC).timestamp())
    return _until(text) if text[:1].isalnum() else 0.0


def _until(text: str) -> float:
    try:
        when = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
        wait = (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(wait, 0.0) if isfinite(wait) else 0.0
