"""The receipt of a summary: the names, numbers, dates, paths, addresses and identifiers of the
removed turns that are still in it. Made without a model; it looks for what can be looked for, and
understands nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import Struct, field

from memory.context.names import MONTH_OF, WORD, find_names

MOST = 40
"""Facts of one summary: the ones said most often, and by the person."""
SCANNED = 200_000
"""Characters that are looked through: of the person's messages first, then of the replies."""
_LINE = 20_000  # characters of one message


class Receipt(Struct, frozen=True):
    """The number of facts of the removed turns that a summary kept, and the facts that it did not,
    the most telling first."""

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
    """Return the facts of these texts that are in a summary: what a person said, what was replied,
    and the arguments of tool calls, of which only paths and addresses count."""
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


class _Fact(Struct, frozen=True):
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
_NAMES_OF_MONTHS = "|".join(sorted(MONTH_OF, key=len, reverse=True))
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
_LETTER = re.compile(r"[A-Za-z]")
_UNIT = re.compile(
    r"\d+(?:st|nd|rd|th|km|cm|mm|kg|mb|gb|tb|kb|ms|min|px|am|pm|h|s|m|g)", re.IGNORECASE
)
_THOUSANDS = re.compile(r"(\d+)(k|m)", re.IGNORECASE)


class _Facts(Struct):
    """Facts of texts, with how telling each is."""

    _by_form: dict[tuple[str, frozenset[str]], _Fact] = field(default_factory=dict)
    _weights: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)

    def add(self, text: str, weight: int, is_prose: bool) -> None:
        """Look a text through; only for paths and addresses, where it is no prose."""
        rest = text
        for finder in (*_EXACT, *(_IN_PROSE if is_prose else ())):
            if finder.sign.search(rest):
                rest = self._take(finder, rest, weight)
        if is_prose:
            for name in find_names(rest):
                self._note(_Fact("name", name, frozenset({name.casefold()})), weight)

    def _take(self, finder: _Finder, text: str, weight: int) -> str:
        """Note what is found; return the text without it."""
        rest, at = [], 0
        for start, end, forms in finder.find(text):
            self._note(_Fact(finder.kind, text[start:end].strip(), forms), weight)
            rest += [text[at:start], " \0 "]
            at = end
        return "".join((*rest, text[at:])) if rest else text

    def _note(self, fact: _Fact, weight: int) -> None:
        key = (fact.kind, fact.forms)
        self._by_form.setdefault(key, fact)
        self._weights[key] += weight

    def best(self) -> list[_Fact]:
        """Return the most telling ones, at most `MOST`."""
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
    """Return the days of a year that a date may name, as "3/14"; both where day and month may be
    either way round."""
    numbers = [int(digits) for digits in re.findall(r"\d+", found[0])]
    words = re.findall(r"[^\W\d_]+", found[0].casefold())
    month = next((MONTH_OF[word] for word in words if word in MONTH_OF), 0)
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
        is_code = _DIGIT.search(token) or "_" in token or _CAMEL.search(token)
        if not is_code or len(token) < 3 or not _LETTER.search(token):
            continue
        if not _UNIT.fullmatch(token) and not _THOUSANDS.fullmatch(token):
            yield found.start(), found.end(), frozenset({token.casefold()})


def _numbers(text: str) -> Found:
    """Numbers of at least two digits, or with a currency or a per cent sign."""
    for found in _NUMBER.finditer(text):
        is_money = found[0][0] in "$€£¥" or bool(found[2])
        if is_money or sum(sign.isdigit() for sign in found[1]) > 1:
            yield found.start(), found.end(), _values(found[1], (found[2] or "").lower())


def _values(digits: str, unit: str = "") -> frozenset[str]:
    """Return the values that a number may have; a sign that groups in one country parts in
    another."""
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


class _Finder(Struct, frozen=True):
    """Finds facts of a kind; a text without `sign` has none."""

    kind: str
    sign: re.Pattern[str]
    find: Callable[[str], Found]


_DIGIT = re.compile(r"\d")
_EXACT = (
    _Finder("url", re.compile("://"), _urls),
    _Finder("address", re.compile("@"), partial(_plain, _EMAIL)),
    _Finder("path", re.compile(rf"[/\\]|\.(?:{_EXTENSIONS})\b"), partial(_plain, _PATH)),
)
_IN_PROSE = (
    _Finder("date", _DIGIT, _dates),
    _Finder("time", _DIGIT, _times),
    _Finder("identifier", re.compile(r"\d|_|[a-z][A-Z]"), _identifiers),
    _Finder("number", _DIGIT, _numbers),
)


def find_facts(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    """Yield the facts of a text with the kind, the place, and the forms by which each is found
    again; an earlier kind before a later one, and none twice."""
    rest = text
    for finder in (*_EXACT, *_IN_PROSE):
        if not finder.sign.search(rest):
            continue
        for start, end, forms in [*finder.find(rest)]:
            yield finder.kind, start, end, forms
            rest = rest[:start] + " " * (end - start) + rest[end:]


# --- what is in the summary ----------------------------------------------------------------------


class _Shown:
    """A summary, as facts are looked up in it."""

    def __init__(self, summary: str) -> None:
        self._text = summary.casefold()
        self._words = frozenset(WORD.findall(self._text))
        self._forms = {
            finder.kind: frozenset(form for *_, forms in finder.find(summary) for form in forms)
            for finder in _IN_PROSE
            if finder.kind in ("date", "time")
        }
        numbers = (_values(found[0]) for found in _DIGITS.finditer(summary))
        scaled = (forms for *_, forms in _numbers(summary))
        self._forms["number"] = frozenset(form for forms in (*numbers, *scaled) for form in forms)

    def has(self, fact: _Fact) -> bool:
        """Return whether it tells of this: a date or a number in any form, of a name a part that is
        more than its first word, of anything else its own words."""
        if fact.kind in self._forms:
            return not fact.forms.isdisjoint(self._forms[fact.kind])
        if any(form in self._text for form in fact.forms):
            return True
        if fact.kind != "name":
            return False
        words = fact.text.casefold().split()
        return len(words) > 1 and words[-1] in self._words and len(words[-1]) > 3


def sentence_with(words: str, texts: Iterable[str], longest: int = 200) -> str:
    """Return the sentence in which these words stand for the first time, on one line; "" where none
    has them."""
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
