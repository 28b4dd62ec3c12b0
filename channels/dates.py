"""Dates and times for people, in the caller's language. Programs and the model get ISO 8601."""

from __future__ import annotations

from datetime import UTC, date, datetime, tzinfo

from channels.language import _

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def say_date(day: date) -> str:
    """Return a date: 23 Nov 2026."""
    return _("{day} {month} {year}", day=day.day, month=_(MONTHS[day.month - 1]), year=day.year)


def say_day(day: date) -> str:
    """Return a date with its weekday: Mon 23 Nov 2026."""
    return _("{weekday} {date}", weekday=_(DAYS[day.weekday()]), date=say_date(day))


def say_moment(at: datetime | float, zone: tzinfo) -> str:
    """Return a date and time: 23 Nov 2026, 09:00. A number is seconds since 1970."""
    wall = (at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)).astimezone(zone)
    return at_clock(say_date(wall), f"{wall:%H:%M}")


def at_clock(day: str, clock: str) -> str:
    """Return a day in words with a time of that day."""
    return _("{date}, {clock}", date=day, clock=clock)


def say_written(day: str, clock: str = "") -> str:
    """Return a day stored as text (2026-11-23) in words; other text is unchanged."""
    try:
        said = say_date(date.fromisoformat(day))
    except ValueError:
        said = day
    return at_clock(said, clock) if said and clock else said or clock
