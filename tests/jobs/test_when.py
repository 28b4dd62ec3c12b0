"""Tests of due times: phrases in five languages, repetitions, changed clocks."""

from __future__ import annotations

import re
import tomllib
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plugins.jobs.recurrence import (
    RuleError,
    check,
    count_missed,
    describe,
    in_zone,
    next_time,
    postpone,
)
from plugins.jobs.when import WhenError, read
from tests.tables import each_row

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 11, 22, 20, 13, tzinfo=BERLIN).timestamp()  # a Sunday


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=BERLIN).timestamp()  # type: ignore[arg-type, misc]  # no zone


def on_the_wall(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, BERLIN):%Y-%m-%d %H:%M}"


# The time phrase, and after the | the remaining text.
ENGLISH = {
    "tomorrow 9:00 |call Mom": "2026-11-23 09:00",
    "tomorrow at 9am: |call Mom": "2026-11-23 09:00",
    "tomorrow at 9 |call 5 people": "2026-11-23 09:00",
    "tomorrow 9 p.m. |read": "2026-11-23 21:00",
    "tomorrow at 9 o'clock |read": "2026-11-23 09:00",
    "tomorrow at 9.30 |read": "2026-11-23 09:30",
    "tomorrow evening at 8 |read": "2026-11-23 20:00",
    "tomorrow night at 10 |read": "2026-11-23 22:00",
    "tonight at 12 |sleep": "2026-11-23 00:00",
    "tomorrow midnight |sleep": "2026-11-23 00:00",
    "tomorrow at noon |eat": "2026-11-23 12:00",
    "tomorrow 9:00 |A cake": "2026-11-23 09:00",
    "tomorrow 9:00 |mix 1/2 cup": "2026-11-23 09:00",
    "9:00 |wake up": "2026-11-23 09:00",
    "in 20 minutes |tea": "2026-11-22 20:33",
    "in half an hour |tea": "2026-11-22 20:43",
    "in 1 hour and 30 minutes |tea": "2026-11-22 21:43",
    "in 3 days at 8:00 |may flowers": "2026-11-25 08:00",
    "on friday at 18:30 |dinner": "2026-11-27 18:30",
    "January 5 at 9:00 |fly": "2027-01-05 09:00",
    "12/25 9:00 |gifts": "2026-12-25 09:00",
    "2027-01-05 08:00 |fly": "2027-01-05 08:00",
    "2027/03/04 9:00 |fly": "2027-03-04 09:00",
    "2027 5 1 9:00 |fly": "2027-05-01 09:00",
    "13 1 2027 9:00 |fly": "2027-01-13 09:00",
    "13/1/27 9:00 |fly": "2027-01-13 09:00",
}
GERMAN = {
    "morgen um 9 Uhr |Mama anrufen": "2026-11-23 09:00",
    "morgen früh um 7 |laufen": "2026-11-23 07:00",
    "morgen um 8.30 Uhr |laufen": "2026-11-23 08:30",
    "morgen 9:00 |Seite 31.2. lesen": "2026-11-23 09:00",
    "übermorgen 9:00 |los": "2026-11-24 09:00",
    "nächsten Freitag um 18 Uhr |Essen": "2026-11-27 18:00",
    "nächsten Montag um 8 |laufen": "2026-11-23 08:00",
    "in einer Stunde |Tee": "2026-11-22 21:13",
    "5. Januar 9 Uhr 30 |Flug": "2027-01-05 09:30",
    "31.12. 18:00 |Feier": "2026-12-31 18:00",
    "29.2. 9:00 |leap": "2028-02-29 09:00",
    "5.1.27 9:00 |fliegen": "2027-01-05 09:00",
}
CHINESE = {
    "明天上午9点|开会": "2026-11-23 09:00",
    "明天下午三点半 |开会": "2026-11-23 15:30",
    "后天下午3点半 |开会": "2026-11-24 15:30",
    "下周一9点|开会": "2026-11-23 09:00",
    "本周五下午3点 |开会": "2026-11-27 15:00",
    "2小时后|喝水": "2026-11-22 22:13",
    "两小时后|喝水": "2026-11-22 22:13",
    "1月5日9点 |飞": "2027-01-05 09:00",
}


@each_row("said", [ENGLISH, GERMAN, CHINESE])
def test_a_time_that_a_person_names_is_read_and_the_text_is_left(said: dict[str, str]) -> None:
    for text, when in said.items():
        found = read(text.replace("|", ""), NOW, BERLIN)
        assert (found.rule, on_the_wall(found.anchor)) == ("", when), text
        assert found.rest == text.partition("|")[2], text
        assert not found.is_assumed, text


