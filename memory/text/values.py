"""Values in a text that a person may correct: the facts of a receipt, and values that only matter
beside another of their kind: days of the week, single digits, Chinese numerals, capitalised
words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from memory.patterns import lazy
from memory.text.facts import ACCOUNT, find_facts
from memory.text.names import MONTH_OF
from memory.text.numbers import NUMBER_WORDS, read_numeral

_N = "一二三四五六七八九十"
_NUMERAL = "一二三四五六七八九"
_TRADITIONAL = str.maketrans("點號週兩萬塊個禮後億歲間張樓層", "点号周两万块个礼后亿岁间张楼层")
_TIME = lazy(
    rf"(凌晨|早上|上午|中午|下午|傍晚|晚上)?([{_N}两]{{1,3}}|\d{{1,2}})点"
    rf"(?:(半)|(一刻|三刻)|([{_N}]{{1,3}}|\d{{1,2}})分?(?![\d个]))?"
)
_WIDE_DAY = lazy(
    rf"(?<![\d路街巷弄])(?<!\d月)(?<![{_N}]月)([{_N}]{{1,3}}|\d{{1,2}})[号日](?![楼站台线路门])"
)
_DATE = lazy(rf"([{_N}]{{1,2}}|\d{{1,2}})月(?:([{_N}]{{1,3}})[号日]|(?![\d{_N}份]*[号日]))")
_SCALED = lazy(r"(?<![\d.,])(\d[\d.,]{0,20})\s?([百千万亿])(?:美元|欧元|元|块钱?|人民币)?")
_SCALES = {"百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}
_NUMBER = lazy(
    rf"(?<![零{_N}百千万亿两几数第周期拜\d])"
    rf"(?:[{_N}百千万两][零{_N}百千万]{{1,8}}|[二三四五六七八九十两])"
    rf"(?![零{_N}百千万月号日点])(?=([^，。！？；、\s])?)"
)
COUNTED = frozenset(
    "个位块元人岁次年天周本张只条盒瓶杯斤公克米里分页层楼路班级折倍件套间桌桶排室栋单秒小箱袋支把台辆双颗粒"
    "份家口名成环万站架头碗片度晚夜趟场吨"
)
"""Characters behind a numeral that counts something."""
_METRES = lazy(rf"([{_N}两]{{1,2}}|\d)([米块])([{_NUMERAL}]|\d)(?![\d{_N}])")


def simplify(text: str) -> str:
    """Return a text with the characters of values replaced by their simplified forms, in place."""
    return text.translate(_TRADITIONAL)


def find_chinese(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    """Yield the values of a text in Chinese: kind, place and forms."""
    if text.isascii():
        return
    yield from _dates(text) if "月" in text else ()
    yield from _times(text) if "点" in text else ()
    for found in _WIDE_DAY.finditer(text) if "号" in text or "日" in text else ():
        yield "day", found.start(), found.end(), frozenset({str(read_numeral(found[1]))})
    for found in _METRES.finditer(text):
        number = frozenset({f"{read_numeral(found[1])}.{read_numeral(found[3])}"})
        yield "number", found.start(), found.end(), number
    for found in _NUMBER.finditer(text):
        if len(found[0]) > 1 or (found[1] or "") in COUNTED:
            number = frozenset({str(read_numeral(found[0]))})
            yield "number", found.start(), found.end(), number
    for found in _SCALED.finditer(text):
        digits = found[1].replace(",", "").rstrip(".")
        if digits.count(".") < 2:
            value = f"{float(digits) * _SCALES[found[2]]:.6f}".rstrip("0").rstrip(".")
            yield "number", found.start(), found.end(), frozenset({value})


def _dates(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    for found in _DATE.finditer(text):
        month = read_numeral(found[1])
        if day := found[2]:
            forms = frozenset({f"{month}/{read_numeral(day)}"})
            yield "date", found.start(), found.end(), forms
        elif 0 < month < 13:
            yield "month", found.start(), found.end(), frozenset({str(month)})


def _times(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    for found in _TIME.finditer(text):
        hour = read_numeral(found[2])
        is_late = found[1] in ("下午", "傍晚", "晚上") and hour < 12
        minute = 30 if found[3] else {"一刻": 15, "三刻": 45}.get(found[4] or "", 0)
        minute = read_numeral(found[5]) if found[5] else minute
        forms = {f"{hour + 12 * is_late}:{minute:02}"}
        if not found[1]:
            forms.add(f"{hour + 12}:{minute:02}")
        yield "time", found.start(), found.end(), frozenset(forms)


SCANNED = 20_000
"""The number of characters of a text that are searched."""


class Value(Struct, frozen=True):
    """A value: its kind, its words, its place, and the forms by which it is found again."""

    kind: str
    text: str
    start: int
    end: int
    forms: frozenset[str]

    def is_same(self, other: Value) -> bool:
        return self.kind == other.kind and not self.forms.isdisjoint(other.forms)


_DAYS = (
    ("monday", "montag", "一"),
    ("tuesday", "dienstag", "二"),
    ("wednesday", "mittwoch", "三"),
    ("thursday", "donnerstag", "四"),
    ("friday", "freitag", "五"),
    ("saturday", "samstag", "sonnabend", "六"),
    ("sunday", "sonntag", "日", "天"),
)
_DAY_OF = {name: str(number) for number, names in enumerate(_DAYS) for name in names}
_LATIN_DAYS = "|".join(name for name in _DAY_OF if name.isascii() and len(name) > 1)
_WEEKDAY = lazy(rf"\b({_LATIN_DAYS})s?\b|(?:星期|礼拜|周)([一二三四五六日天])", re.IGNORECASE)
_IN_WEEKDAYS = ("day", "tag", "mittwoch", "sonnabend", "星期", "礼拜", "周")
_DAY = lazy(
    r"\b(\d{1,2})(?:st|nd|rd|th)\b"
    r"|\b(?:am|der|den|dem|vom|zum)\s(\d{1,2})\.(?=\s*(?:,|sondern|auf|statt|$))",
    re.IGNORECASE,
)
_MONTHS = "|".join(sorted(MONTH_OF, key=len, reverse=True))
_MONTH_BEFORE = lazy(rf"\b(?:{_MONTHS})\.?\s$", re.IGNORECASE)
_MONTH_BEHIND = lazy(rf"\s(?:of\s)?(?:{_MONTHS})\b", re.IGNORECASE)
_HALF_WORDS = lazy(
    r"\b(?:(half past|quarter past|quarter to|halb|viertel nach|viertel vor|dreiviertel))\s"
    r"([^\W\d_]{2,9}|\d{1,2})\b",
    re.IGNORECASE,
)
_IN_HALVES = ("half ", "quarter ", "halb ", "viertel")
_MINUTES = {
    "half past": 30,
    "quarter past": 15,
    "quarter to": -15,
    "halb": -30,
    "viertel nach": 15,
    "viertel vor": -15,
    "dreiviertel": -15,
}
_MONTH = lazy(rf"\b(?!(?:may|mar|dec|jan)\b)({_MONTHS})\b", re.IGNORECASE)
_MAY = lazy(r"(?<=\w\s)May\b(?!\s[Ii]\b)")
_WORD = lazy(r"[^\W\d_]{3,18}(?:(?<=ty)[- ](?:one|two|three|four|five|six|seven|eight|nine)\b)?")
_DIGIT = lazy(r"(?<![A-Za-z0-9_./:-])(?<!\d,)\d{1,9}(?![A-Za-z0-9_/:-]|[.,]\d)")
_ANY_DIGIT = lazy(r"\d")
_CHINESE = lazy(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_SCORE = lazy(r"(?<![\d:.])\d{1,3}:\d(?![\d:])")
_DOMAIN = lazy(
    r"(?<![\w@./:-])[a-z0-9][a-z0-9-]{1,60}(?:\.[a-z0-9-]{2,60}){0,3}\.(?:com|org|net|io|de|at|ch|cn|"
    r"eu|uk|us|fr|app|dev|info|local)\b(?:/[\w./-]{0,100}\w)?",
    re.IGNORECASE,
)
_CODE = lazy(
    r"(?<![A-Za-z0-9À-ÿ'’.&-])(?:[A-Z]{1,3}\d{1,3}|\d{1,3}[A-Z]|[B-HJ-Z]|X{0,2}[SL])"
    r"(?!(?![\u3400-\u9fff])[\w'’&-]|\.\w)"
)
_AT_HOUR = lazy(
    r"\b(?:at|um|gegen)\s(\d{1,2})(?![\d:%€$/-]|[.,]\d|\s?(?:[ap]\.?m\b|Uhr|o'clock|euro|"
    r"percent|prozent|degrees|grad|[A-Z]))",
    re.IGNORECASE,
)
_ORDINAL = lazy(
    r"\b(?:(second|zweite[nrsm]?)|(third|dritte[nrsm]?)|(fourth|vierte[nrsm]?)|"
    r"(fifth|fünfte[nrsm]?)|(sixth|sechste[nrsm]?)|(seventh|siebte[nrsm]?)|(eighth|achte[nrsm]?)|(ninth|neunte[nrsm]?)|"
    r"(tenth|zehnte[nrsm]?)|(first|erste[nrsm]?))\b(?!\s(?:thought|of all|mal|time))",
    re.IGNORECASE,
)
_VERSION = lazy(r"(?<![A-Za-z0-9])[vV]\d+(?:\.\d+){1,3}")
_JOINED = lazy(
    r"(?<![A-Za-z0-9-])(?:\d[\d-]{3,20}\d|(?:\+\d{1,3}|"
    r"0)\d{1,5}(?:[ /]| / )\d[\d -]{2,14}\d)(?![A-Za-z0-9-])"
)
_ACCOUNT = lazy(rf"(?<![A-Za-z0-9]){ACCOUNT}")
_CAPITALS = lazy(r"[A-ZÀ-ÖØ-Þ][\w'’]{1,40}(?:\s[A-ZÀ-ÖØ-Þ][\w'’]{1,40}){0,2}")
_WORDS_OF_TITLES = "mr mrs ms miss dr doctor prof the herr herrn frau doktor doktorin professor"
_TITLES = frozenset(_WORDS_OF_TITLES.split())
_WORDS_OF_NO_NAME = """
    i i'm i'll i've it it's its the a an no not yes sorry my we we're he she they you that this
    there her his our your actually correction wait make change move call send book let's is was
    are use put meet bring only but and or from to in on ich es er sie wir ihr nein nicht doch der
    die das ein mein meine unser unsere und oder am im um uhr euro ja korrektur update moment
    quatsch tippfehler entschuldigung mach nimm ruf dort beim forget scrap scratch ignore drop
    vergiss streich streiche ignorier ignoriere lass statt anstatt instead rather
