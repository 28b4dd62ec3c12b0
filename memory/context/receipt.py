"""What a summary kept: names, numbers, dates, paths, addresses and identifiers of what left that
are still in it. Made without a model; it looks for what can be looked for, and understands nothing.

Words that begin with a capital are names in most languages, but not in German, where every noun
does; there, and in Chinese, which has neither capitals nor spaces, only what stands beside a sign
of a name counts as one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

MOST = 40
"""Facts of one summary: the ones said most often, and by the person."""
SCANNED = 200_000
"""Characters that are looked through: of the person's messages first, then of the replies."""
_LINE = 20_000  # characters of one message


@dataclass(frozen=True, slots=True)
class Receipt:
    """How many facts of what left a summary kept, and those that it did not, the most telling
    first."""

    kept: int = 0
    missing: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.kept + len(self.missing)

    @property
    def share(self) -> float:
        """The part that was kept, from 0 to 1; 1 where there was nothing to keep."""
        return self.kept / self.total if self.total else 1.0


def make_receipt(
    asked: Sequence[str], answered: Sequence[str], touched: Sequence[str], summary: str
) -> Receipt:
    """What of these is in a summary: what a person said, what was replied, and the arguments of
    tool calls, of which only paths and addresses count."""
    facts = _Facts()
    room = SCANNED
    for texts, weight, is_prose in ((asked, 3, True), (answered, 1, True), (touched, 1, False)):
        for text in texts:
            if room <= 0:
                break
            part = text[: min(_LINE, room)]
            room -= len(part)
            facts.add(part, weight, is_prose)
    shown = _Shown(summary)
    wanted = facts.best()
    missing = tuple(fact.text for fact in wanted if not shown.has(fact))
    return Receipt(len(wanted) - len(missing), missing)


@dataclass(frozen=True, slots=True)
class _Fact:
    """Something that may be kept: as it was written, and the forms by which it is found again."""

    kind: str
    text: str
    forms: frozenset[str]


# --- what there is -------------------------------------------------------------------------------