def test_what_comes_again_is_read() -> None:
    for text, rule, rest in (
        ("every day 9:00 stand up", "cron 0 9 * * *", "stand up"),
        ("every monday and thursday at 18:30 gym", "cron 30 18 * * 1,4", "gym"),
        ("every weekday 8:15 news", "cron 15 8 * * 1-5", "news"),
        ("every 2 hours drink", "every 7200", "drink"),
        ("every other day at 7:00 run", "days 2", "run"),
        ("jeden Montag um 9 Uhr Runde", "cron 0 9 * * 1", "Runde"),
        ("jeden Sonnabend um 8 laufen", "cron 0 8 * * 6", "laufen"),
        ("alle 30 Minuten trinken", "every 1800", "trinken"),
        ("每天9点 喝水", "cron 0 9 * * *", "喝水"),
        ("每天晚上12点 睡觉", "cron 0 0 * * *", "睡觉"),
        ("every evening at 8 read", "cron 0 20 * * *", "read"),
        ("every monday evening at 8 read", "cron 0 20 * * 1", "read"),
        ("every week on monday at 8:00 run", "cron 0 8 * * 1", "run"),
        ("cron */10 9-17 * * 1-5 look", "cron */10 9-17 * * 1-5", "look"),
    ):
        found = read(text, NOW, BERLIN)
        assert (found.rule, found.rest) == (rule, rest), text
    for text, first in (
        ("every other monday at 9:00 x", "2026-11-23 09:00"),
        ("every 2 weeks on friday 9:00 x", "2026-11-27 09:00"),
        ("jede zweite Woche am Freitag um 9 x", "2026-11-27 09:00"),
    ):
        found = read(text, NOW, BERLIN)
        assert (found.rule, on_the_wall(found.anchor), found.rest) == ("days 14", first, "x")


def test_what_could_mean_two_things_or_nothing_is_not_guessed() -> None:
    for sentence, texts in {
        "can't tell when": (
            *("may call Ann", "the 5th pay", "1 x", "every 0 minutes x", "1h30m x"),
            "every other monday and friday 9:00 x",
        ),
        "`2027-04-03` or `2027-03-04`": ("03/04/2027 9:00 x",),
        "`2026-12-05` or `2027-05-12`": ("5/12 9:00 x",),
        "`2028-01-05` or `2028-05-01`": ("5 1 2028 call mum",),
        "`2027-01-05` or `2027-05-01`": ("05-01-2027 9:00 x",),
        "5.1 could be day 5": ("5.1 x",),
        "3/4 could be day 3": ("9:00 3/4 x", "friday 3/4 x"),
        "1/2 could be day 1": ("tomorrow 9:00 1/2 cup",),
        "no day 31 in month 2": ("31.2. 9:00 x",),
        "no day 01 in month 13": ("2027-13-01 9:00 x",),
        "“in 0 minutes” is now": ("in 0 minutes x",),
        "“in 0 days” is now": ("in 0 days x",),
        "25:00 is no time": ("tomorrow 25:00 x", "every day at 25:00 x"),
        "crontab": ("cron 61 * * * * x",),
    }.items():
        for text in texts:
            with pytest.raises(WhenError, match=sentence):
                read(text, NOW, BERLIN)


def test_the_ends_of_the_calendar_break_nothing() -> None:
    for text in ("9999-12-31 23:59 x", "0001-01-01 1:00 x"):
        for zone in ("Asia/Tokyo", "America/New_York"):
            with suppress(WhenError):
                read(text, NOW, ZoneInfo(zone))


def test_a_time_that_is_taken_suits_the_part_of_the_day_and_is_said_to_be_assumed() -> None:
    for text, when, rest in (
        ("tomorrow afternoon rest", "2026-11-23 15:00", "rest"),
        ("tomorrow call Mom", "2026-11-23 09:00", "call Mom"),
    ):
        found = read(text, NOW, BERLIN)
        assert (on_the_wall(found.anchor), found.is_assumed, found.rest) == (when, True, rest)


@given(st.text(max_size=80))
def test_no_text_breaks_the_reading(text: str) -> None:
    with suppress(WhenError):
        assert read(text, NOW, BERLIN).rest in text


