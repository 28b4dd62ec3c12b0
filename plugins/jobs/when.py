"""A parser for times in English, German, Chinese, French or Spanish: "tomorrow 9:00", "jeden Montag
um 8 Uhr", "demain à 19h30".

A text begins with pieces (a day, a time of the day, a part of the day, a span, a recurrence, a
zone). They are parsed one after the other by hand-written grammars; the rest is the reminder's
text. Nothing is silently ignored: text after the pieces that looks like another piece, or like a
number where a time is missing, is refused with a question.
"""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from plugins.jobs.recurrence import RuleError, check, in_zone
from plugins.jobs.when_clock import ClockError
from plugins.jobs.when_days import WhenError
from plugins.jobs.when_reading import (
    LONGEST,
    NoTimeFound,
    PhraseReading,
    When,
    after,
    unknown,
)
from plugins.jobs.when_words import VAGUE, fold

__all__ = ["When", "WhenError", "read"]


def read(text: str, now: float, zone: ZoneInfo) -> When:
    """Return the time at the beginning of a text and the text after it. Raises WhenError."""
    text = text.strip()
    try:
        found = _read_cron(text) or _read_iso(text, zone) or _read_words(text, now, zone)
        if found.rule:
            check(found.rule, ZoneInfo(found.zone) if found.zone else zone, now)
    except (ClockError, RuleError) as error:
        if isinstance(error, ClockError):
            raise WhenError("{time} is no time of the day.", time=error) from None
        raise WhenError(str(error)) from None
    except WhenError:
        raise
    except (OverflowError, ValueError):  # a year beyond the calendar's range
        raise unknown() from None
    return found


_CRON = re.compile(
    r"cron\s+[\"'`“]?((?:[\d*/,A-Za-z#-]+\s+){4}[\d*/,A-Za-z#-]+)[\"'`”]?(?!\S)", re.IGNORECASE
)


def _read_cron(text: str) -> When | None:
    if found := _CRON.match(text):
        return When(f"cron {' '.join(found[1].split())}", 0.0, after(text, found.end()))
    return None


_ISO = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?(?![\w:.])"
)


def _read_iso(text: str, zone: ZoneInfo) -> When | None:
    """Return the time of a text that begins with an ISO 8601 timestamp."""
    if not (found := _ISO.match(text)):
        return None
    moment = datetime.fromisoformat(found[0])
    at = moment.timestamp() if moment.tzinfo else in_zone(moment, zone)
    return When("", at, after(text, found.end()))


_REMIND_ME = re.compile(
    r"(?:please\s+)?(?:remind\s+)?(?:me|us)\s+|(?:bitte\s+)?(?:erinnere?\s+)?(?:mich|uns)\s+"
    r"|(?:rappelle[- ])?moi\s+|请?提醒我?\s*",
    re.IGNORECASE,
)
_TO = re.compile(r"(?:to|that|daran,?|dass|an|de|d'|que)\s+", re.IGNORECASE)
_WORD = re.compile(r"(?<!\S)\S")


def _read_words(text: str, now: float, zone: ZoneInfo) -> When:
    """Return the time at the beginning of a text, or else at its end: "call Mom tomorrow at 9"."""
    asked = _REMIND_ME.match(text)
    text = text[asked.end() :] if asked else text
    try:
        found = PhraseReading(text, now, zone).read()
    except NoTimeFound:
        return _read_suffix(text, now, zone)
    word = _TO.match(found.rest) if asked else None
    return replace(found, rest=found.rest[word.end() :]) if word else found


def _read_suffix(text: str, now: float, zone: ZoneInfo) -> When:
    """Return the time at the end of a text. It must begin with the first piece that looks like a
    time: "at 7 Eleven at 9pm" is refused with a question."""
    text = text.rstrip(" .!?。！？")
    for begin in _WORD.finditer(text, max(1, len(text) - LONGEST)):
        try:
            found = PhraseReading(text[begin.start() :], now, zone).read()
        except NoTimeFound:
            continue
        except WhenError:
            break
        if found.rest:
            break
        if found.is_assumed and _ends_vaguely(text[: begin.start()]):
            break
        word = _TO.match(text)
        task = text[word.end() if word else 0 : begin.start()]
        return replace(found, rest=task.rstrip(" \t\n,:;-–—，：、"))
    raise unknown()


def _ends_vaguely(text: str) -> bool:
    """Return whether a text ends with a time that only the person knows ("after lunch")."""
    ending = fold(text[-LONGEST:].rstrip())
    return any(found.end() == len(ending) for found in VAGUE.finditer(ending))