"""
_NO_PART = frozenset((*re.findall(r"\S+", _WORDS_OF_NO_NAME), *MONTH_OF, *_DAY_OF))
NO_NAMES = _NO_PART | _TITLES
"""Capitalised words, folded, that are not names."""


def find_values(text: str) -> list[Value]:
    """Return the values of a text, in order."""
    said = text = text[:SCANNED]
    if not text.isascii():
        text = simplify(text)
    found: list[Value] = []
    taken = bytearray(len(text))
    finders = [_weekdays, _domains, find_chinese, _joined, _day_numbers]
    finders += [_codes, _facts, _digits, _words, _names]
    for finder in finders:
        for kind, start, end, forms in finder(text):
            if start < end and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append(Value(kind, said[start:end], start, end, forms))
    return sorted(found, key=lambda value: value.start)


_Places = Iterator[tuple[str, int, int, frozenset[str]]]


def _weekdays(text: str) -> _Places:
    folded = text.casefold()
    if not any(map(folded.__contains__, _IN_WEEKDAYS)):
        return
    for found in _WEEKDAY.finditer(text):
        day = _DAY_OF[(found[1] or found[2]).lower()]
        yield "weekday", found.start(), found.end(), frozenset({day})


def _joined(text: str) -> _Places:
    """Find phone numbers and the like: digits with hyphens that are not a date."""
    if not _ANY_DIGIT.search(text):
        return
    for found in _ACCOUNT.finditer(text):
        bare = found[0].replace(" ", "").casefold()
        yield "identifier", found.start(), found.end(), frozenset({bare})
    for found in _VERSION.finditer(text):
        yield "identifier", found.start(), found.end(), frozenset({found[0].casefold()})
    for found in _JOINED.finditer(text):
        if not found[0].isdigit() and not re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", found[0]):
            yield "identifier", found.start(), found.end(), frozenset({found[0]})


def _domains(text: str) -> _Places:
    """Find web addresses without a scheme. For the patterns, a Chinese character is a letter."""
    latin = _CHINESE.sub(" ", text) if "." in text else ""
    for found in _DOMAIN.finditer(latin):
        yield "url", found.start(), found.end(), frozenset({found[0].casefold()})


def _codes(text: str) -> _Places:
    """Find results of games, sizes, gates, and hours without minutes."""
    if _ANY_DIGIT.search(text):
        for found in _SCORE.finditer(text):
            yield "score", found.start(), found.end(), frozenset({found[0]})
        for found in _AT_HOUR.finditer(text):
            hour = int(found[1])
            if 0 < hour < 25:
                forms = frozenset({f"{hour}:00", f"{hour + 12}:00"})
                yield "time", found.start(1), found.end(1), forms
    for found in _CODE.finditer(text):
        kind = "identifier" if _ANY_DIGIT.search(found[0]) else "code"
        yield kind, found.start(), found.end(), frozenset({found[0].casefold()})


def _facts(text: str) -> _Places:
    if not _CHINESE.search(text):
        yield from _trimmed(text, find_facts(text))
        return
    yield from (fact for fact in find_facts(text) if fact[0] == "date")
    # for the patterns, a Chinese character is a letter, so no word ends between it and a digit
    latin = _CHINESE.sub(" ", text)
    for kind, start, end, forms in _trimmed(latin, find_facts(latin)):
        has_unit = kind == "number" and text[end : end + 1] in _BEHIND
        yield kind, start, end + has_unit, forms


_BEHIND = COUNTED | {"号", "元"}
"""The characters behind a number that are part of it, like a unit."""


def _trimmed(text: str, found: _Places) -> _Places:
    for kind, start, end, forms in found:
        while end > start and text[end - 1].isspace():
            end -= 1
        if kind == "date" and text[end - 1] == "." and text[end - 2].isalpha():
            end -= 1  # the full stop of the sentence
        if kind in ("path", "address", "url"):
            forms = frozenset({text[start:end].casefold()})
        yield kind, start, end, forms


def _day_numbers(text: str) -> _Places:
    for found in _DAY.finditer(text) if _ANY_DIGIT.search(text) else ():
        group = 1 if found[1] else 2
        start = found.start(group)
        if _MONTH_BEFORE.search(text[max(0, start - 16) : start]) or _MONTH_BEHIND.match(
            text, found.end()
        ):
            continue
        yield "day", start, found.end(), frozenset({found[group].lstrip("0")})


def _digits(text: str) -> _Places:
    for found in _DIGIT.finditer(text):
        yield "number", found.start(), found.end(), frozenset({found[0].lstrip("0") or "0"})


def _words(text: str) -> _Places:
    """Yield times, numbers and months in words."""
    folded = text.casefold()
    if any(map(folded.__contains__, _IN_HALVES)):
        yield from _halves(text)
    for found in _WORD.finditer(text):
        word, (start, end) = found[0].casefold(), found.span()
        if word not in NUMBER_WORDS:  # of "two three", or "zwei-drei", only the first
            word = re.split("[ -]", word)[0]
            end = start + len(word)
        if word in NUMBER_WORDS:
            yield "number", start, end, frozenset({str(NUMBER_WORDS[word])})
    for found in _ORDINAL.finditer(text):
        number = (found.lastindex or 0) % 10 + 1
        yield "ordinal", found.start(), found.end(), frozenset({str(number)})
    for pattern in (_MONTH, _MAY):
        for found in pattern.finditer(text):
            month = str(MONTH_OF[found[0].casefold()])
            yield "month", found.start(), found.end(), frozenset({month})


def _halves(text: str) -> _Places:
    """Yield times of half and quarter hours."""
    for found in _HALF_WORDS.finditer(text):
        word = found[2].casefold()
        hour = int(word) if word.isdigit() else NUMBER_WORDS.get(word, word in ("one", "eins"))
        if 0 < hour < 25:
            at = hour * 60 + _MINUTES[found[1].casefold()]
            forms = {f"{(at + more) // 60}:{at % 60:02}" for more in (0, 720)}
            yield "time", found.start(), found.end(), frozenset(forms)


def _names(text: str) -> _Places:
    for found in _CAPITALS.finditer(_CHINESE.sub("|", text)):
        words = found[0].split()
        start = found.start()
        while words and words[0].casefold() in NO_NAMES:
            start = text.find(words[1], start + len(words[0])) if len(words) > 1 else start
            words.pop(0)
        if words and not any(word.casefold() in _NO_PART for word in words):
            name = " ".join(words)
            yield "name", start, start + len(name), frozenset({name.casefold()})
