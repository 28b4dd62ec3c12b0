"""Dates and times for people, in each language."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as some

from channels.language import (
    LANGUAGES,
    format_date,
    format_datetime,
    format_stored_date,
    format_weekday,
    speaking,
)

SAID = {
    "en": ("23 Nov 2026", "Mon 23 Nov 2026", "23 Nov 2026, 09:05"),
    "de": (
        "23.\xa0Nov. 2026",
        "Mo., 23.\xa0Nov. 2026",
        "23.\xa0Nov. 2026, 09:05",
    ),
    "zh": ("2026年11月23日", "2026年11月23日 周一", "2026年11月23日 09:05"),
}


def test_a_date_is_said_in_each_language() -> None:
    at = datetime(2026, 11, 23, 8, 5, tzinfo=UTC)
    zone = timezone(timedelta(hours=1))
    assert tuple(SAID) == LANGUAGES
    for language, said in SAID.items():
        with speaking(language):
            assert (format_date(at), format_weekday(at), format_datetime(at, zone)) == said
            assert format_datetime(at.timestamp(), zone) == said[2]
            assert format_stored_date("2026-11-23", "09:05") == said[2]


@given(some.dates(), some.sampled_from(LANGUAGES))
def test_no_two_days_are_said_alike(day: date, language: str) -> None:
    with speaking(language):
        said = format_date(day)
        numbers = [int(one) for one in re.findall(r"\d+", said)]
        assert numbers[:1] == [day.year] if language == "zh" else numbers == [day.day, day.year]
        assert said == format_stored_date(str(day)) != format_date(_another(day))
        assert format_weekday(day) != said


def _another(day: date) -> date:
    return day - timedelta(28) if day > date(1, 2, 1) else day + timedelta(31)


def test_what_is_no_day_stays_as_it_is_written() -> None:
    for day, clock, said in [("", "", ""), ("", "9:00", "9:00"), ("soon", "", "soon")]:
        assert format_stored_date(day, clock) == said
