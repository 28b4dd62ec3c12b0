"""Numbers in words: English, German and Chinese; and numbers whose unit a text has replaced by
another one of its kind: "2 kg" for "2 g", "5 days" for "5 weeks". Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from memory.patterns import lazy

_ENGLISH = """
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen
"""
_GERMAN = """
    zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn
    siebzehn achtzehn neunzehn
"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_GERMAN_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"


def _number_words() -> dict[str, int]:
    """Return the words of numbers from two to ninety-nine; "one" is left out, since it may be an
    article."""
    english, german = re.findall(r"\S+", _ENGLISH), re.findall(r"\S+", _GERMAN)
    words = {"zwo": 2, "hundred": 100, "hundert": 100}
    for number, pair in enumerate(zip(english, german, strict=True), 2):
        words |= dict.fromkeys(pair, number)
    ones = [*zip(("one", *english[:8]), ("ein", *german[:8]), strict=True)]
    tens = zip(_TENS.split(), _GERMAN_TENS.split(), strict=True)
    for number, (ten, zehner) in zip(range(20, 100, 10), tens, strict=True):
        words |= {ten: number, zehner: number}
        for more, (one, eins) in enumerate(ones, number + 1):
            words |= dict.fromkeys((f"{ten}-{one}", f"{ten} {one}", f"{eins}und{zehner}"), more)
    return words


NUMBER_WORDS = _number_words()
"""The numbers of words, in lower case."""

_NUMERALS = "零一二三四五六七八九"
_SCALES = {"万": 10_000, "千": 1_000, "百": 100, "十": 10}


def read_numeral(text: str) -> int:
    """Return the number of a Chinese numeral, or of digits. A digit at the end counts in the next
    lower scale: 三万五 is 35,000."""
    if text.isdigit():
        return int(text)
    text = text.replace("两", "二")
    for sign, scale in _SCALES.items():
        before, mark, behind = text.partition(sign)
        if not mark:
            continue
        first = read_numeral(before) if before else 1
        if len(behind) == 1 and scale > 10 and behind in _NUMERALS:
            return first * scale + _NUMERALS.find(behind) * scale // 10
        behind = behind.lstrip("零")
        return first * scale + (read_numeral(behind) if behind else 0)
    digits = "".join(str(_NUMERALS.find(sign)) for sign in text)
    return int(digits) if digits.isdigit() else 0


_UNITS = """
mass: mg milligrams? Milligramm 毫克 | g grams? Gramm 克 | kg kilos? kilograms? Kilo 公斤 千克
volume: ml millilit(?:er|re)s? 毫升 | l lit(?:er|re)s? Liter 升
length: 米 | 平方?米
length: mm 毫米 | cm Zentimeter 厘米 | km kilomet(?:er|re)s? Kilometern? 公里 | miles? Meilen?
time: ms milliseconds? Millisekunden? 毫秒 | s secs? seconds? Sekunden? 秒
time: min minutes? Minuten? 分钟 | h hrs? hours? Stunden? 个?小时
time: days? Tagen? 天 | weeks? Wochen? 周 | months? Monaten? 个月 | years? Jahren? 年
money: € euros? Euro EUR 欧元 | \\$ dollars? USD 美元 | £ pounds? Pfund GBP 英镑
money: 元 块 yuan RMB CNY
money: CHF francs? Franken 法郎 | kroner Kronen
heat: °C | °F
data: KB | MB | GB | TB
share: % percent Prozent
"""
_KIND_OF = dict[str, str]()
_NAMED = list[str]()
for _line in _UNITS.strip().splitlines():
    _kind, _, _units = _line.partition(": ")
    for _unit in _units.split(" | "):
        _name = f"u{len(_NAMED)}"
        _KIND_OF[_name] = _kind
        _NAMED.append(f"(?P<{_name}>{'|'.join(_unit.split())})")
