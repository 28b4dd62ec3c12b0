"""The parsing of the pieces that name a time, one after the other, and their combined meaning."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from channels.language import _, format_date
from plugins.jobs.recurrence import in_zone
from plugins.jobs.when_again import LAST, Every, list_months, read_every
from plugins.jobs.when_clock import (
    ClockError,
    TimeOfDay,
    read_clock,
    read_part,
    read_zone,
    to_time,
    unknown_zone,
)
from plugins.jobs.when_days import (
    Day,
    Duration,
    WhenError,
    add_months,
    read_after,
    read_day,
    read_span,
)
from plugins.jobs.when_words import (
    BOUND_PART,
    COUNTED,
    EDGE,
    EXAMPLES,
    JOINED,
    LIMIT,
    MORE_SPAN,
    OFTEN,
    RANGE,
    STRONG,
    TIME_NUMBER,
    VAGUE,
    fold,
)

GUESSES = {"morning": 9, "noon": 12, "afternoon": 15, "evening": 20, "night": 20}
"""The hour that is assumed if only a part of the day is named; 9 if none is."""
LONGEST = 120
"""The maximum length of the text of a time, in characters."""
SEARCHED = 1_000
"""The number of characters of a text that are searched for a time of the day."""


class When(Struct, frozen=True):
    """A rule (`recurrence.py`) that counts from `anchor` (seconds since 1970), which for a one-off
    job is its time; and the text after it. `is_assumed` means that no time of the day was given;
    `zone` is a time zone that was named. `others` are other possible readings: the label of each,
    and how it is written."""

    rule: str
    anchor: float
    rest: str
    is_assumed: bool = False
    zone: str = ""
    others: tuple[tuple[str, str], ...] = ()


class NoTimeFound(WhenError):
    """A text that does not begin with a time."""


def unknown() -> WhenError:
    return NoTimeFound(
        "I can't tell when you mean. Begin with the time: {examples}.", examples=_(EXAMPLES)
    )


def after(text: str, end: int) -> str:
    return text[end:].lstrip(" \t\n,:;-–—，：、")


_GAP = re.compile(r"[\s,，]*(?:(?:um|at|a|的|在)\s+(?=\d{1,2}:))?")
_CLOSED = re.compile(r"\s*(?:[:;—：；|\n]|\s-\s)")
_HINT = re.compile(
    r"\b(?:morgen|ubermorgen|heute|uhr|um|jeden?|taglich|alle"
    r"|(?:mon|diens|donners|frei|sams|sonn)tags?|mittwochs?)\b"
)
_FROM = re.compile(r"\s+(?:from|after)\s+")
_BARE = re.compile(r"\d{1,2}(?=\s*(?:[:;：；\n]|$))")
_TOMORROW = re.compile(r"(?:morgen|manana)" + EDGE)
_AND = re.compile(r"\s*(?:,\s*(?:and|und|et|y)?|and|und|et|y|&|和|、|/|or|oder|ou|o|或)\s*")
_OR = re.compile(r"or|oder|ou|o|或")
_EVERY_OTHER = re.compile(r"每隔一(?=[个個]?(?:周|週|星期|礼拜|月|年))")
_ALSO_DAILY = re.compile(r"\s*(?:每[天日]|都)")


class PhraseReading:
    """The state of parsing one text."""

    def __init__(self, text: str, now: float, zone: ZoneInfo) -> None:
        self.text, self.now, self.zone = text, now, zone
        self.folded = fold(text[:LONGEST])
        if _HINT.search(self.folded):  # "um 9:00 am Fenster" is not in the morning
            self.folded = re.sub(r"(?<=\d) am(?= )", " an", self.folded)
        self.folded = _EVERY_OTHER.sub("每个两", self.folded)
        self.today = datetime.fromtimestamp(now, zone).date()
        self.end = 0
        self.every: Every | None = None
        self.day: Day | None = None
        self.clocks: list[TimeOfDay] = []
        self.part = ""
        self.seconds = 0.0
        self.zone_key = self.zone_name = ""

    def read(self) -> When:
        while self._parse_piece():
            pass
        if self.end == 0 or not (
            self.every or self.day or self.clocks or self.part or self.seconds
        ):
            raise unknown()
        if self.part and not (self.every or self.day or self.clocks):
            self.day = Day(self.today, self.end)  # "evening: read"
        self._refuse_unused()
        rest = after(self.text, self.end)
        if self.seconds:
            return When("", self.now + self.seconds, rest)
        return self._again(self.every, rest) if self.every else self._once(rest)

    def _parse_piece(self) -> bool:
        """Parse one more piece; return False if there is none."""
        if self.end and _CLOSED.match(self.folded, self.end):
            return False
        gap = _GAP.match(self.folded, self.end)
        at = gap.end() if gap else self.end
        if at >= len(self.folded) or (self.seconds and self.end):
            return False
        daily = _ALSO_DAILY.match(self.folded, self.end) if self.every else None
        if daily and self.end and not self.clocks:  # "from Monday to Friday, each day"
            self.end = daily.end()
            return True
        if self.end == 0:
            self.every = read_every(self.folded, 0)
            if self.every:
                self.end, self.part = self.every.end, self.every.part
                return True
            if span := read_after(self.folded, 0):
                return self._parse_span(span.months, span.days, span.seconds, span.end)
            if self._parse_from():
                return True
        starts = {self.end, at} if gap and gap[0].strip() else {at}
        return any(self._parse_at(one) for one in sorted(starts, reverse=True)) or (
            gap is not None and self._parse_at(self._before_word(at, gap[0]))
        )

    def _before_word(self, at: int, gap: str) -> int:
        """Return the beginning of a word like "at" that is inside the gap."""
        return at - len(gap.lstrip(" ,，\n\t"))

    def _parse_span(self, months: int, days: int, seconds: float, end: int) -> bool:
        if seconds and (months or days):
            raise WhenError(
                "“{said}” has days and hours in it. Say the day and the time.", said=self.text[:end]
            )
        if not (seconds or months or days):
            raise WhenError("“{said}” is now. Say a later time.", said=self.text[:end])
        self.end, self.seconds = end, seconds
        if not seconds:
            self.day = Day(add_months(self.today, months) + timedelta(days), end)
        return True

    def _parse_from(self) -> bool:
        """Parse "a week from friday"."""
        span = read_span(self.folded, 0)
        word = _FROM.match(self.folded, span.end) if span else None
        day = read_day(self.folded, word.end(), self.today, is_behind=False) if word else None
        if span is None or day is None or span.seconds:
            return False
        self.day, self.end, self.part = self._later(day, span), day.end, day.part
        return True

    def _later(self, day: Day, span: Duration) -> Day:
        return Day(add_months(day.on, span.months) + timedelta(span.days), day.end)

    def _parse_weeks(self, at: int) -> bool:
        """Parse "in two weeks" after a day or a time."""
        span = read_after(self.folded, at) if self.day or self.clocks else None
        if span is None or self.every:
            return False
        if span.seconds or (self.day and (span.months or span.days % 7)):
            raise self._unused(at)
        self.day, self.end = self._later(self.day or Day(self.today, 0), span), span.end
        return True

    def _parse_at(self, at: int) -> bool:
        folded = self.folded
        if self.clocks and not self.zone_key:
            half = bool(self.clocks[-1].half)
            if zone := read_zone(self.text[:LONGEST], self.end, is_half=half):
                self.zone_key, self.zone_name, self.end = zone
                return True
        is_day = bool(self.day or self.every)
        if is_day and not self.part and not self.clocks and (word := _TOMORROW.match(folded, at)):
            self.part, self.end = "morning", word.end()
            return True
        if not self.clocks and (clock := read_clock(folded, at, is_day)):
            return self._parse_clock(clock)
        if (part := read_part(folded, at)) and not self.part:
            is_bound = bool(BOUND_PART.match(folded[at : part[1]]))
            if not self.clocks or (is_bound and not self.clocks[-1].half):
                self.part, self.end = part
                return True
        return self._parse_day(at) or self._parse_weeks(at)

    def _parse_clock(self, clock: TimeOfDay) -> bool:
        self.clocks.append(clock)
        self.end = clock.end
        while (more := _AND.match(self.folded, self.end)) and len(self.clocks) < 6:
            following = read_clock(self.folded, more.end(), False)
            if following is None and self.every and (bare := _BARE.match(self.folded, more.end())):
                following = read_clock(f"at {bare[0]}", 0, False)
                following = following and replace(following, end=bare.end())
            elif following is None or following.is_loose:
                break
            if following is None:
                break
            if self.every is None or not self.every_allows_several or _OR.search(more[0].strip()):
                raise self._one_time(following.end)
            self.clocks.append(following)
            self.end = following.end
        return True

    @property
    def every_allows_several(self) -> bool:
        return self.every is not None and not self.every.seconds

    def _one_time(self, end: int) -> WhenError:
        return WhenError(
            "“{said}” has more than one time. Say one, or make a reminder for each; every day "
            "at two times is `every day at 8:00 and 20:00`.",
            said=self.text[:end].strip(),
        )

    def _parse_day(self, at: int) -> bool:
        if self.every:
            return False
        if self.day and not self.day.is_weekday:
            return False
        found = read_day(self.folded, at, self.today, is_behind=bool(self.clocks))
        if found is None:
            return False
        if self.day:
            if found.is_weekday or self.clocks:
                return False
            if found.on.isoweekday() != self.day.on.isoweekday():
                day = format_date(found.on)
                raise WhenError("{date} is another day of the week. Say one of the two.", date=day)
        self.day, self.end = found, found.end
        self.part = self.part or found.part
        return True

    # --- questions about unclear times ------------------------------------------------------------

    def _refuse_unused(self) -> None:  # noqa: C901  # one question after another
        """Raise WhenError for text that looks like a time and was not used."""
        folded, end = self.folded, self.end
        if (
            end < len(folded)
            and folded[end].isalnum()
            and folded[end - 1].isdigit()
            and ord(folded[end]) < 0x2E7F
        ):
            raise self._unused(end)
        if JOINED.match(folded, end):
            raise self._unused(end)
        if _CLOSED.match(folded, end) and not re.match(r"\s+-\s+\d", folded[end:]):
            return self._doubt_text(end)
        begin = end + len(folded[end:]) - len(folded[end:].lstrip(" \t\n,，"))
        if self.seconds:
            if MORE_SPAN.match(folded, begin) or self._is_piece(begin):
                raise self._unused(begin)
            return None
        if RANGE.match(folded, end) and (self.clocks or self.day):
            raise self._unused(begin)
        more = _AND.match(folded, end)
        if more and folded[more.start() : more.end()].strip(" ,"):
            is_part = self._is_part(more.end())
            if is_part or self._is_piece(more.end()):
                raise self._unused(begin)
        limits = (LIMIT, MORE_SPAN, OFTEN) if self.every else ()
        if any(one.match(folded, begin) for one in limits):
            raise self._unused(begin)
        if self._is_piece(begin):
            raise self._unused(begin)
        is_open = not self.clocks and not (self.every and self.every.seconds)
        is_bare = bool(self.clocks) and self.clocks[-1].is_loose and not self.part
        if is_bare and more and COUNTED.match(folded, more.end()):
            raise self._unused(begin)
        if is_open and (TIME_NUMBER.match(folded, begin) or VAGUE.match(folded, begin)):
            raise self._unused(begin)
        if is_bare and COUNTED.match(folded, begin):
            raise self._unused(begin)
        return self._doubt_text(end)

    def _doubt_text(self, end: int) -> None:
        if self.clocks or self.seconds or (self.every and self.every.seconds):
            return
        rest = fold(self.text[end : end + SEARCHED])
        if found := STRONG.search(rest):
            raise self._unused(end + found.start(), found[0])

    def _is_part(self, at: int) -> bool:
        """Return whether another part of the day is named here: "in the morning and evening"."""
        part = read_part(self.folded, at)
        is_bound = part and BOUND_PART.match(self.folded[at : part[1]])
        return bool(part and (is_bound or (self.part and not self.clocks)))

    def _is_piece(self, at: int) -> bool:
        """Return whether another time or day begins here."""
        folded = self.folded
        try:
            if (clock := read_clock(folded, at, False)) and clock.part != "exact":
                return True
            day = read_day(folded, at, self.today, is_behind=True)
        except ClockError:
            return True
        return day is not None

    def _unused(self, at: int, text: str = "") -> WhenError:
        words = self.text[at:].split()[:3]
        text = text.strip() or " ".join(words)[:40]
        return WhenError(
            "I understand “{read}”, but not the time in “{said}”. Write the whole time first, "
            "then a colon, then the text: `tomorrow 9:00: call Mom`.",
            read=self.text[: self.end].strip(),
            said=text,
        )

    # --- the meaning ------------------------------------------------------------------------------

    def _moments(self) -> list[tuple[time, int]]:
        if self.clocks:
            return [to_time(clock, self.part) for clock in self.clocks]
        if self.part == "small":
            raise unknown()
        return [(time(GUESSES.get(self.part, 9)), 0)]

    @property
    def _is_open(self) -> bool:
        """Return whether the hour could be in the morning or in the evening."""
        if len(self.clocks) != 1 or self.part:
            return False
        (clock,) = self.clocks
        is_twelve = not clock.half and not clock.part and 1 <= clock.hour <= 11
        return is_twelve and (not clock.has_colon or clock.hour < 7)

    def _once(self, rest: str) -> When:
        zone = ZoneInfo(self.zone_key) if self.zone_key else self.zone
        here = datetime.fromtimestamp(self.now, zone).date()
        ((moment, later),) = self._moments()
        day = self.day.on if self.day else here
        if self.day and self.day.again:
            return self._again(Every(self.end, week=self.day.again), rest)
        wall = datetime.combine(day + timedelta(later), moment)
        is_moved = False
        if in_zone(wall, zone) <= self.now:
            if self.day is None:
                wall += timedelta(1)
            elif self.day.is_weekday and day == self.today:
                wall += timedelta(7)
            elif day == here and self._is_open:  # "today at 5", said at noon
                wall, is_moved = wall + timedelta(hours=12), True
        anchor = in_zone(wall, zone)
        self._check_zone(anchor, zone)
        others = []
        if self._is_open and not is_moved:
            other = wall + timedelta(hours=12)
            if self.day is None and in_zone(wall - timedelta(hours=12), zone) > self.now:
                other = wall - timedelta(hours=12)
            others.append((f"{other:%H:%M}", f"{other:%Y-%m-%d %H:%M} {zone.key}"))
        if self.day and self.day.other:
            other = datetime.combine(self.day.other, moment)
            others.append((format_date(other), f"{other:%Y-%m-%d %H:%M} {zone.key}"))
        return When("", anchor, rest, not self.clocks, self.zone_key, tuple(others))

    def _check_zone(self, at: float, zone: ZoneInfo) -> None:
        """Raise WhenError if the zone has another name at that time: EST in summer."""
        if self.zone_name and datetime.fromtimestamp(at, zone).tzname() != self.zone_name:
            raise unknown_zone(self.zone_name)

    def _again(self, every: Every, rest: str) -> When:
        if every.seconds:
            if self.clocks or self.part:
                raise self._unused(every.end)
            return When(f"every {every.seconds}", self.now, rest)
        moments = self._moments()
        at, later = moments[0]
        if self.zone_name:
            self._check_zone(self.now, ZoneInfo(self.zone_key))
        if any(one[1] != later for one in moments) or (later and every.days != 1):
            later = self._shift(moments)
        fields = self._to_cron(every, later)
        zone = ZoneInfo(self.zone_key) if self.zone_key else self.zone
        if not fields:
            if len(moments) > 1:
                raise self._one_time(self.end)
            wall = datetime.combine(datetime.fromtimestamp(self.now, zone).date(), at)
            while in_zone(wall, zone) <= self.now or (
                every.week and wall.isoweekday() % 7 not in every.week
            ):
                wall += timedelta(1)
            rule = f"days {every.days}"
            return When(rule, in_zone(wall, zone), rest, not self.clocks, self.zone_key)
        minutes = {one.minute for one, _later in moments}
        if len(minutes) > 1:
            raise self._one_time(self.end)
        hours = sorted({one.hour for one, _later in moments})
        rule = f"cron {at.minute} {','.join(map(str, hours))} {fields}"
        others = []
        if self._is_open:
            other = (at.hour + 12) % 24
            others.append((f"{other:02}:{at.minute:02}", f"cron {at.minute} {other} {fields}"))
        return When(rule, 0.0, rest, not self.clocks, self.zone_key, tuple(others))

    def _shift(self, moments: list[tuple[time, int]]) -> int:
        if len(moments) > 1:
            raise self._one_time(self.end)
        return moments[0][1]

    def _to_cron(self, every: Every, later: int) -> str:
        """Return the last three fields of crontab; "" if crontab can't express the recurrence."""
        if later and (every.month_day or every.nth):
            raise unknown()
        if every.month_day == LAST:
            return "L * *"
        if every.month_day and every.months > 1:
            return f"{every.month_day} {list_months(every, self.today)} *"
        if every.month_day:
            return f"{every.month_day} {every.month or '*'} *"
        if every.nth:
            return f"* * {every.week[0]}{'L' if every.nth == LAST else f'#{every.nth}'}"
        if every.week and every.days <= 7:
            days = sorted((day + later) % 7 for day in every.week)
            is_working = days == [1, 2, 3, 4, 5]
            return f"* * {'1-5' if is_working else ','.join(map(str, days))}"
        return "* * *" if every.days == 1 else ""