def following(rule: str, anchor: float, after: float, count: int) -> list[str]:
    found = []
    for _ in range(count):
        after = next_time(rule, anchor, after, BERLIN)
        found.append(on_the_wall(after))
    return found


@each_row("rule", ["cron 0 9 * * *", "days 1"])
def test_nine_o_clock_stays_nine_o_clock_when_the_clocks_jump(rule: str) -> None:
    anchor = at(2026, 3, 1, 9, 0)
    assert following(rule, anchor, at(2026, 3, 28, 8, 0), 2) == [
        "2026-03-28 09:00",
        "2026-03-29 09:00",
    ]
    assert following(rule, anchor, at(2026, 10, 24, 8, 0), 2) == [
        "2026-10-24 09:00",
        "2026-10-25 09:00",
    ]


@each_row("rule", ["cron 30 2 * * *", "days 1"])
def test_an_hour_that_is_left_out_loses_no_run_and_one_that_comes_twice_adds_none(
    rule: str,
) -> None:
    anchor = at(2026, 3, 1, 2, 30)
    spring = following(rule, anchor, at(2026, 3, 28, 1, 0), 3)
    assert [day[:10] for day in spring] == ["2026-03-28", "2026-03-29", "2026-03-30"]
    autumn = following(rule, anchor, at(2026, 10, 24, 1, 0), 3)
    assert [day[:10] for day in autumn] == ["2026-10-24", "2026-10-25", "2026-10-26"]


@given(
    st.sampled_from(["every 60", "every 5400", "days 1", "days 3", "cron 30 2 * * *"]),
    st.floats(1.7e9, 1.9e9),
    st.floats(-1e7, 1e7),
)
def test_the_next_time_is_always_later_and_nothing_is_due_before_it(
    rule: str, anchor: float, gap: float
) -> None:
    after = anchor + gap
    coming = next_time(rule, anchor, after, BERLIN)
    assert coming > after
    between = after + (coming - after) / 2
    assert between == coming or next_time(rule, anchor, between, BERLIN) == coming


def test_what_was_missed_is_counted() -> None:
    day = 86_400.0
    rule, zone = "cron 0 9 * * *", BERLIN
    assert count_missed(rule, 0, at(2026, 11, 1, 9, 0), at(2026, 11, 4, 10, 0), zone) == 3
    assert count_missed("", 0, day, 9 * day, zone) == 0


def test_quiet_hours_put_off_until_their_end() -> None:
    for clock, quiet, later in (
        ((23, 5), "22:00-07:00", "2026-11-23 07:00"),
        ((6, 59), "22:00-07:00", "2026-11-22 07:00"),
        ((7, 0), "22:00-07:00", "2026-11-22 07:00"),
        ((21, 59), "22:00-07:00", "2026-11-22 21:59"),
        ((12, 30), "12:00-13:00", "2026-11-22 13:00"),
        ((12, 30), "", "2026-11-22 12:30"),
    ):
        assert on_the_wall(postpone(at(2026, 11, 22, *clock), quiet, BERLIN)) == later


JUMPING = (
    *("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut"),
    *("America/Santiago", "Antarctica/Troll", "Africa/Casablanca"),
)
"""Zones with jumps at two, at midnight, by half an hour, by two hours, and for Ramadan."""


def days_of_jumps(zone: ZoneInfo) -> list[datetime]:
    """Return the start of each day in 2026 that does not have 24 hours."""
    days = [datetime(2026, 1, 1) + timedelta(n) for n in range(360)]
    return [d for d in days if in_zone(d + timedelta(1), zone) - in_zone(d, zone) != 86_400]


@each_row("name", JUMPING)
def test_what_comes_daily_comes_once_on_the_days_on_which_clocks_jump(name: str) -> None:
    zone = ZoneInfo(name)
    assert len(days_of_jumps(zone)) >= 2
    for day, hour, minute in product(days_of_jumps(zone), range(5), (0, 15, 30)):
        anchor = in_zone(datetime(2026, 1, 1, hour, minute), zone)
        for rule in (f"cron {minute} {hour} * * *", "days 1"):
            moment, came = in_zone(day - timedelta(1), zone) - 1, []
            for _time in range(3):
                moment = next_time(rule, anchor, moment, zone)
                came.append(datetime.fromtimestamp(moment, zone).date())
            assert came == [day.date() + timedelta(n) for n in (-1, 0, 1)], (rule, came)


