"""Values in Chinese: numbers, dates and times in numerals or digits. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from memory.patterns import lazy
from memory.text.number_words import read_numeral

_N = "一二三四五六七八九十"
_DIGIT = "一二三四五六七八九"
_TRADITIONAL = str.maketrans("點號週兩萬塊個禮後億歲間張樓層", "点号周两万块个礼后亿岁间张楼层")
_TIME = lazy(
    rf"(凌晨|早上|上午|中午|下午|傍晚|晚上)?([{_N}两]{{1,3}}|\d{{1,2}})点"
    rf"(?:(半)|(一刻|三刻)|([{_N}]{{1,3}}|\d{{1,2}})分?(?![\d个]))?"
)
_DAY = lazy(
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
_METRES = lazy(rf"([{_N}两]{{1,2}}|\d)([米块])([{_DIGIT}]|\d)(?![\d{_N}])")


def simplify(text: str) -> str:
    """Return a text with the characters of values replaced by their simplified forms, in place."""
    return text.translate(_TRADITIONAL)


def find_chinese(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    """Yield the values of a text in Chinese: kind, place and forms."""
    if text.isascii():
        return
    yield from _dates(text) if "月" in text else ()
    yield from _times(text) if "点" in text else ()
    for found in _DAY.finditer(text) if "号" in text or "日" in text else ():
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
