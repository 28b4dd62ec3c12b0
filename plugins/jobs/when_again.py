"""Recurring times, as people write them: "every monday and thursday", "jede zweite Woche am
Freitag", "每周一至周五", "tous les jours". Pure functions over folded text."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date

from msgspec import Struct
from msgspec.structs import replace

from plugins.jobs.when_days import Duration, WhenError, read_span
from plugins.jobs.when_words import (
    DAY,
    EDGE,
    MONTH_NAME,
    NUMBER,
    PLURAL,
    WEEK,
    WEEKDAY,
    count,
    month,
    size_of,
    weekday,
)


class Every(Struct, frozen=True):
    """A recurring time: on days of the week (0 for Sunday), on a day of the month or of the year,
    or at an interval of days or seconds; with its end in the text. `nth` is the number of the
    weekday within the month. LAST is the last one, also for the days of a month. `months` is the
    interval in months of a day of the month, from `month` on (0: from the next one)."""

    end: int
    week: tuple[int, ...] = ()
    month_day: int = 0
    nth: int = 0
    month: int = 0
    months: int = 1
    days: int = 0
    seconds: int = 0
    part: str = ""


LAST = -1
_EVERY = re.compile(
    r"(?:every|each|jede[nrsm]?|alle|chaque|tous les|toutes les|cada|todos los|todas las|an jedem"
    r"|al?le)\s+|每隔?(?:个|個)?\s*"
)
_WORKING = re.compile(
    r"(?:weekdays?|workdays?|(?:working|business) days?|werktage?s?|arbeitstage?|个?工作日"
    r"|jours? ouvr(?:e|able)s?|jours? de semaine|dias? (?:laborables?|habiles?|de semana))" + EDGE
)
_WEEKEND = re.compile(
    r"(?:weekends?|wochenenden?|(?:个|個)?(?:周|週)末|week-?ends?|fin(?:es)? de semana)" + EDGE
)
_EACH_DAY = re.compile(
    r"(?P<morning>mornings?|morgen|vormittag|(?:天)?(?:早上|早晨|早(?![饭餐飯中晚])|上午)|matins?|mananas?)"
    r"|(?P<afternoon>afternoons?|nachmittag|(?:天)?下午|apres-midis?|tardes?)"
    r"|(?P<evening>evenings?|abend|(?:天)?(?:晚上|晚(?![饭餐飯]))|soirs?|noches?)|(?P<night>nights?|nacht)"
    r"|(?P<noon>(?:天)?中午|mittag|midis?)"
)
_ALONE = re.compile(
    r"(?:(?P<daily>daily|taglich|quotidiennement|diariamente|a diario)|(?P<hourly>hourly|stundlich)"
    r"|(?P<working>on weekdays|weekdays|on workdays|werktags|an werktagen|工作日|en semaine)"
    r"|(?P<weekend>on weekends|weekends|an wochenenden)|(?P<second>每?隔一?[天日]|un jour sur deux)"
    r"|(?P<weekly>weekly|wochentlich)|(?P<monthly>monthly|monatlich)"
    r"|(?P<fortnightly>bi-?weekly|fortnightly|zweiwochentlich|(?:14|vierzehn)-?tag(?:ig|lich))"
    r"|(?P<quarterly>quarterly|vierteljahrlich|quartalsweise|trimestriel(?:lement)?"
    r"|trimestralmente)|(?P<yearly>yearly|annually|jahrlich|annuellement|anualmente)"
    r"|(?P<nightly>nightly)"
    r")" + EDGE
)
_AND = r"\s*(?:,\s*(?:and|und|et|y)?|and|und|et|y|e|&|和|、|及|/|\+)\s*"
_TO = r"\s*(?:-|–|to|through|thru|till|bis|au|al?|至|到)\s*"
_DAY_ONE = re.compile(
    rf"(?:le\s+|el\s+|los\s+|am\s+|on\s+|du\s+|de\s+|von\s+|from\s+)?(?P<day>{WEEKDAY}){EDGE}\.?"
)
_DAY_MORE = re.compile(
    rf"(?:(?P<to>{_TO})|{_AND})(?:(?:every|each|jeden|le|el|les|los|on|am|cada|tous les|每)\s*)?"
    rf"(?:(?P<day>{WEEKDAY}){EDGE}|(?P<han>[一二三四五六日天])"
    r"(?![\u4e00-\u9fff]?[点點月号日])(?=[、至到和,\s\d\u3400-\u9fff]|$))"
)
_HAN_RUN = re.compile(r"[一二三四五六日天]{1,6}(?![点點月号號年分])")
_OTHER = re.compile(
    r"(?P<n>other|second|third|zweite[nrs]?|dritte[nrs]?|vierte[nrs]?)\s+"
    r"(?:(?P<unit>day|week|month|tag|woche|monat)" + EDGE + rf"|(?P<day>{WEEKDAY}){EDGE})"
)
_UNIT_ALONE = re.compile(
    r"(?P<minute>minutes?|分钟)|(?P<hour>hours?|stunden?|小时|heures?|horas?)"
    r"|(?P<day>days?|tage?|天|日|jours?|dias?)|(?P<week>weeks?|wochen?|周|週|星期|semaines?|semanas?)"
    r"|(?P<fortnight>fortnights?)|(?P<month>months?|monate?|月|mois|mes|meses)|(?P<year>years?|jahre?|年|ans?|annees?|anos?)"
)
_ON = re.compile(r"\s*(?:,\s*)?(?:on|am|le|el|les|los|的)?\s*")
_NTH = {
    r"first|1st|erste[nrs]?|1\.|premiers?|1er|primer(?:o|os)?": 1,
    r"second|2nd|zweite[nrs]?|2\.|deuxiemes?|segundos?": 2,
    r"third|3rd|dritte[nrs]?|3\.|troisiemes?|tercer(?:o|os)?": 3,
    r"fourth|4th|vierte[nrs]?|4\.|quatriemes?|cuartos?": 4,
    r"last|letzte[nrs]?|derniers?|ultimos?": LAST,
}
_NTH_DAY = (
    rf"(?P<nth>{'|'.join(_NTH)})\s+(?:(?P<weekday>{WEEKDAY})|days?|tage?s?|jours?|dias?){EDGE}"
)
_FIRST_OR_LAST = re.compile(
    rf"(?P<nth>{'|'.join(words for words, n in _NTH.items() if n in (1, LAST))})\s+"
    rf"(?P<weekday>{WEEKDAY}){EDGE}"
)
"""A weekday that occurs once a month: "every last friday". "Every second friday" means every other
one."""
_QUARTER = re.compile(
    r"(?:quarters?(?!\s+(?:of\s|hour))|quartal|trimestres?|(?:个|個)?季度(?:的?第一天)?)" + EDGE
)
_QUARTER_HOUR = re.compile(r"quarter\s+(?:of\s+an\s+)?hour|viertelstunde|quart d'heure" + EDGE)
_MONTHS = re.compile(
    rf"(?P<n>\d{{1,2}}|{NUMBER}|other|second|third|zweiten?|dritten?)\s+(?:months?|monate?n?|mois|meses)"
    rf"{EDGE}|(?P<han>\d{{1,2}}|[二两三四六])个?月"
)
_OF_A_YEAR = {
    "other": 2,
    "second": 2,
    "third": 3,
    "zweite": 2,
    "zweiten": 2,
    "dritte": 3,
    "dritten": 3,
}
_NTH_OF_MONTH = re.compile(
    rf"(?:(?:every|each|on|the|am|an|jede[nrsm]?|chaque|tous|les?|cada|todos|los|el)\s+){{0,3}}{_NTH_DAY}"
    r"(?:\s+(?:of|in|im|des|du|del?|the|each|every|eines|jede[sn]|chaque|cada|el)){1,3}"
    rf"\s+(?:month|monate?s?|mois|mes){EDGE}"
)
_NTH_BEHIND = re.compile(
    rf"\s*,?\s*(?:(?:on|am|le|el|the|den)\s+){{0,2}}{_NTH_DAY}"
    r"|的?(?:第(?P<han>[一二三四])个?個?|最[后後]一?个?個?)(?:(?P<han_day>(?:周|週|星期|礼拜)[一二三四五六日天])|[天日])"
)
_IS_EVERY = re.compile("every|each|jede|chaque|tous|cada|todos")
_MONTH_DAY = re.compile(
    r"(?:\s*(?:(?:on|am|le|el)\s+)?(?:the\s+|den\s+|dia\s+)?(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.)(?!\d)"
    r"|\s*(?:on the|am|le|el(?: dia)?|dia)\s+(?P<e>\d{1,2})(?![\d:.])|的?(?P<f>\d{1,2})[号號日])"
)
_OF_MONTH = re.compile(
    r"(?:(?:on\s+)?the\s+|am\s+|le\s+|el\s+(?:dia\s+)?)?(?P<d>\d{1,2})(?:st|nd|rd|th|er|\.)?\s+"
    r"(?:of\s+(?:the|every|each)\s+month|(?:jedes|des|im)\s+monats?|de\s+chaque\s+mois|du\s+mois"
    r"|de\s+cada\s+mes|del?\s+mes)" + EDGE
)
_YEAR_DAY = re.compile(
    rf"\s*(?:(?:on|am|le|el)\s+)?(?:the\s+)?"
    rf"(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th|er|\.)?\s*(?:of\s+|de\s+)?(?P<n>{MONTH_NAME})"
    rf"|(?P<n2>{MONTH_NAME})\s+(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?![\d:])"
    rf"|(?P<m>\d{{1,2}})月(?P<d3>\d{{1,2}})[日号]?){EDGE}"
)


def read_every(text: str, start: int) -> Every | None:  # noqa: C901  # one case after another
    """Return the recurring time at a position in folded text. Raises WhenError for one that no rule
    can express."""
    if found := _ALONE.match(text, start):
        return _alone(text, found)
    found = _NTH_OF_MONTH.match(text, start)
    if found and _IS_EVERY.search(found[0]):
        return _on_nth(found)
    every = _EVERY.match(text, start)
    at = every.end() if every else start
    if every and (found := _OF_MONTH.match(text, at)):
        return _on_month_day(int(found["d"]), found.end())
    if not every:
        if (found := _OF_MONTH.match(text, start)) and re.search(
            "every|each|jedes|chaque|cada", found[0]
        ):
            return _on_month_day(int(found["d"]), found.end())
        first = _DAY_ONE.match(text, start)
        is_list = first and (PLURAL.fullmatch(first["day"]) or _begins_range(text, first.end()))
        return _days(text, start) if is_list else None
    if found := _FIRST_OR_LAST.match(text, at):
        return _on_nth(found)
    if found := _QUARTER_HOUR.match(text, at):
        return Every(found.end(), seconds=900)
    if found := _QUARTER.match(text, at):
        return _on_quarter(text, found.end())
    if found := _MONTHS.match(text, at):
        return _after_months(text, found)
    if found := _YEAR_DAY.match(text, at):
        return _on_year_day(found)
    if found := _WORKING.match(text, at):
        return Every(found.end(), week=(1, 2, 3, 4, 5))
    if found := _WEEKEND.match(text, at):
        return Every(found.end(), week=(0, 6))
    if found := _OTHER.match(text, at):
        return _other(text, found)
    if days := _days(text, at):
        return days
    if (found := _EACH_DAY.match(text, at)) and _ends_word(text, found.end()):
        return Every(found.end(), days=1, part=str(found.lastgroup))
    if (found := _UNIT_ALONE.match(text, at)) and _ends_word(text, found.end()):
        return _by_unit(text, str(found.lastgroup), found.end())
    return _by_span(text, at)


def _ends_word(text: str, end: int) -> bool:
    return not (text[end : end + 1].isalpha() and text[end - 1] < "\u3000")


def _begins_range(text: str, end: int) -> bool:
    more = _DAY_MORE.match(text, end)
    return bool(more and more["to"])


def _on_nth(found: re.Match[str]) -> Every:
    """Return a recurrence on the first Monday, or on the last day, of each month."""
    got = found.groupdict()
    nth = "一二三四".find(got["han"]) + 1 if got.get("han") else LAST
    if got["nth"]:
        nth = next(n for words, n in _NTH.items() if re.fullmatch(words, got["nth"]))
    if day := got["weekday"] or got.get("han_day"):
        return Every(found.end(), week=(weekday(day),), nth=nth)
    return Every(found.end(), month_day=nth)


def _alone(text: str, found: re.Match[str]) -> Every | None:
    match found.lastgroup:
        case "daily":
            return Every(found.end(), days=1)
        case "hourly":
            return Every(found.end(), seconds=3_600)
        case "working":
            return Every(found.end(), week=(1, 2, 3, 4, 5))
        case "weekend":
            return Every(found.end(), week=(0, 6))
        case "second":
            return Every(found.end(), days=2)
        case "nightly":
            return Every(found.end(), days=1, part="night")
        case "quarterly":
            return _on_quarter(text, found.end())
    units = {"weekly": "week", "fortnightly": "fortnight", "yearly": "year"}
    return _by_unit(text, units.get(str(found.lastgroup), "month"), found.end())


def _days(text: str, start: int) -> Every | None:
    """Return a list of days of the week, which may contain ranges."""
    first = _DAY_ONE.match(text, start)
    if first is None:
        return None
    named, end = [weekday(first["day"])], first.end()
    if first["day"][-1] >= "\u3000" and (run := _HAN_RUN.match(text, end)):
        named += [_han_day(one) for one in run[0]]
        end = run.end()
    for _time in range(7):
        more = _DAY_MORE.match(text, end)
        if more is None:
            break
        number = weekday(more["day"]) if more["day"] else _han_day(more["han"])
        if more["to"]:
            named += [(named[-1] + n) % 7 for n in range(1, (number - named[-1]) % 7)]
        named.append(number)
        end = more.end()
    return Every(end, week=tuple(sorted(set(named))))


def _han_day(one: str) -> int:
    return "日一二三四五六".find(one.replace("天", "日"))


def _other(text: str, found: re.Match[str]) -> Every | None:
    number = {"t": 3, "d": 3, "v": 4}.get(found["n"][0], 2)
    if found["day"]:
        if _DAY_MORE.match(text, found.end()):
            return None
        return Every(found.end(), week=(weekday(found["day"]),), days=7 * number)
    if found["unit"] in ("day", "tag"):
        return Every(found.end(), days=number)
    if found["unit"] in ("week", "woche"):
        return _on_weekday(text, found.end(), number)
    return None


def _on_weekday(text: str, end: int, weeks: int) -> Every | None:
    on = _ON.match(text, end)
    days = _days(text, on.end() if on else end)
    if days is None:
        return Every(end, days=7 * weeks)
    if weeks == 1:
        return days
    return None if len(days.week) > 1 else Every(days.end, week=days.week, days=7 * weeks)


def _by_unit(text: str, unit: str, end: int) -> Every | None:
    match unit:
        case "minute" | "hour":
            return Every(end, seconds=60 if unit == "minute" else 3_600)
        case "day":
            return Every(end, days=1)
        case "week" | "fortnight":
            return _on_weekday(text, end, 1 if unit == "week" else 2)
        case "month":
            if found := _NTH_BEHIND.match(text, end):
                return _on_nth(found)
            if found := _MONTH_DAY.match(text, end):
                return _on_month_day(int(found["d"] or found["e"] or found["f"]), found.end())
            raise _no_day()
    found = _YEAR_DAY.match(text, end)
    return _on_year_day(found) if found else None


def _no_day() -> WhenError:
    return WhenError("Say on which day of the month, as in `every month on the 1st 9:00`.")


def _on_year_day(found: re.Match[str]) -> Every | None:
    """Return a recurrence on a day that each year has."""
    name = found["n"] or found["n2"]
    number = month(name) if name else int(found["m"])
    day = int(found["d"] or found["d2"] or found["d3"])
    if 0 < number <= 12 and 0 < day <= monthrange(2027, number)[1]:
        return Every(found.end(), month_day=day, month=number)
    return None


def _on_quarter(text: str, end: int) -> Every:
    """Return a recurrence in January, April, July and October: on the first, if no day is named."""
    found = _MONTH_DAY.match(text, end)
    if found is None:
        return Every(end, month_day=1, month=1, months=3)
    on = _on_month_day(int(found["d"] or found["e"] or found["f"]), found.end())
    return replace(on, month=1, months=3)


def _after_months(text: str, found: re.Match[str]) -> Every | None:
    """Return a recurrence on a day of every second, third, fourth or sixth month."""
    number = found["n"] or found["han"]
    months = _OF_A_YEAR.get(number) or int(count(number))
    if months not in (2, 3, 4, 6):
        return None
    day = _MONTH_DAY.match(text, found.end())
    if day is None:
        raise _no_day()
    return replace(_on_month_day(int(day["d"] or day["e"] or day["f"]), day.end()), months=months)


def list_months(every: Every, today: date) -> str:
    """Return the months of a recurring day, as a field of crontab: if no month is named, the first
    is the next one in which the day is still to come."""
    first = every.month or today.month + (today.day >= every.month_day)
    return ",".join(map(str, sorted((first + n - 1) % 12 + 1 for n in range(0, 12, every.months))))


def _on_month_day(day: int, end: int) -> Every:
    if not 0 < day <= 28:
        raise WhenError(
            "Not every month has a day {day}. Take one up to 28, or write fields of crontab.",
            day=day,
        )
    return Every(end, month_day=day)


def _by_span(text: str, at: int) -> Every | None:
    span = read_span(text, at) or _han_span(text, at)
    if span is None or span.months:
        return None
    if span.seconds:
        return None if span.days else Every(span.end, seconds=int(span.seconds))
    if not span.days:
        return None
    if span.days % 7 == 0 and re.search(
        "week|woche|semaine|semana|fortnight|周|星期", text[at : span.end]
    ):
        return _on_weekday(text, span.end, span.days // 7)
    return Every(span.end, days=span.days)


_HAN_SPAN = re.compile(
    r"(?P<n>\d{1,4}|[一二两三四五六七八九十]{1,3}|半)\s*个?(?P<u>分钟|小时|天|周|星期)"
)


def _han_span(text: str, at: int) -> Duration | None:
    if not (found := _HAN_SPAN.match(text, at)):
        return None
    number = 0.5 if found["n"] == "半" else count(found["n"])
    size = size_of(found["u"])
    if size >= DAY:
        return Duration(0, int(number) * (7 if size == WEEK else 1), 0, found.end())
    return Duration(0, 0, number * size, found.end())
