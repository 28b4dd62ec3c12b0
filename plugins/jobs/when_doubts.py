"""Patterns of what looks like a time and was not used: it is asked about, never dropped. All are
matched against folded text."""

from __future__ import annotations

import re

from plugins.jobs.when_words import EDGE, NUMBERS, any_of

RANGE = re.compile(
    r"\s*(?:-|–|—|~|to|until|till|bis|a|jusqu'a|hasta|al|至|到)\s*(?=\d)"
    r"|(?:至|到)(?=[一二两兩三四五六七八九十]{1,3}[点點时時])"
)
_WORDS_OF_NUMBERS = any_of(word for word, n in NUMBERS.items() if n != 1 and word != "once")
JOINED = re.compile(r"-[a-z]|'")
"""The characters that belong to the word before them: "noon-ish"."""
NUMBER = re.compile(
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
"""Numbers of times within a day or week."""
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