_EXTENSIONS = (
    "py|js|ts|md|txt|json|ya?ml|toml|csv|tsv|pdf|docx?|xlsx?|pptx?|png|jpe?g|svg|html?|css|sh|sql|"
    "db|log|ini|cfg|conf|zip|gz|tar|rs|go|java|c|h|cpp|rb|php|xml|lock|env|ipynb"
)
_URL = re.compile(r"https?://[^\s<>\"'()\[\]{}（）。，；]{1,500}")
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PATH = re.compile(
    r"(?<![\w/])(?:(?:~|\.{1,2})?/(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{0,80}"
    rf"|(?:[\w.@+-]{{1,60}}/){{0,8}}[\w-]{{1,60}}\.(?:{_EXTENSIONS})\b"
    r"|[A-Za-z]:\\[\w.\\-]{1,200})"
)
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
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_NAMES_OF_MONTHS = "|".join(sorted(_MONTH_OF, key=len, reverse=True))
_DATE = re.compile(
    rf"""(?P<iso>\b\d{{4}}-\d{{1,2}}-\d{{1,2}}\b)
    |(?P<cjk>\d{{1,2}}月\d{{1,2}}[日号])
    |(?P<dots>\b\d{{1,2}}\.\ ?\d{{1,2}}\.(?:\d{{4}}|\d{{2}})?(?!\d))
    |(?P<slashes>\b\d{{1,2}}/\d{{1,2}}/(?:\d{{4}}|\d{{2}})\b)
    |(?P<before>\b\d{{1,2}}(?:st|nd|rd|th|\.)?\ (?:of\ )?(?:{_NAMES_OF_MONTHS})\b\.?)
    |(?P<after>\b(?:{_NAMES_OF_MONTHS})\.?\ \d{{1,2}}(?:st|nd|rd|th)?\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_TIME = re.compile(
    r"\b(\d{1,2})(?:[:h](\d{2})(?!\d)|(?=\s?(?:[ap]\.?m\b|Uhr\b)))(?:\s?(?:([ap])\.?m|Uhr)\b)?",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"[A-Za-z0-9_][\w-]{2,60}", re.ASCII)
_NUMBER = re.compile(
    r"(?<![\w.,])[$€£¥]?(\d[\d.,'’]{0,30}\d|\d)\s?([%$€£¥]|k\b|K\b|M\b|元|euros?\b|dollars?\b)?",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d(?:[\d.,'’]{0,30}\d)?")
_CAMEL = re.compile(r"[a-z][A-Z]")
_UNIT = re.compile(
    r"\d+(?:st|nd|rd|th|km|cm|mm|kg|mb|gb|tb|kb|ms|min|px|am|pm|h|s|m|g)", re.IGNORECASE
)
_THOUSANDS = re.compile(r"(\d+)(k|m)", re.IGNORECASE)


@dataclass
class _Facts:
    """Facts of texts, with how telling each is."""

    _by_form: dict[tuple[str, frozenset[str]], _Fact] = field(default_factory=dict)
    _weights: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)

    def add(self, text: str, weight: int, is_prose: bool) -> None:
        """Look a text through; only for paths and addresses, where it is no prose."""
        rest = text
        finders = (*_EXACT, *(_IN_PROSE if is_prose else ()))
        for kind, find in finders:
            rest = self._take(kind, find, rest, weight)
        if is_prose:
            for name in find_names(rest):
                self._note(_Fact("name", name, frozenset({name.casefold()})), weight)

    def _take(
        self,
        kind: str,
        find: Callable[[str], Iterator[tuple[int, int, frozenset[str]]]],
        text: str,
        weight: int,
    ) -> str:
        """Note what is found; returns the text without it."""
        rest, at = [], 0
        for start, end, forms in find(text):
            self._note(_Fact(kind, text[start:end].strip(), forms), weight)
            rest += [text[at:start], " \0 "]
            at = end
        return "".join((*rest, text[at:])) if rest else text

    def _note(self, fact: _Fact, weight: int) -> None:
        key = (fact.kind, fact.forms)
        self._by_form.setdefault(key, fact)
        self._weights[key] += weight

    def best(self) -> list[_Fact]:
        """The most telling ones, at most `MOST`."""
        ranked = sorted(self._weights, key=lambda key: -min(9, self._weights[key]))
        return [self._by_form[key] for key in ranked[:MOST]]


Found = Iterator[tuple[int, int, frozenset[str]]]


def _urls(text: str) -> Found:
    for found in _URL.finditer(text):
        whole = found[0].rstrip(".,;:!?*_")
        bare = whole.split("://", 1)[1].rstrip("/").casefold()
        yield found.start(), found.start() + len(whole), frozenset({bare})


def _plain(pattern: re.Pattern[str], text: str) -> Found:
    for found in pattern.finditer(text):
        whole = found[0].rstrip(".-/")
        forms = {whole.casefold(), re.split(r"[\\/]", whole)[-1].casefold()}
        if len(whole) > 1:
            yield found.start(), found.start() + len(whole), frozenset(forms)


def _dates(text: str) -> Found:
    for found in _DATE.finditer(text):
        if days := _days(found):
            yield found.start(), found.end(), days


def _days(found: re.Match[str]) -> frozenset[str]:
    """The days of a year that a date may name, as "3/14"; both where day and month may be either
    way round."""
    numbers = [int(digits) for digits in re.findall(r"\d+", found[0])]
    words = re.findall(r"[^\W\d_]+", found[0].casefold())
    month = next((_MONTH_OF[word] for word in words if word in _MONTH_OF), 0)
    if month:
        pairs = [(month, numbers[0])]
    elif found["iso"]:
        pairs = [(numbers[1], numbers[2])]
    elif found["cjk"]:
        pairs = [(numbers[0], numbers[1])]
    elif found["slashes"]:
        pairs = [(numbers[0], numbers[1]), (numbers[1], numbers[0])]
    else:
        pairs = [(numbers[1], numbers[0])]
    return frozenset(f"{m}/{d}" for m, d in pairs if 1 <= m <= 12 and 1 <= d <= 31)


def _times(text: str) -> Found:
    for found in _TIME.finditer(text):
        hour, minute = int(found[1]), int(found[2] or 0)
        half = (found[3] or "").lower()
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour < 25 and minute < 60:
            yield found.start(), found.end(), frozenset({f"{hour}:{minute:02}"})


def _identifiers(text: str) -> Found:
    """Words that are no words: with digits, underscores, or capitals inside."""
    for found in _TOKEN.finditer(text):
        token = found[0].strip("-_")
        has_digit = any(sign.isdigit() for sign in token)
        is_mixed = has_digit and any(sign.isalpha() for sign in token)
        if _UNIT.fullmatch(token) or _THOUSANDS.fullmatch(token) or len(token) < 3:
            continue
        is_code = "_" in token or _CAMEL.search(token)
        if is_mixed or (is_code and any(sign.isalpha() for sign in token)):
            yield found.start(), found.end(), frozenset({token.casefold()})


def _numbers(text: str) -> Found:
    """Numbers of at least two digits, or with a currency or a per cent sign."""
    for found in _NUMBER.finditer(text):
        is_money = found[0][0] in "$€£¥" or bool(found[2])
        if is_money or sum(sign.isdigit() for sign in found[1]) > 1:
            yield found.start(), found.end(), _values(found[1], (found[2] or "").lower())


def _values(digits: str, unit: str = "") -> frozenset[str]:
    """The values that a number may have; a sign that groups in one country parts in another."""
    bare = digits.replace("'", "").replace("’", "")
    readings = {bare.replace(",", ""), bare.replace(".", "").replace(",", ".")}
    if re.fullmatch(r"\d+[.,]\d{1,2}|\d+[.,]\d{4,}", bare):
        readings = {bare.replace(",", ".")}
    values = set()
    for reading in readings:
        try:
            value = float(reading) * {"k": 1_000.0, "m": 1_000_000.0}.get(unit, 1.0)
        except ValueError:
            continue
        values.add(f"{value:.6f}".rstrip("0").rstrip("."))
    return frozenset(values or {bare})


_EXACT: tuple[tuple[str, Callable[[str], Found]], ...] = (
    ("url", _urls),
    ("address", partial(_plain, _EMAIL)),
    ("path", partial(_plain, _PATH)),
)
_IN_PROSE: tuple[tuple[str, Callable[[str], Found]], ...] = (
    ("date", _dates),
    ("time", _times),
    ("identifier", _identifiers),
    ("number", _numbers),
)


# --- names ---------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W\d_][\w'’-]{0,60}")
_CAPITALS = re.compile(
    r"[A-ZÀ-ÖØ-Þ][\w'’-]{1,40}(?:\ (?:(?:von|van|de|da|di|zu|al)\ )?[A-ZÀ-ÖØ-Þ][\w'’-]{1,40}){0,3}"
)
_ENDS = '.!?:;\n"“„(*#>|-–—•\0'  # signs behind which a sentence, or an item of a list, begins
_GERMAN = frozenset(
    ("der", "die", "das", "und", "ist", "nicht", "ich", "ein", "eine", "mit", "auf", "für", "dem")
)
_GERMAN_SIGN = re.compile(
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
) | frozenset(_MONTH_OF)
_CJK_NAMES = (
    re.compile(r"(?:我叫|名叫|叫做|名字是|名字叫)([\u4e00-\u9fff]{2,3})"),
    re.compile(
        r"([王李张刘陈杨黄赵吴周徐孙马朱胡郭何高林罗郑梁谢宋唐许韩冯邓曹彭曾肖田董袁潘于蒋蔡余杜叶程"
        r"苏魏吕丁任沈姚卢姜崔钟谭陆汪范金石廖贾夏韦付方白邹孟熊秦邱江尹薛闫段雷侯龙史陶黎贺顾毛郝龚"
        r"邵万钱严覃武戴莫孔向汤][\u4e00-\u9fff]{0,2}?(?:先生|女士|小姐|老师|经理|教授|博士|医生|总))"
    ),
    re.compile(
        r"((?:(?![入住在去到是的和与及请找从向要])[\u4e00-\u9fff]){1,6}?"
        r"(?:公司|大学|酒店|医院|机场|银行|餐厅|车站|市|省|县))"
    ),
    re.compile(r"[《「『]([^》」』\n]{1,40})[》」』]"),
)


def find_names(text: str) -> list[str]:
    """The names in a text, each as often as it is there."""
    names = [found[1] for pattern in _CJK_NAMES for found in pattern.finditer(text)]
    words = _WORD.findall(text)
    if not words:
        return names
    lower = {word for word in words if word[0].islower()}
    if len(_GERMAN & lower) >= 3:
        return names + _german_names(text)
    inside = {word for word, is_first in _capitalised(text) if not is_first}
    return names + [
        name for found in _CAPITALS.finditer(text) for name in _name_in(found, text, inside, lower)
    ]


def _capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """Words with a capital, and whether a sentence begins with them."""
    for found in _WORD.finditer(text):
        if found[0][0].isupper():
            yield found[0], _begins(text, found.start())


def _begins(text: str, at: int) -> bool:
    before = text[max(0, at - 4) : at].rstrip(" \t")
    return not before or before[-1] in _ENDS


def _name_in(found: re.Match[str], text: str, inside: set[str], lower: set[str]) -> Iterator[str]:
    """The name in a run of capitalised words: without a first word that is only the beginning of a
    sentence, and without words that are no names elsewhere."""
    words = found[0].split()
    is_first = _begins(text, found.start())
    while words and (
        words[0].casefold() in _COMMON
        or (len(words) == 1 and words[0].casefold() in lower)
        or (is_first and words[0] not in inside)
    ):
        words.pop(0)
        is_first = False
    name = " ".join(words).rstrip("'’-")
    is_shouted = name.isupper() and len(name) < 3
    if len(name) > 1 and not is_shouted and not all(w.casefold() in _COMMON for w in words):
        yield name.removesuffix("'s").removesuffix("’s")


def _german_names(text: str) -> list[str]:
    """In German every noun has a capital: two beside each other, or one behind a sign."""
    names = [found[1] for found in _GERMAN_SIGN.finditer(text)]
    for found in _CAPITALS.finditer(text):
        words = found[0].split()
        if _begins(text, found.start()):
            words = words[1:]
        words = [w for w in words if w not in ("Herr", "Herrn", "Frau", "Familie", "Firma")]
        if len(words) > 1 and not any(word.casefold() in _COMMON for word in words):
            names.append(" ".join(words))
    return [name for name in names if name.casefold() not in _COMMON]


# --- what is in the summary ----------------------------------------------------------------------


class _Shown:
    """A summary, as facts are looked up in it."""

    def __init__(self, summary: str) -> None:
        self._text = summary.casefold()
        self._words = frozenset(_WORD.findall(self._text))
        exact: Mapping[str, Callable[[str], Found]] = dict(_IN_PROSE)
        self._forms = {
            kind: frozenset(form for *_, forms in exact[kind](summary) for form in forms)
            for kind in ("date", "time")
        }
        numbers = (_values(found[0]) for found in _DIGITS.finditer(summary))
        scaled = (forms for *_, forms in _numbers(summary))
        self._forms["number"] = frozenset(form for forms in (*numbers, *scaled) for form in forms)

    def has(self, fact: _Fact) -> bool:
        """Whether it tells of this: a date or a number in any form, of a name a part that is more
        than its first word, of anything else its own words."""
        if fact.kind in self._forms:
            return not fact.forms.isdisjoint(self._forms[fact.kind])
        if any(form in self._text for form in fact.forms):
            return True
        if fact.kind != "name":
            return False
        words = fact.text.casefold().split()
        return len(words) > 1 and words[-1] in self._words and len(words[-1]) > 3


def sentence_with(words: str, texts: Iterable[str], longest: int = 200) -> str:
    """The sentence in which these words stand for the first time, on one line; "" where none has
    them."""
    wanted = words.casefold()
    for text in texts:
        at = text.casefold().find(wanted)
        if at < 0:
            continue
        start = max(
            (text.rfind(sign, 0, at) for sign in ("\n", ". ", "! ", "? ", "。")), default=-1
        )
        ends = [end for sign in ("\n", ". ", "! ", "? ", "。") if (end := text.find(sign, at)) >= 0]
        end = min(ends, default=len(text))
        line = " ".join(text[start + 1 : end + 1].split())
        if len(line) <= longest:
            return line
        where = max(0, line.casefold().find(wanted) - longest // 2)
        return f"…{line[where : where + longest]}…"
    return ""
