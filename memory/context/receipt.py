"""The receipt of a summary: the names, numbers, dates, paths, addresses and identifiers of the
removed turns that are still in it. Made without a model; it looks for what can be looked for, and
understands nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Literal

from msgspec import Struct, field

from memory.context.names import MONTH_OF, WORD, find_names
from memory.patterns import lazy

MOST = 40
"""Facts of one summary: the ones said most often, and by the person."""
SCANNED = 200_000
"""Characters that are looked through: of the person's messages first, then of the replies."""
_LINE = 20_000  # characters of one message
_CHUNK = 4_000  # characters of short messages that are looked through together

Taken = Literal["", "first", "second", "extract"]
"""The summary that was taken: the model's first, its second, or sentences of the turns."""


class Receipt(Struct, frozen=True):
    """The number of facts of the removed turns that a summary kept, and the facts that it did not,
    the most telling first. `taken` says which summary it is of ("": a person's, or one of an older
    version), `findings` why no earlier one was taken (`audit.REASONS`)."""

    kept: int = 0
    missing: tuple[str, ...] = ()
    taken: Taken = ""
    findings: tuple[str, ...] = ()

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
    """Return the facts of these texts that are in a summary."""
    return SourceFacts(asked, answered, touched).receipt(summary)


class SourceFacts:
    """The facts of texts: of what a person said, of what was replied, and of the arguments of tool
    calls, of which only paths and addresses count. `facts` are the most telling ones."""

    def __init__(
        self, asked: Sequence[str], answered: Sequence[str], touched: Sequence[str]
    ) -> None:
        self._found, room = _Facts(), SCANNED
        self._texts: list[str] = []
        for texts, weight, is_prose in ((asked, 3, True), (answered, 1, True), (touched, 1, False)):
            done = len(self._texts)
            for text in texts:
                if room <= 0:
                    break
                part = text[: min(_LINE, room)]
                room -= len(part)
                self._texts.append(part)
            for chunk in _join(self._texts[done:]):
                self._found.add(chunk, weight, is_prose)
        self.facts = self._found.best()

    def receipt(self, summary: str) -> Receipt:
        """Return the receipt of a summary."""
        shown = _Shown(summary)
        missing = tuple(fact.text for fact in self.facts if not shown.has(fact))
        return Receipt(len(self.facts) - len(missing), missing)

    def list_names(self) -> list[str]:
        """Return the names and identifiers in these texts."""
        return [fact.text for fact in self._found.all() if fact.kind in ("name", "identifier")]

    def is_name(self, word: str) -> bool:
        """Return whether a word is here with a capital alone."""
        return word in self._raw and f" {word.lower()}" not in self._raw

    def weigh(self, text: str) -> dict[str, int]:
        """Return the wanted facts in a text, each with how telling it is."""
        shown = _Shown(text)
        return {fact.text: self._found.weight(fact) for fact in self.facts if shown.has(fact)}

    def find_invented(self, summary: str) -> tuple[list[str], list[str], int]:
        """Return the names, and the other facts, in a summary that these texts do not have in any
        form; and how many facts it has in all."""
        told = _Facts()
        told.add(summary, 1, is_prose=True)
        all_told = list(told.all())
        absent = [fact for fact in all_told if not self._has(fact)]
        names = [fact.text for fact in absent if fact.kind == "name"]
        return names, [fact.text for fact in absent if fact.kind != "name"], len(all_told)

    @cached_property
    def text(self) -> str:
        """All that was looked through, in small letters."""
        return self._raw.casefold()

    @cached_property
    def _raw(self) -> str:
        return "\n".join(self._texts)

    def _has(self, fact: _Fact) -> bool:
        if self._found.has(fact) or fact.text.casefold() in self.text:
            return True
        if fact.kind == "name":
            parts = [part[:5] for part in WORD.findall(fact.text.casefold()) if len(part) > 2]
            return any(re.search(rf"\b{re.escape(part)}", self.text) for part in parts)
        if fact.kind in ("number", "date", "time"):
            shown = re.findall(r"\d+", fact.text)
            return all(re.search(rf"(?<!\d)0?{int(one)}(?!\d)", self.text) for one in shown)
        return any(form in self.text for form in fact.forms)