_COUNTED = lazy(
    r"(?<![A-Za-z\d_.,:-])(?P<number>\d+(?:[.,]\d+)*|[A-Za-zäöüß]{3,16}+)"
    rf"[ -]?(?:{'|'.join(_NAMED)})(?![a-zäöü])"
)
_SPANS = """
hour Stunde 小时 hourly stündlich
day Tag 天 日 daily täglich
night Nacht 晚 夜 nightly
week Woche 周 星期 weekly wöchentlich
month Monat 月 monthly monatlich
year Jahr 年 yearly annually jährlich
"""
_SPAN_OF = {
    word.casefold(): f"per {number}"
    for number, line in enumerate(_SPANS.strip().splitlines())
    for word in line.split()
}
_PER = lazy(
    r"(?<![\w.,:-])(?P<number>\d{1,9}(?:[.,]\d{1,6}){0,3}|[一二三四五六七八九十两])"
    r"[ -]?(?P<what>[^\W\d_]{1,12}|[€$£¥]|)[^\d.;。；，,()\n一二三四五六七八九十两]{0,20}?"
    r"(?:(?:\b(?:an?|per|pro|im|in der|je|jede[nrs]?|each|every) |/ ?|每)"
    r"(?P<span>hour|Stunde|小时|day|Tag|[天日]|night|Nacht|[晚夜]|week|Woche|周|星期|month|Monat|月"
    r"|year|Jahr|年)(?![a-zäöü])"
    r"|\b(?P<often>hourly|daily|nightly|weekly|monthly|yearly|annually|stündlich|täglich|wöchentlich"
    r"|monatlich|jährlich)\b)"
    r"|每个?(?P<before>小时|[天日晚夜周月年]|星期)[^\d，。；、\n]{0,8}?"
    r"(?P<then>\d{1,9}|[一二三四五六七八九十两])(?P<of>[\u4e00-\u9fff])",
    re.IGNORECASE,
)
_OF = "of "
_GROUPS = lazy(r"[.,](?=\d{3}(?!\d))")


class Units:
    """The units of the numbers in texts, by number and kind of unit."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._known = defaultdict[tuple[str, str], set[str]](set)
        self._of_any_kind = defaultdict[str, set[str]](set)
        for text in texts:
            for number, kind, unit, _ in (*_read(text), *_read_spans(text)):
                self._known[number, kind].add(unit)
                if not kind.startswith(_OF):
                    self._of_any_kind[number].add(kind)

    def find_changed(self, text: str) -> list[str]:
        """Return the numbers of a text, with units, that have other units of that kind here."""
        return [
            whole
            for number, kind, unit, whole in (*_read(text), *_read_spans(text))
            if (units := self._known.get((number, kind), self._of_another_kind(number, kind)))
            and unit not in units
        ]

    def _of_another_kind(self, number: str, kind: str) -> set[str]:
        """Return the kinds of units that a number of two or more digits has, if it has one."""
        return (
            self._of_any_kind.get(number, set()) if len(number) > 1 and _OF not in kind else set()
        )


def kind_of_unit(text: str) -> str:
    """Return the kind of the unit of the number at the beginning of a text; "" for none."""
    found = _COUNTED.match(text)
    return _KIND_OF[found.lastgroup or ""] if found else ""


def _read(text: str) -> Iterator[tuple[str, str, str, str]]:
    for found in _COUNTED.finditer(text):
        said = found["number"].casefold()
        if not (said in NUMBER_WORDS or said[0].isdigit()):
            continue
        number = str(NUMBER_WORDS.get(said, _GROUPS.sub("", said).replace(",", ".")))
        unit = found.lastgroup or ""
        yield number, _KIND_OF[unit], unit, found[0]


def _read_spans(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield the numbers of things in a span of time, as in "48 euros a month", with the beginning
    of the thing's name."""
    for found in _PER.finditer(text):
        number, what = found["number"] or found["then"], found["what"] or found["of"] or ""
        span = (found["span"] or found["often"] or found["before"]).casefold()
        yield _GROUPS.sub("", number), f"{_OF}{what[:3].casefold()}", _SPAN_OF[span], found[0]
