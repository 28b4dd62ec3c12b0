"""Names in a text, found without a model.

Capitalised words are names in most languages, but not in German, where every noun has a capital.
There, and in Chinese, which has neither capitals nor spaces, only words beside a sign of a name
count as names.
"""

from __future__ import annotations

import re

from memory.patterns import lazy

_MONTHS = (
    ("january", "januar", "jan"),
    ("february", "februar", "feb"),
    ("march", "märz", "mar", "mär"),
    ("april", "apr"),
    ("may", "mai"),
    ("june", "juni", "jun"),
    ("july", "juli", "jul"),
    ("august", "aug"),
    ("september", "sept", "sep"),
    ("october", "oktober", "oct", "okt"),
    ("november", "nov"),
    ("december", "dezember", "dec", "dez"),
)
MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
"""The numbers of months by name, in English and in German."""

WORD = lazy(r"[^\W\d_][\w'’-]{0,60}")
_BEGIN, _REST = r"[A-ZÀ-ÖØ-Þ]", r"[\w'’-]{1,40}"
_MORE = rf"(?:\ (?:(?:von|van|de|da|di|zu|al)\ )?{_BEGIN}{_REST}){{0,3}}"
_CAPITAL = lazy(_BEGIN)
_ENDS = '.!?:;\n"“„(*#>|-–—•\0'  # signs behind which a sentence or a list item begins
_IS_INSIDE = rf"(?<=[^\s{re.escape(_ENDS)}]\ .)"
_CAPITALS = lazy(rf"{_BEGIN}(?:({_IS_INSIDE})|){_REST}{_MORE}")
_INSIDE = lazy(rf"{_BEGIN}{_IS_INSIDE}[\w'’-]{{0,60}}")
_GERMAN_WORDS = """
    der die das und ist nicht ich ein eine einen mit auf für dem den des im vom zum zur bei von wir
    sie mir mich dir dich kein keine mehr immer nie bitte hat haben sind wird noch auch aber oder
    wenn mein meine unser heißt nach nimm ab jetzt wieder
"""
_GERMAN = frozenset(re.findall(r"\S+", _GERMAN_WORDS))
_GERMAN_SIGN = lazy(
    r"\b(?:Herrn?|Frau|Dr\.|Prof\.|namens|heißt|heiße|heissen|nach|Firma|Familie)\ "
    r"([A-ZÄÖÜ][\wäöüß'’-]{1,40})"
)
_COMMON = frozenset(
    (
        "i",
        "i'm",
        "i'll",
        "i've",
        "i'd",
        "ok",
        "okay",
        "yes",
        "no",
        "hi",
        "hello",
        "thanks",
        "please",
        "sorry",
        "monday",
        "tuesday",
        "wednesday",
        "thursday",
        "friday",
        "saturday",
        "sunday",
        "montag",
        "dienstag",
        "mittwoch",
        "donnerstag",
        "freitag",
        "samstag",
        "sonntag",
        "english",
        "german",
        "chinese",
        "hause",
        "ende",
        "anfang",
        "note",
        "summary",
    )
) | frozenset(MONTH_OF)
SURNAMES = (
    "王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程"
    "苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚"
    "邵万钱严覃武戴莫孔向汤"
)
_CJK_NAMES = (
    re.compile(r"(?:我叫|名叫|叫做|名字是|名字叫)([\u4e00-\u9fff]{2,3})"),
    re.compile(
        rf"([{SURNAMES}][\u4e00-\u9fff]{{0,2}}?"
        r"(?:先生|女士|小姐|老师|经理|教授|博士|医生|总))"
    ),
    re.compile(
        r"((?:(?![入住在去到是的和与及请找从向要])[\u4e00-\u9fff]){1,6}?"
        r"(?:公司|大学|酒店|医院|机场|银行|餐厅|车站|市|省|县))"
    ),
    re.compile(r"[《「『]([^》」』\n]{1,40})[》」』]"),
)


_CJK_SIGN = lazy(r"[\u4e00-\u9fff《「『]")


def find_names(text: str) -> list[str]:
    """Return the names in a text, each as often as it occurs."""
    patterns = _CJK_NAMES if not text.isascii() and _CJK_SIGN.search(text) else ()
    names = [found[1] for pattern in patterns for found in pattern.finditer(text)]
    if not _CAPITAL.search(text):
        return names
    lower = {word for word in set(WORD.findall(text)) if word[0].islower()}
    if len(_GERMAN & lower) >= 3:
        return names + _german_names(text)
    inside, known = set(_INSIDE.findall(text)), dict[tuple[str, bool], str]()
    for found in _CAPITALS.finditer(text):
        run = found[0], found.lastindex is None and _begins(text, found.start())
        if run not in known:
            known[run] = _name_in(*run, inside, lower)
        if name := known[run]:
            names.append(name)
    return names


def _begins(text: str, at: int) -> bool:
    before = text[max(0, at - 4) : at].rstrip(" \t")
    return not before or before[-1] in _ENDS


def _name_in(run: str, is_first: bool, inside: set[str], lower: set[str]) -> str:
    """Return the name in a run of capitalised words: without a first word that only begins a
    sentence, and without words that are not names elsewhere; "" if there is none."""
    words = run.split()
    while words and (
        words[0].casefold() in _COMMON
        or (len(words) == 1 and words[0].casefold() in lower)
        or (is_first and words[0] not in inside)
    ):
        words.pop(0)
        is_first = False
    name = " ".join(words).rstrip("'’-")
    is_shouted = name.isupper() and len(name) < 3
    if len(name) < 2 or is_shouted or all(w.casefold() in _COMMON for w in words):
        return ""
    return name.removesuffix("'s").removesuffix("’s")


def _german_names(text: str) -> list[str]:
    """Return the names in a German text, where every noun has a capital: two words beside each
    other, or one behind a sign."""
    names = [found[1] for found in _GERMAN_SIGN.finditer(text)]
    for found in _CAPITALS.finditer(text):
        words = found[0].split()
        if _begins(text, found.start()):
            words = words[1:]
        words = [w for w in words if w not in ("Herr", "Herrn", "Frau", "Familie", "Firma")]
        if len(words) > 1 and not any(word.casefold() in _COMMON for word in words):
            names.append(" ".join(words))
    return [name for name in names if name.casefold() not in _COMMON]
