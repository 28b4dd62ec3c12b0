"""The next time of a recurring job, in its time zone; pure functions.

A rule is a text: "" for a one-off job, "cron 0 9 * * 1-5" for five fields of crontab, "every 7200"
for an interval in seconds, "days 2" for every second day at the same time of the day. Daylight
saving time changes the clocks twice a year: a job due at a skipped time runs within the hour after
it, and one due at a repeated time runs the first time.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from channels.language import MONTHS, _, at_clock, format_weekday, number_of

SHORTEST = 60
"""The minimum number of seconds between two times of a rule."""
LONGEST_CRON = 200
"""The maximum length of the fields of crontab in characters."""
_QUIET = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)\s*[-–]\s*([01]?\d|2[0-3]):([0-5]\d)")


class RuleError(ValueError):
    """An invalid rule. The text is a sentence."""


def next_time(rule: str, anchor: float, after: float, zone: tzinfo) -> float:
    """Return the first time after `after` at which a rule that is counted from `anchor` is due; 0
    if there is none. Times are in seconds since 1970. Raises RuleError."""
    kind, _space, rest = rule.partition(" ")
    match kind:
        case "":
            return anchor if anchor > after else 0.0
        case "every":
            step = int(rest)
            passed = max(0, int((after - anchor) // step) + 1) if after >= anchor else 0
            return anchor + passed * step
        case "days":
            return _next_day(int(rest), anchor, after, zone)
        case "cron":
            return _next_by_cron(rest, after, zone)
    raise RuleError(f"{rule!r} is no rule.")


def _next_day(days: int, anchor: float, after: float, zone: tzinfo) -> float:
    first = datetime.fromtimestamp(anchor, zone)
    passed = (datetime.fromtimestamp(after, zone).date() - first.date()).days
    count = max(0, passed // days)
    while (at := in_zone(first.replace(tzinfo=None) + timedelta(days * count), zone)) <= after:
        count += 1
    return at


def _next_by_cron(fields: str, after: float, zone: tzinfo) -> float:
    now = datetime.fromtimestamp(after, zone)
    if len(fields) > LONGEST_CRON or re.search(r"\d{5}", fields):
        raise RuleError(_("These fields of crontab are too long."))
    try:
        return next(CronSim(fields, now)).timestamp()
    except StopIteration:
        return 0.0
    except CronSimError as error:
        raise RuleError(
            _("{fields} are no five fields of crontab ({error}).", fields=repr(fields), error=error)
        ) from None


def in_zone(wall: datetime, zone: tzinfo) -> float:
    """Return the timestamp of a local time, in seconds since 1970; an hour later if clocks skip
    that time."""
    return wall.replace(tzinfo=zone, fold=0).astimezone(UTC).timestamp()


def check(rule: str, zone: tzinfo, now: float) -> None:
    """Raise RuleError for a rule that is invalid, is never due, or is due too often."""
    first = next_time(rule, now, now, zone)
    if not first:
        raise RuleError(_("That never happens."))
    if next_time(rule, now, first, zone) - first < SHORTEST:
        raise RuleError(_("That is too often: once a minute is the most."))


def count_missed(rule: str, anchor: float, due: float, now: float, zone: tzinfo) -> int:
    """Return how many times a rule was due after `due` and until `now`, up to 1,000."""
    missed, at = 0, due
    while rule and missed < 1_000 and 0 < (at := next_time(rule, anchor, at, zone)) <= now:
        missed += 1
    return missed


def postpone(at: float, quiet: str, zone: tzinfo) -> float:
    """Return the time itself, or the end of the quiet hours ("22:00-07:00") if it is within
    them."""
    if not at or not (found := _QUIET.fullmatch(quiet.strip())):
        return at
    begin, end = (time(int(found[n]), int(found[n + 1])) for n in (1, 3))
    wall = datetime.fromtimestamp(at, zone)
    now = wall.time().replace(tzinfo=None)
    is_quiet = begin <= now < end if begin <= end else (now >= begin or now < end)
    if not is_quiet or begin == end:
        return at
    day = wall.date() + timedelta(1 if now >= end else 0)
    later = in_zone(datetime.combine(day, end), zone)
    if later <= at:  # clocks were set back into the quiet hours
        later = datetime.combine(day, end, zone).replace(fold=1).timestamp()
    return later


def is_quiet_span(text: str) -> bool:
    """Return whether a text is a span of quiet hours; "" (none) is valid."""
    return not text or _QUIET.fullmatch(text.strip()) is not None


_DAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_AT = re.compile(
    r"(\d{1,2}) (\d{1,2}(?:,\d{1,2}){0,5}) (\*|\d{1,2}|L) (\*|\d{1,2}(?:,\d{1,2}){0,5}) (\*|"
    r"[0-6](?:[,-][0-6])*|[0-6](?:L|#[1-4]))"
)
_NTH = {"1": "first", "2": "second", "3": "third", "4": "fourth", "L": "last"}


def describe(rule: str, anchor: float, zone: tzinfo) -> str:
    """Return a rule in words: "every day at 09:00", "every 2 hours"; "once"."""
    kind, _space, rest = rule.partition(" ")
    match kind:
        case "every":
            count, unit = _in_units(int(rest))
            return number_of(count, f"every {unit}", f"every {{n}} {unit}s")
        case "days":
            at = datetime.fromtimestamp(anchor, zone)
            return number_of(
                int(rest), "every day at {at}", "every {n} days at {at}", at=f"{at:%H:%M}"
            )
        case "cron":
            return _describe_cron(rest)
    return _("once")


def _describe_cron(fields: str) -> str:
    if not (found := _AT.fullmatch(fields)):
        return f"cron {fields}"
    times = [f"{int(hour):02}:{int(found[1]):02}" for hour in found[2].split(",")]
    at = f" {_('and')} ".join(times)
    day, months, week = found[3], found[4], found[5]
    if week == "*":
        return _describe_days(day, months, at) or f"cron {fields}"
    if (day, months) != ("*", "*"):
        return f"cron {fields}"
    if week == "1-5":
        return _("every weekday at {at}", at=at)
    if week[-2:-1] == "#" or week[-1] == "L":
        name, nth = _(_DAYS[int(week[0])]), _(_NTH[week[-1]])
        return _("on the {nth} {day} of every month at {at}", nth=nth, day=name, at=at)
    if "-" in week:
        return f"cron {fields}"
    days = [_(_DAYS[int(one)]) for one in week.split(",")]
    return _("every {days} at {at}", days=f" {_('and')} ".join(days), at=at)


def _describe_days(day: str, months: str, at: str) -> str:
    """Return a day of the month, or every day, in words; "" if there is no wording for it."""
    if months == "*":
        if day == "*":
            return _("every day at {at}", at=at)
        if day == "L":
            return _("on the last day of every month at {at}", at=at)
        return _("on day {day} of every month at {at}", day=day, at=at)
    if not day.isdigit():
        return ""
    *names, last = [_(MONTHS[(int(one) - 1) % 12]) for one in months.split(",")]
    if not names:
        return _("every year on {day} {month} at {at}", day=day, month=last, at=at)
    listed = f"{', '.join(names)} {_('and')} {last}"
    return _("on day {day} of {months} at {at}", day=day, months=listed, at=at)


def format_seconds(seconds: int) -> str:
    """Return a span in its largest whole unit, for the model: "2 hours"."""
    count, unit = _in_units(seconds)
    return unit if count == 1 else f"{count} {unit}s"


UNITS = {604_800: "week", 86_400: "day", 3_600: "hour", 60: "minute", 1: "second"}


def _in_units(seconds: int) -> tuple[int, str]:
    return next((seconds // size, unit) for size, unit in UNITS.items() if seconds % size == 0)


def format_time(at: float, zone: tzinfo) -> str:
    """Return a time with its zone, for people: "Mon 23 Nov 2026, 09:00 (Europe/Berlin)"."""
    name = zone.key if isinstance(zone, ZoneInfo) else "UTC"
    wall = datetime.fromtimestamp(at, zone)
    clock = wall.strftime("%H:%M:%S" if wall.second else "%H:%M")
    return at_clock(format_weekday(wall), clock) + _(" ({text})", text=name)
