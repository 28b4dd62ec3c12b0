"""Values in a text that a person may correct: the facts of a receipt, and what only matters beside
another one of its kind: days of the week, single digits, Chinese numerals, capitalised words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from memory.context.facts import find_facts
from memory.context.names import MONTH_OF
from memory.patterns import lazy

SCANNED = 20_000
"""Characters of a text that are looked through."""


class Value(Struct, frozen=True):
    """A value: its kind, its words, where they are, and the forms by which it is found again."""

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
_NUMERALS = "零一二三四五六七八九"
_WEEKDAY = lazy(rf"\b({_LATIN_DAYS})s?\b|(?:星期|礼拜|周)([一二三四五六日天])", re.IGNORECASE)
_IN_WEEKDAYS = ("day", "tag", "mittwoch", "sonnabend", "星期", "礼拜", "周")
_CJK_TIME = lazy(
    r"(凌晨|早上|上午|中午|下午|傍晚|晚上)?([一二三四五六七八九十两]{1,3}|\d{1,2})点(半|"
    r"[一二三四五六七八九十]{1,3}分)?"
)
_CJK_DAY = lazy(r"(?<![\d月路街巷弄])([一二三四五六七八九十]{1,3}|\d{1,2})[号日](?![楼站台线路门])")
_DAY = lazy(
    r"\b(\d{1,2})(?:st|nd|rd|th)\b"
    r"|\b(?:am|der|den|dem|vom|zum)\s(\d{1,2})\.(?=\s*(?:,|sondern|auf|statt|$))",
    re.IGNORECASE,
)
_MONTHS = "|".join(sorted(MONTH_OF, key=len, reverse=True))
_MONTH_BEFORE = lazy(rf"\b(?:{_MONTHS})\.?\s$", re.IGNORECASE)
_MONTH_BEHIND = lazy(rf"\s(?:of\s)?(?:{_MONTHS})\b", re.IGNORECASE)
_CJK_MONEY = lazy(r"(?<![\d.,])(\d[\d.,]{0,20})\s?([百千万亿])(?:美元|欧元|元|块钱?|人民币)?")
_DIGIT = lazy(r"(?<![A-Za-z0-9_./:-])(?<!\d,)\d{1,9}(?![A-Za-z0-9_/:-]|[.,]\d)")
_ANY_DIGIT = lazy(r"\d")
_CHINESE = lazy(r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]")
_VERSION = lazy(r"(?<![A-Za-z0-9])[vV]\d+(?:\.\d+){1,3}")
_JOINED = lazy(
    r"(?<![A-Za-z0-9-])(?:\d[\d-]{3,20}\d|(?:\+\d{1,3}|"
    r"0)\d{1,5}[ /]\d[\d -]{2,14}\d)(?![A-Za-z0-9-])"
)
_CAPITALS = lazy(r"[A-ZÀ-ÖØ-Þ][\w'’]{1,40}(?:\s[A-ZÀ-ÖØ-Þ][\w'’]{1,40}){0,2}")
_TITLES = frozenset(("mr", "mrs", "ms", "dr", "herr", "herrn", "frau", "the", "prof"))
_WORDS_OF_NO_NAME = """
    i i'm i'll i've it it's its the a an no not yes sorry my we we're he she they you that this
    there her his our your actually correction wait make change move call send book let's is was
    are use put meet bring only but and or from to in on ich es er sie wir ihr nein nicht doch der
    die das ein mein meine unser unsere und oder am im um uhr euro ja korrektur update moment
    quatsch tippfehler entschuldigung mach nimm ruf dort beim