@each_row("name", JUMPING)
def test_quiet_hours_end_on_the_days_on_which_clocks_jump(name: str) -> None:
    zone = ZoneInfo(name)
    for day, quiet in product(days_of_jumps(zone), ("22:00-07:00", "00:30-02:30", "01:00-03:00")):
        for seconds in range(0, 2 * 86_400, 900):
            moment = in_zone(day - timedelta(1), zone) + seconds
            later = postpone(moment, quiet, zone)
            assert moment <= later <= moment + 12 * 3_600
            assert postpone(later, quiet, zone) == later


def test_rules_that_never_happen_or_mean_nothing_are_refused() -> None:
    for rule in ("cron 0 0 30 2 *", "cron x", "whenever"):
        with pytest.raises(RuleError):
            check(rule, BERLIN, NOW)


def test_a_rule_is_told_in_words() -> None:
    assert describe("cron 0 9 * * 1,4", 0, BERLIN) == "every Monday and Thursday at 09:00"
    last = "on the last Friday of every month at 17:00"
    assert describe("cron 0 17 * * 5L", 0, BERLIN) == last
    assert describe("cron 0 9 * * 1#1", 0, BERLIN) == "on the first Monday of every month at 09:00"
    assert describe("cron 0 9 1 1,4,7,10 *", 0, BERLIN) == (
        "on day 1 of Jan, Apr, Jul and Oct at 09:00"
    )
    assert describe("cron 0 9 31 12 *", 0, BERLIN) == "every year on 31 Dec at 09:00"
    assert describe("cron 0 9 1 1 1", 0, BERLIN) == "cron 0 9 1 1 1"
    assert describe("cron 0 9 L * *", 0, BERLIN) == "on the last day of every month at 09:00"
    assert describe("every 5400", 0, BERLIN) == "every 90 minutes"
    assert describe("days 2", at(2026, 11, 1, 7, 0), BERLIN) == "every 2 days at 07:00"


GROUPS: list[dict[str, Any]] = tomllib.loads(
    (Path(__file__).parent / "phrases.toml").read_text(encoding="utf-8")
)["group"]


def understood(phrase: str, now: float, zone: ZoneInfo, expected: str) -> tuple[str, str]:
    """Return the parsed time in the format of the corpus, and the remaining text."""
    try:
        found = read(re.sub(r"[|^]", "", phrase), now, zone)
    except WhenError:
        return "asks", ""
    when = f"{datetime.fromtimestamp(found.anchor, zone):%Y-%m-%d %H:%M}"
    if expected.startswith("in "):
        when = f"in {found.anchor - now:.0f} seconds"
    if found.rule:
        when = found.rule + (f" @ {when}" if found.rule.startswith("days") else "")
    is_span = re.match("in ", phrase) and not expected.startswith("~")
    mark = "~" if found.is_assumed and not is_span and not expected.startswith("in ") else ""
    return mark + when + (f" # {found.zone}" if found.zone else ""), found.rest


def test_every_phrase_of_the_corpus_means_what_it_should() -> None:
    wrong, count = [], 0
    for group in GROUPS:
        zone = ZoneInfo(group["zone"])
        now = datetime.fromisoformat(group["now"]).replace(tzinfo=zone).timestamp()
        for phrase, expected in group["phrases"]:
            count += 1
            got = understood(phrase, now, zone, expected)
            first, is_behind, _when = phrase.partition("^")
            text = first.strip() if is_behind else phrase.partition("|")[2]
            if got != (expected, text):
                wrong.append(f"{phrase}: {got}, not {expected}")
    assert wrong == []
    assert count >= 300


def test_fields_of_crontab_with_endless_numbers_are_refused_with_a_sentence() -> None:
    for fields in ("0-59/1 " + "1" * 5_000 + " * * *", "1," * 5_000 + "1 * * * *"):
        with pytest.raises(WhenError, match="too long"):
            read(f"cron {fields} x", 1.8e9, ZoneInfo("UTC"))


WORDS = (
    "tomorrow 9 9:00 at um in every monday und and 1930 pm am halb neun 明天 点 3点 半 每周一 三五 "
    "à 19h30 a las y media hour half 5-6 3/4 31.12. until EST , : - x"
)


@given(st.lists(st.sampled_from(WORDS.split()), max_size=12))
def test_no_mixture_of_words_breaks_the_reading_or_loses_a_text(
    words: list[str],
) -> None:
    text = " ".join((*words, "kitchen"))
    with suppress(WhenError):
        assert read(text, 1.8e9, ZoneInfo("Europe/Berlin")).rest.endswith("kitchen")
