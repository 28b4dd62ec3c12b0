"""Numbers in words: English, German and Chinese. Pure."""

from __future__ import annotations

import re

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