"""
_NO_PART = frozenset((*re.findall(r"\S+", _WORDS_OF_NO_NAME), *MONTH_OF, *_DAY_OF))
NO_NAMES = _NO_PART | _TITLES
"""Capitalised words, folded, that are no names."""


def find_values(text: str, *, has_names: bool = True) -> list[Value]:
    """Return the values of a text, in order."""
    text = text[:SCANNED]
    found: list[Value] = []
    taken = bytearray(len(text))
    finders = [_weekdays, _cjk, _joined, _day_numbers, _facts, _digits]
    if has_names:
        finders.append(_names)
    for finder in finders:
        for kind, start, end, forms in finder(text):
            if start < end and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append(Value(kind, text[start:end], start, end, forms))
    return sorted(found, key=lambda value: value.start)


_Places = Iterator[tuple[str, int, int, frozenset[str]]]


def _weekdays(text: str) -> _Places:
    folded = text.casefold()
    if not any(map(folded.__contains__, _IN_WEEKDAYS)):
        return
    for found in _WEEKDAY.finditer(text):
        day = _DAY_OF[(found[1] or found[2]).lower()]
        yield "weekday", found.start(), found.end(), frozenset({day})


def _cjk(text: str) -> _Places:
    if text.isascii():
        return
    for found in _CJK_TIME.finditer(text) if "点" in text else ():
        hour = read_numeral(found[2])
        is_late = found[1] in ("下午", "傍晚", "晚上") and hour < 12
        minute = "30" if found[3] == "半" else "00"
        forms = {f"{hour + 12 * is_late}:{minute}"}
        if not found[1]:
            forms.add(f"{hour + 12}:{minute}")
        yield "time", found.start(), found.end(), frozenset(forms)
    for found in _CJK_DAY.finditer(text) if "号" in text or "日" in text else ():
        yield "day", found.start(), found.end(), frozenset({str(read_numeral(found[1]))})
    for found in _CJK_MONEY.finditer(text) if _ANY_DIGIT.search(text) else ():
        scale = {"百": 100, "千": 1_000, "万": 10_000, "亿": 100_000_000}[found[2]]
        digits = found[1].replace(",", "").rstrip(".")
        if digits.count(".") < 2:
            value = f"{float(digits) * scale:.6f}".rstrip("0").rstrip(".")
            yield "number", found.start(), found.end(), frozenset({value})


def read_numeral(text: str) -> int:
    """Return the number of a Chinese numeral below a hundred, or of digits."""
    if text.isdigit():
        return int(text)
    text = text.replace("两", "二")
    tens, mark, ones = text.rpartition("十")
    if not mark:
        return _NUMERALS.find(text[-1])
    return (_NUMERALS.find(tens) if tens else 1) * 10 + (_NUMERALS.find(ones) if ones else 0)


def _joined(text: str) -> _Places:
    """Numbers of phones, and the like: digits with hyphens that are no date."""
    if not _ANY_DIGIT.search(text):
        return
    for found in _VERSION.finditer(text):
        yield "identifier", found.start(), found.end(), frozenset({found[0].casefold()})
    for found in _JOINED.finditer(text):
        if not found[0].isdigit() and not re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", found[0]):
            yield "identifier", found.start(), found.end(), frozenset({found[0]})


def _facts(text: str) -> _Places:
    if not _CHINESE.search(text):
        yield from _trimmed(text, find_facts(text))
        return
    yield from (fact for fact in find_facts(text) if fact[0] == "date")
    # to the patterns a Chinese sign is a letter, and no word ends between it and a digit
    yield from _trimmed(text, find_facts(_CHINESE.sub(" ", text)))


def _trimmed(text: str, found: _Places) -> _Places:
    for kind, start, end, forms in found:
        while end > start and text[end - 1].isspace():
            end -= 1
        if kind == "date" and text[end - 1] == "." and text[end - 2].isalpha():
            end -= 1  # of the sentence
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


def _names(text: str) -> _Places:
    for found in _CAPITALS.finditer(text):
        words = found[0].split()
        start = found.start()
        while words and words[0].casefold() in NO_NAMES:
            start = text.find(words[1], start + len(words[0])) if len(words) > 1 else start
            words.pop(0)
        if words and not any(word.casefold() in _NO_PART for word in words):
            name = " ".join(words)
            yield "name", start, start + len(name), frozenset({name.casefold()})