def _part_scripts(text: str) -> str:
    """Return a text with a blank where a word in Latin letters touches Chinese, as it touches none
    of its own."""
    return text if text.isascii() else _SCRIPTS_TOUCH.sub(" ", text)


_SCRIPTS_TOUCH = lazy(
    r"(?<=[\u3041-\u30ff\u3400-\u9fff])(?=[A-Za-z])|(?<=[A-Za-z])(?=[\u3041-\u30ff\u3400-\u9fff])"
)


def _join(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts, short ones together: to begin with a text takes longer than to read it."""
    some: list[str] = []
    size = 0
    for text in texts:
        if size + len(text) > _CHUNK and some:
            yield "\n".join(some)
            some, size = [], 0
        some.append(text)
        size += len(text)
    if some:
        yield "\n".join(some)


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
_URL = lazy(r"https?://[^\s<>\"'()\[\]{}（）。，；]{1,500}")
_EMAIL = lazy(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}")
_PATH = lazy(
    r"(?<![\w/])(?:(?:~|\.{1,2})?/(?:[\w.@+-]{1,80}/){1,12}[\w.@+-]{0,80}"
    rf"|(?:[\w.@+-]{{1,60}}/){{0,8}}[\w-]{{1,60}}\.(?:{_EXTENSIONS})\b"
    r"|[A-Za-z]:\\[\w.\\-]{1,200})"
)
_NAMES_OF_MONTHS = "|".join(sorted(MONTH_OF, key=len, reverse=True))
_DATE = lazy(
    rf"""(?P<iso>\b\d{{4}}-\d{{1,2}}-\d{{1,2}}\b)
    |(?P<cjk>\d{{1,2}}月\d{{1,2}}[日号])
    |(?P<dots>\b\d{{1,2}}\.\ ?\d{{1,2}}\.(?:\d{{4}}|\d{{2}})?(?!\d))
    |(?P<slashes>\b\d{{1,2}}/\d{{1,2}}/(?:\d{{4}}|\d{{2}})\b)
    |(?P<before>\b\d{{1,2}}(?:st|nd|rd|th|\.)?\ (?:of\ )?(?:{_NAMES_OF_MONTHS})\b\.?)
    |(?P<after>\b(?:{_NAMES_OF_MONTHS})\.?\ \d{{1,2}}(?:st|nd|rd|th)?\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_TIME = lazy(
    r"\b(\d{1,2})(?:[:h](\d{2})(?!\d)|(?=\s?(?:[ap]\.?m\b|Uhr\b)))(?:\s?(?:([ap])\.?m|Uhr)\b)?",
    re.IGNORECASE,
)
_TOKEN = lazy(
    r"(?<![\w-])[A-Za-z0-9_](?=[\w-]{0,60}(?:\d|_|[a-z][A-Z])|(?<=[\d_]))[\w-]{2,60}", re.ASCII
)
_NUMBER = lazy(
    r"(?<![\w.,])[$€£¥]?(\d[\d.,'’]{0,30}\d|\d)\s?([%$€£¥]|k\b|K\b|M\b|元|euros?\b|dollars?\b)?",
    re.IGNORECASE,
)
_DIGITS = lazy(r"\d(?:[\d.,'’]{0,30}\d)?")
_CAMEL = lazy(r"[a-z][A-Z]")
_LETTER = lazy(r"[A-Za-z]")
_UNIT = lazy(r"\d+(?:st|nd|rd|th|km|cm|mm|kg|mb|gb|tb|kb|ms|min|px|am|pm|h|s|m|g)", re.IGNORECASE)
_THOUSANDS = lazy(r"(\d+)(k|m)", re.IGNORECASE)


class _Facts(Struct, dict=True):
    """Facts of texts, with how telling each is."""

    _by_form: dict[tuple[str, frozenset[str]], _Fact] = field(default_factory=dict)
    _weights: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)

    def add(self, text: str, weight: int, is_prose: bool) -> None:
        """Look a text through; only for paths and addresses, where it is no prose."""
        rest = _part_scripts(text)
        for finder in (*_EXACT, *(_IN_PROSE if is_prose else ())):
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

    def all(self) -> Iterable[_Fact]:
        return self._by_form.values()

    def weight(self, fact: _Fact) -> int:
        return min(9, self._weights[fact.kind, fact.forms])

    def has(self, fact: _Fact) -> bool:
        """Return whether a fact of this kind with one of its forms was noted."""
        return not fact.forms.isdisjoint(self._forms[fact.kind])

    @cached_property
    def _forms(self) -> dict[str, set[str]]:
        known = defaultdict[str, set[str]](set)
        for kind, forms in self._by_form:
            known[kind].update(forms)
        return known


Found = Iterator[tuple[int, int, frozenset[str]]]


def _urls(text: str, start: int, end: int) -> Found:
    for found in _URL.finditer(text, start, end):
        whole = found[0].rstrip(".,;:!?*_")
        bare = whole.split("://", 1)[1].rstrip("/").casefold()
        yield found.start(), found.start() + len(whole), frozenset({bare})


def _plain(pattern: re.Pattern[str], text: str, start: int, end: int) -> Found:
    for found in pattern.finditer(text, start, end):
        whole = found[0].rstrip(".-/")
        forms = {whole.casefold(), re.split(r"[\\/]", whole)[-1].casefold()}
        if len(whole) > 1:
            yield found.start(), found.start() + len(whole), frozenset(forms)


def _dates(text: str, start: int, end: int) -> Found:
    for found in _DATE.finditer(text, start, end):
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


def _times(text: str, start: int, end: int) -> Found:
    for found in _TIME.finditer(text, start, end):
        hour, minute = int(found[1]), int(found[2] or 0)
        half = (found[3] or "").lower()
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour < 25 and minute < 60:
            yield found.start(), found.end(), frozenset({f"{hour}:{minute:02}"})


def _identifiers(text: str, start: int, end: int) -> Found:
    """Words that are no words: with digits, underscores, or capitals inside."""
    for found in _TOKEN.finditer(text, start, end):
        token = found[0].strip("-_")
        is_code = _DIGIT.search(token) or "_" in token or _CAMEL.search(token)
        if not is_code or len(token) < 3 or not _LETTER.search(token):
            continue
        if not _UNIT.fullmatch(token) and not _THOUSANDS.fullmatch(token):
            yield found.start(), found.end(), frozenset({token.casefold()})


def _numbers(text: str, start: int, end: int) -> Found:
    """Numbers of at least two digits, or with a currency or a per cent sign."""
    for found in _NUMBER.finditer(text, start, end):
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
    """Finds facts of a kind, at most `around` characters beside a `sign` without which there is
    none."""

    kind: str
    sign: re.Pattern[str]
    around: int
    look: Callable[[str, int, int], Found]

    def find(self, text: str) -> Found:
        """Find them; most of a text is passed over, since patterns are slow and signs are rare."""
        start = end = 0
        for sign in self.sign.finditer(text):
            if sign.start() - self.around > end:
                if end:
                    yield from self.look(text, start, end)
                start = sign.start() - self.around
            end = sign.end() + self.around
        if end:
            yield from self.look(text, start, min(end, len(text)))


_DIGIT = lazy(r"\d+")
_EXACT = (
    _Finder("url", re.compile("://"), 500, _urls),
    _Finder("address", re.compile("@"), 200, partial(_plain, _EMAIL)),
    _Finder("path", re.compile(rf"[/\\]|\.(?:{_EXTENSIONS})\b"), 200, partial(_plain, _PATH)),
)
_IN_PROSE = (
    _Finder("date", _DIGIT, 32, _dates),
    _Finder("time", _DIGIT, 32, _times),
    _Finder("identifier", re.compile(r"[\d_]|[A-Z](?<=[a-z].)"), 64, _identifiers),
    _Finder("number", _DIGIT, 32, _numbers),
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
        summary = _part_scripts(summary)
        self._text = summary.casefold()
        self._words = frozenset(WORD.findall(self._text))
        self._forms = {
            finder.kind: frozenset(form for *_, forms in finder.find(summary) for form in forms)
            for finder in _IN_PROSE
            if finder.kind in ("date", "time")
        }
        numbers = (_values(found[0]) for found in _DIGITS.finditer(summary))
        scaled = (forms for *_, forms in _numbers(summary, 0, len(summary)))
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
