"""Words for times in English, German, Chinese, French and Spanish, as patterns.

All of them are matched against folded text (`fold`): small letters without accents, of the same
length as the text, so that a position in the one is a position in the other.

At the end are patterns of what looks like a time and was not used: it is asked about, never
dropped.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

EXAMPLES = (
    "`tomorrow 9:00`, `in 20 minutes`, `friday 18:30`, `2027-01-05 8:00`, `every monday 9:00`"
)

EDGE = r"(?![^\W\d_\u3400-\u9fff])"
"""The end of a word: no letter follows. Chinese is written without spaces."""


def fold(text: str) -> str:
    """Return the text in lower case without accents, character by character."""
    return "".join(_fold_one(one) for one in text)


def _fold_one(one: str) -> str:
    if one in "’‘`´":
        return "'"
    if unicodedata.category(one) == "No":  # "½" and "²" are not digits
        return one
    bare = [c for c in unicodedata.normalize("NFKD", one) if not unicodedata.combining(c)]
    small = bare[0].lower() if len(bare) == 1 else one
    return small if len(small) == 1 else one


def any_of(words: Iterable[str]) -> str:
    """Return a pattern for any of these words, the longest first."""
    return "|".join(sorted((re.escape(word) for word in words), key=lambda w: (-len(w), w)))


# --- numbers --------------------------------------------------------------------------------------

_EN = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
_EN += " sixteen seventeen eighteen nineteen"
_DE = "ein zwei drei vier funf sechs sieben acht neun zehn elf zwolf dreizehn vierzehn funfzehn"
_DE += " sechzehn siebzehn achtzehn neunzehn"
_FR = "un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
_FR += " dix-sept dix-huit dix-neuf"
_ES = "un dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciseis"
_ES += " diecisiete dieciocho diecinueve"
_TENS = {
    20: ("twenty", "zwanzig", "vingt", "veinte"),
    30: ("thirty", "dreißig", "trente", "treinta"),
    40: ("forty", "vierzig", "quarante", "cuarenta"),
    50: ("fifty", "funfzig", "cinquante", "cincuenta"),
    60: ("sixty", "sechzig", "soixante", "sesenta"),
    90: ("ninety", "neunzig", "quatre-vingt-dix", "noventa"),
}


def _numbers() -> dict[str, float]:
    found: dict[str, float] = {}
    for words in (_EN, _DE, _FR, _ES):
        found |= {word: n for n, word in enumerate(words.split(), 1)}
    for tens, (en, de, fr, es) in _TENS.items():
        found |= {en: tens, de: tens, fr: tens, es: tens}
        for n in range(1, 10):
            ones = [words.split()[n - 1] for words in (_EN, _DE, _FR, _ES)]
            for word in (f"{en}-{ones[0]}", f"{en} {ones[0]}", f"{ones[1]}und{de}"):
                found[word] = tens + n
            joint = " et un" if n == 1 else f"-{ones[2]}"
            found |= {f"{fr}{joint}": tens + n, f"{es} y {ones[3]}": tens + n}
            if tens == 20:
                found[f"veinti{ones[3]}"] = tens + n
    for word in ("a", "an", "eins", "eine", "einer", "einem", "einen", "une", "una", "uno"):
        found[word] = 1
    found |= {"dreissig": 30, "zwo": 2, "anderthalb": 1.5, "eineinhalb": 1.5, "zweieinhalb": 2.5}
    found |= {"a couple of": 2, "couple of": 2, "a couple": 2, "un par de": 2}
    return found | {"dreieinhalb": 3.5}


NUMBERS = _numbers()
NUMBER = any_of(NUMBERS)
HOUR_WORD = any_of(
    word for word, n in NUMBERS.items() if word not in ("a", "an") and n in range(25)
)
HAN_NUMBER = "[零〇一二两兩三四五六七八九十]{1,3}"
_HAN_DIGITS = "零一二三四五六七八九"


def count(word: str) -> float:
    """Return the number written as a word or in digits."""
    word = word.strip()
    if re.fullmatch(r"\d+(?:[.,]\d+)?", word):
        return float(word.replace(",", "."))
    if word in NUMBERS:
        return NUMBERS[word]
    word = word.replace("两", "二").replace("兩", "二").replace("〇", "零")
    tens, ten, ones = word.rpartition("十")
    if ten:
        return 10 * (_digit(tens) or 1) + _digit(ones)
    return sum(float(_digit(one) * pow(10, place)) for place, one in enumerate(reversed(ones)))


def _digit(word: str) -> int:
    return max(0, _HAN_DIGITS.find(word[-1:])) if word else 0


# --- units ----------------------------------------------------------------------------------------

SECOND, MINUTE, HOUR, DAY, WEEK = 1, 60, 3_600, 86_400, 604_800
FORTNIGHT, MONTH, YEAR = 1_209_600, 2_592_000, 31_536_000
"""The units in seconds; those of a month and a year only tell the two apart."""
UNITS = {
    SECOND: r"s|secs?|seconds?|sekunden?|sek|秒|secondes?|segundos?",
    MINUTE: r"m|mins?|minutes?|minuten?|分钟|分鐘|minutos?",
    HOUR: r"h|hrs?|hours?|stunden?|std|小时|小時|钟头|鐘頭|heures?|horas?",
    DAY: r"days?|tage?n?|天|日|jours?|dias?",
    WEEK: r"weeks?|wochen?|周|週|星期|礼拜|semaines?|semanas?",
    FORTNIGHT: r"fortnights?",
    MONTH: r"months?|monate?n?|月|mois|mes|meses",
    YEAR: r"years?|jahre?n?|年|ans?|annees?|anos?",
}
UNIT = "(?:" + "|".join(UNITS.values()) + ")"


def size_of(unit: str) -> int:
    return next(size for size, words in UNITS.items() if re.fullmatch(words, unit))


# --- days of the week, months ---------------------------------------------------------------------

WEEKDAYS = (
    r"sundays?|sun|sonntags?|(?:周|週|星期|礼拜)[日天]|dimanches?|domingos?",
    r"mondays?|mon|montags?|(?:周|週|星期|礼拜)一|lundis?|lunes",
    r"tuesdays?|tues?|dienstags?|(?:周|週|星期|礼拜)二|mardis?|martes",
    r"wednesdays?|wed|mittwochs?|(?:周|週|星期|礼拜)三|mercredis?|miercoles",
    r"thursdays?|thurs?|thu|donnerstags?|(?:周|週|星期|礼拜)四|jeudis?|jueves",
    r"fridays?|fri|freitags?|(?:周|週|星期|礼拜)五|vendredis?|viernes",
    r"saturdays?|sat|samstags?|sonnabends?|(?:周|週|星期|礼拜)六|samedis?|sabados?",
)
WEEKDAY = "(?:" + "|".join(WEEKDAYS) + ")"
PLURAL = re.compile(
    r"(?:sun|mon|tues|wednes|thurs|fri|satur)days|(?:sonn|mon|diens|donners|frei|sams)tags"
    r"|mittwochs|sonnabends"
)
"""Names of days that mean every such day."""
SHORT = re.compile(r"(?:sun|mon|tues?|wed|thurs?|thu|fri|sat)")
"""Names of days that may also be other words."""


def weekday(name: str) -> int:
    """Return the number of a day of the week in crontab (Sunday is 0)."""
    return next(n for n, words in enumerate(WEEKDAYS) if re.fullmatch(words, name))


MONTHS = (
    "january|jan|januar|janner|janvier|enero",
    "february|feb|februar|fevrier|febrero",
    "march|mar|marz|mars|marzo",
    "april|apr|avril|abril",
    "may|mai|mayo",
    "june|jun|juni|juin|junio",
    "july|jul|juli|juillet|julio",
    "august|aug|aout|agosto",
    "september|sept|sep|septembre|septiembre",
    "october|oct|oktober|okt|octobre|octubre",
    "november|nov|novembre|noviembre",
    "december|dec|dezember|dez|decembre|diciembre",
)
MONTH_NAME = "(?:" + "|".join(MONTHS) + ")"


def month(name: str) -> int:
    return next(n for n, words in enumerate(MONTHS, 1) if re.fullmatch(words, name))


# --- days by their distance, parts of the day -----------------------------------------------------

RELATIVE = {
    r"today|heute|今天|今日|hoy|aujourd'hui": (0, ""),
    r"tonight|今晚|今夜|ce soir|esta noche": (0, "evening"),
    r"this morning|今早|ce matin|esta manana": (0, "morning"),
    r"this afternoon|cet(?:te)? apres-midi|esta tarde": (0, "afternoon"),
    r"this evening": (0, "evening"),
    r"tomorrow|tmrw?|tomorow|morgen|明天|明日|demain|manana": (1, ""),
    r"明早(?![饭餐飯])": (1, "morning"),
    r"明晚(?![饭餐飯])": (1, "evening"),
    r"(?:the )?day after tomorrow|ubermorgen|uebermorgen|后天|後天|apres-demain|pasado manana": (
        2,
        "",
    ),
    r"大后天|大後天": (3, ""),
}

PARTS = {
    "morning": r"in the morning|morning|am morgen|am vormittag|in der fruh|vormittags?|morgens|fruh"
    r"|早上|上午|早晨|清晨|de la manana|por la manana|du matin|le matin|au matin|matin",
    "noon": r"中午|mittags?|am mittag|du midi",
    "afternoon": r"in the afternoon|afternoon|am nachmittag|nachmittags?|下午|午后"
    r"|de la tarde|por la tarde|de l'apres-midi|l'apres-midi|apres-midi",
    "evening": r"in the evening|evening|am abend|abends?|晚上|傍晚"
    r"|de la noche|por la noche|du soir|le soir|soir",
    "night": r"at night|in the night|night|in der nacht|nachts?|夜里|半夜|深夜|de la nuit|la nuit",
    "small": r"凌晨|de la madrugada|de madrugada",
}
BOUND_PART = re.compile(
    r"(?:in the|at|am|in der|de|por|du|le|au|la) |fruh$|(?:morgen|mittag|abend|nacht)s$"
)
"""Parts of the day that belong to a time before them, and can't begin a reminder's text."""


RANGE = re.compile(
    r"\s*(?:-|–|—|~|to|until|till|bis|a|jusqu'a|hasta|al|至|到)\s*(?=\d)"
    r"|(?:至|到)(?=[一二两兩三四五六七八九十]{1,3}[点點时時])"
)
_WORDS_OF_NUMBERS = any_of(word for word, n in NUMBERS.items() if n != 1 and word != "once")
JOINED = re.compile(r"-[a-z]|'")
"""Characters that belong to the word before them: "noon-ish"."""
TIME_NUMBER = re.compile(
    rf"(?:(?:at|um|gegen|around|ca\.?|a las|vers|de|from|von|between|zwischen|entre|desde"
    r"|before|after|by|vor|nach|bis|avant|apres|antes de|despues de)\s+(?:las?\s+)?)?"
    rf"(?:oh?\s+)?(?:\d|(?:{_WORDS_OF_NUMBERS}|half|halb|quarter|viertel){EDGE})"
)
COUNTED = re.compile(rf"\d|(?:{_WORDS_OF_NUMBERS}){EDGE}")
LIMIT = re.compile(
    r"(?:until|till|til|except|starting|beginning|ausser|außer|hasta|jusqu|sauf|excepto|salvo"
    r"|a partir|between|zwischen|entre|only|nur|seulement|solo|直到|除了|只在?)"
    + r"|(?:for|from|bis|ab|fur|von|desde|durante|pendant|pour|从|到|至)\s*"
    rf"(?:the\s+next\s+|next\s+)?(?:\d|(?:{_WORDS_OF_NUMBERS}){EDGE})"
    r"|(?:(?:on|in|during|at|an|am|wahrend|tagsuber|en|le|les|los|la|pendant|durante)\s+)?(?:the\s+)?"
    r"(?:weekdays?|weekends?|workdays?|werktags?|werktagen|wochenenden?|(?:day|night)(?:time)?"
    r"|semaine|week-?ends?|fines? de semana|工作日|周末|白天)" + EDGE
)
OFTEN = re.compile(
    rf"(?:\d+|{any_of(NUMBERS)}|[一二两兩三四五六七八九十]+)\s*(?:times?|mal|fois|ve(?:z|ces)|次|遍)"
    + EDGE
)
"""A number of times within a day or week."""
_MEALS = (
    "breakfast|lunch(?:time)?|dinner(?:time)?|supper|work|school|bed(?:time)?|sunrise|sunset|fruhstuck"
    "|mittagessen|abendessen|essen|arbeit|feierabend|schule|sonnenaufgang|sonnenuntergang"
    "|petit[- ]dejeuner|dejeuner|diner|travail|ecole|desayuno|desayunar|comida|comer|almuerzo"
    "|almorzar|cena|cenar|trabajo|sleep(?:ing)?|going to bed|getting up"
    "|schlafen(?:gehen)?|aufstehen|dormir|(?:me |se )?coucher|acostar(?:me|se)|levantar(?:me|se)"
)
VAGUE = re.compile(
    r"(?:(?:right|just|shortly|soon|kurz|gleich|direkt|juste|justo)\s+)?"
    r"(?:after|before|during|nach|vor|apres|avant|pendant|despues de|antes de)\s+"
    r"(?:(?:the|my|der|dem|den|die|das|meine[mr]?|le|la|les|mon|ma|el|de|du)\s+|l')?"
    rf"(?:{_MEALS}){EDGE}|(?:早|午|晚)[饭餐飯]|早中?晚|(?:上|下)班|放学|睡觉|起床|日出|日落"
)
"""A time that only the person knows: "after lunch"."""
MORE_SPAN = re.compile(
    r",?\s*(?:and|und|et|y)\s+(?:a\s+(?:half|bit|quarter)|half|halb|demi|media|quart|\d)"
    r"|\d+\s*s(?:ec|ek)?\b|,?\s*(?:and |und )?\d+\s+se[ck]"
)
STRONG = re.compile(
    r"(?<![a-z\d_:./-])(?:\d{1,2}:\d{2}(?![\d:])|\d{1,2}(?:[:.]\d{2})?\s?[ap]\.?m\b"
    r"|\d{1,2}(?:[.:]\d{2})? ?uhr\b|\d{1,2}h(?:\d{2})?\b"
    r"|(?:at|um) (?:noon|midnight|\d{1,2}(?![\d%/-]|\s*%)))"
    r"|[\d一二三四五六七八九十]{1,2}[点點](?!钱)"
)
