"""Names, numbers, dates, times, paths, addresses and identifiers in texts, found without a model.

Patterns are slow, and most of a text has no facts: each pattern is tried only at a character that
it needs, such as a digit.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache, partial

from msgspec import Struct, field

from memory.patterns import lazy
from memory.text.names import MONTH_OF, find_names


class Fact(Struct, frozen=True):
    """A fact of a text: as written, and the forms by which it is found again."""

    kind: str
    text: str
    forms: frozenset[str]


class FoundFacts(Struct, dict=True):
    """Facts of texts, each with its weight."""

    _by_form: dict[tuple[str, frozenset[str]], Fact] = field(default_factory=dict)
    _weights: Counter[tuple[str, frozenset[str]]] = field(default_factory=Counter)

    def add(self, text: str, weight: int, is_prose: bool) -> None:
        """Search a text for facts; only for paths and addresses if it is not prose."""
        rest = separate_scripts(_without_formulas(text))
        for finder in (*_EXACT, *(IN_PROSE if is_prose else ())):
            rest = self._extract(finder, rest, weight)
        if is_prose:
            for name, times in Counter(find_names(rest)).items():
                self._note(Fact("name", name, frozenset({name.casefold()})), weight * times)

    def _extract(self, finder: _FactFinder, text: str, weight: int) -> str:
        """Record the facts found; return the text without them."""
        rest, at = [], 0
        for start, end, forms in finder.find(text):
            self._note(Fact(finder.kind, text[start:end].strip(), forms), weight)
            rest += [text[at:start], " \0 "]
            at = end
        return "".join((*rest, text[at:])) if rest else text

    def _note(self, fact: Fact, weight: int) -> None:
        key = (fact.kind, fact.forms)
        self._by_form.setdefault(key, fact)
        self._weights[key] += weight

    def best(self, most: int) -> list[Fact]:
        """Return the facts with the highest weights."""
        ranked = sorted(self._weights, key=lambda key: -min(9, self._weights[key]))
        return [self._by_form[key] for key in ranked[:most]]

    def all(self) -> Iterable[Fact]:
        return self._by_form.values()

    def weight(self, fact: Fact) -> int:
        return min(9, self._weights[fact.kind, fact.forms])

    def has(self, fact: Fact) -> bool:
        """Return whether a fact of this kind with one of its forms was recorded."""
        return not fact.forms.isdisjoint(self._forms[fact.kind])

    @cached_property
    def _forms(self) -> dict[str, set[str]]:
        known = defaultdict[str, set[str]](set)
        for kind, forms in self._by_form:
            known[kind].update(forms)
        return known


def separate_scripts(text: str) -> str:
    """Return a text with a space inserted between Chinese and a word in Latin letters or a number,
    except within a date and before a unit."""
    return text if text.isascii() or not _WIDE.search(text) else _SCRIPTS_TOUCH.sub(" ", text)


_WIDE = lazy(r"[\u3041-\u30ff\u3400-\u9fff]")
_SCRIPTS_TOUCH = lazy(
    r"(?<=[\u3041-\u30ff\u3400-\u9fff])(?<!\d月)(?=[A-Za-z0-9])"
    r"|(?<=[A-Za-z])(?=[\u3041-\u30ff\u3400-\u9fff])"
    r"|(?<=[0-9])(?![元月日号])(?=[\u3041-\u30ff\u3400-\u9fff])"
)
_FORMULA = lazy(
    r"\$\$[^$]{1,2000}\$\$|\$(?=[^$\n]{0,300}[\\^_={])[^$\n]{1,300}\$"
    r"|\\\((?:(?!\\\)).){1,500}\\\)|\\\[(?:(?!\\\]).){1,2000}\\\]",
    re.DOTALL,
)


def _without_formulas(text: str) -> str:
    """Return a text with formulas, between dollars or behind backslashes, replaced by spaces: their
    numbers and symbols are not facts."""
    if "$" not in text and "\\" not in text:
        return text
    return _FORMULA.sub(lambda found: " " * len(found[0]), text)


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
    |(?P<dots>(?<![\w.])(?<![a-z]-)\d{{1,2}}\.\ ?\d{{1,2}}\.(?:\d{{4}}|\d{{2}})?(?!\w))
    |(?P<slashes>\b\d{{1,2}}/\d{{1,2}}/(?:\d{{4}}|\d{{2}})\b)
    |(?P<before>\b\d{{1,2}}(?:st|nd|rd|th|\.)?\ (?:of\ )?(?:{_NAMES_OF_MONTHS})\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_BEHIND_DAY = frozenset("-./月 snrtSNRT")
"""The characters that may follow the first number of such a date."""
_MONTH_AND_DAY = lazy(rf"(?:{_NAMES_OF_MONTHS})\.?\ \d{{1,2}}(?:st|nd|rd|th)?\b", re.IGNORECASE)
_LAST_WORD = lazy(r"(?<!\w)[^\W\d_]{3,9}(?=\.? \Z)")
_WORD_BEFORE = lazy(r"([^\W\d_]+)\ \Z")
_BEFORE_DATE = lazy(
    r"am|vom|zum|bis|ab|auf|den|de[mr]|seit|vor|nach|und|oder|statt|nicht|sondern|doch|heute|gestern|"
    r"morgen|spätestens|frühestens|datum|termin|stand|frist|abgabe|anreise|abreise|geboren|von|"
    r"\w{2,7}tag|mittwoch|sonnabend|mo|di|mi|do|fr|sa|so",
    re.IGNORECASE,
)
"""Words before a date in German."""
_LONGEST_MONTH = 12  # characters, with the text that may be before and behind it
_TIME = lazy(
    r"\b(\d{1,2})(?:[:h](\d{2})(?!\d)|(?=\s?(?:[ap]\.?m\b|Uhr\b)))(?:\s?(?:([ap])\.?m|Uhr)\b)?",
    re.IGNORECASE,
)
_SIGN = r"A-Za-zÀ-ÖØ-öø-ÿ0-9_"
_TOKEN = lazy(
    rf"[{_SIGN}](?<![{_SIGN}-].)(?=[{_SIGN}-]{{0,60}}(?:[0-9]|_|[a-z][A-Z])|(?<=[0-9_]))"
    rf"[{_SIGN}-]{{2,60}}(?:(?<=\d)(?:\.\d{{1,4}}){{1,3}}(?!\w|\.\d))?"
)
_VARIABLE = lazy(r"[^\W\d_]_\w")
ACCOUNT = (
    r"[A-Z]{2}\d{2} [A-Z\d]{4}(?: (?=[A-Z]*\d)[A-Z\d]{4}){1,6}"
    r"(?: (?=[A-Z]*\d)[A-Z\d]{1,3})?(?![A-Za-z\d])"
)
"""The number of a bank account, in groups (IBAN)."""
_CODE = lazy(
    r"(?<![\w.+/-])(?:"
    r"(?:\+\d{1,3}|0)\d{0,5}(?:(?:[ /-]| / |\) ?)\(?\d{1,8}){1,6}"  # a phone number
    r"|\d{1,6}(?:-\d{1,6}){1,5}|\d{1,6}(?:/\d{1,6}){2,5}"
    rf"|{ACCOUNT}"
    r"|[A-Z]{1,4}-?\d{0,8}(?:/\d{1,8}){1,4}"
    r"|[vV]\d{1,4}(?:\.\d{1,4}){1,3})(?![\w/-]|[.]\w)"
)
_CODE_SIGN = re.compile(r"[0-9](?:[ /.)-]|\b)")
_BETWEEN_DIGITS = lazy(r"(?<=\d)[ /()-]{1,3}(?=\d)")
_LEAST_DIGITS = 5
_NUMBER = lazy(
    r"(?<![\w.,])[$€£¥]?(\d[\d.,'’]{0,30}\d|\d)\s?([%$€£¥]|k\b|K\b|M\b|元|euros?\b|dollars?\b)?",
    re.IGNORECASE,
)
_CAMEL = lazy(r"[a-z][A-Z]")
_LETTER = lazy(r"[A-Za-z]")
_UNIT = lazy(r"\d+(?:st|nd|rd|th|km|cm|mm|kg|mb|gb|tb|kb|ms|min|px|am|pm|h|s|m|g)", re.IGNORECASE)
_THOUSANDS = lazy(r"(\d+)(k|m)", re.IGNORECASE)


Found = Iterator[tuple[int, int, frozenset[str]]]


class _FactFinder(Struct, frozen=True):
    """A finder of facts of a kind; each fact has this sign."""

    kind: str
    sign: re.Pattern[str]
    find: Callable[[str], Found]


def _parts_with_sign(sign: re.Pattern[str], most: int, text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text between spaces that have a sign, with at most `most` characters on
    each side of it."""
    start = end = 0
    for found in sign.finditer(text):
        at, behind = found.span()
        if at < end:
            continue
        first = text.rfind(" ", max(end, at - most), at) + 1 or max(end, at - most)
        if first > end or not end:
            if end:
                yield start, end
            start = first
        end = text.find(" ", behind, behind + most)
        if end < 0:
            end = _REST_OF_WORD.match(text, min(len(text), behind + most)).end()  # type: ignore[union-attr]
    if end:
        yield start, end


def _urls(text: str) -> Found:
    for start, end in _parts_with_sign(_URL_SIGN, 500, text):
        for found in _URL.finditer(text, start, end):
            whole = found[0].rstrip(".,;:!?*_")
            bare = whole.split("://", 1)[1].rstrip("/").casefold()
            yield found.start(), found.start() + len(whole), frozenset({bare})


def _plain(pattern: re.Pattern[str], sign: re.Pattern[str], text: str) -> Found:
    for start, end in _parts_with_sign(sign, 200, text):
        for found in pattern.finditer(text, start, end):
            whole = found[0].rstrip(".-/")
            forms = {whole.casefold(), re.split(r"[\\/]", whole)[-1].casefold()}
            if len(whole) > 1:
                yield found.start(), found.start() + len(whole), frozenset(forms)


def _dates(text: str) -> Found:
    done = 0
    for digits in _DIGIT.finditer(text):
        start, end = digits.span()
        if start < done:
            continue
        found = _month_before(text, start, done) if text[start - 1 : start] == " " else None
        behind = text[end : end + 1]
        if not found and behind in _BEHIND_DAY:
            found = _DATE.match(text, max(start, end - 2) if behind == "月" else start)
        if found and not _is_decimal(text, found):
            done = found.end()
            if days := _days(found):
                yield found.start(), done, days


def _is_decimal(text: str, found: re.Match[str]) -> bool:
    """Return whether an apparent day and month is a number at the end of a sentence, behind a word
    that is not used before dates: "Python 3.12."."""
    if found.lastgroup != "dots" or found[0][-1] != "." or " " in found[0]:
        return False
    behind = text[found.end() : found.end() + 2]
    is_last = not behind.strip() or "\n" in behind or behind.strip()[:1].isupper()
    word = _WORD_BEFORE.search(text, max(0, found.start() - 24), found.start())
    return is_last and word is not None and not _BEFORE_DATE.fullmatch(word[1])


def _month_before(text: str, at: int, done: int) -> re.Match[str] | None:
    """Return the date whose day begins here, behind the name of its month."""
    first = max(done, at - _LONGEST_MONTH)
    word = _LAST_WORD.search(text, first, at)
    if word is None or word[0].casefold() not in MONTH_OF:
        return None
    return _MONTH_AND_DAY.match(text, word.start())


def _days(found: re.Match[str]) -> frozenset[str]:
    """Return the days of a year that a date may name, as "3/14"; both if day and month may be in
    either order."""
    numbers = [int(digits) for digits in re.findall(r"\d+", found[0])]
    words = re.findall(r"[^\W\d_]+", found[0].casefold())
    month = next((MONTH_OF[word] for word in words if word in MONTH_OF), 0)
    if month:
        pairs = [(month, numbers[0])]
    elif found.lastgroup == "iso":
        pairs = [(numbers[1], numbers[2])]
    elif found.lastgroup == "cjk":
        pairs = [(numbers[0], numbers[1])]
    elif found.lastgroup == "slashes":
        pairs = [(numbers[0], numbers[1]), (numbers[1], numbers[0])]
    else:
        pairs = [(numbers[1], numbers[0])]
    return frozenset(f"{m}/{d}" for m, d in pairs if 1 <= m <= 12 and 1 <= d <= 31)


def _times(text: str) -> Found:
    done = 0
    for digits in _DIGIT.finditer(text):
        start, end = digits.span()
        if start < done or end - start > 2 or text[end : end + 2].strip()[:1] not in _BEHIND_HOUR:
            continue
        found = _TIME.match(text, start)
        if found is None:
            continue
        done = found.end()
        hour, minute = int(found[1]), int(found[2] or 0)
        half = (found[3] or "").lower()
        if half:
            hour = hour % 12 + (12 if half == "p" else 0)
        if hour < 25 and minute < 60:
            yield start, done, frozenset({f"{hour}:{minute:02}"})


def join_digits(text: str) -> str:
    """Return a text without the separators between a number's groups of digits."""
    return _BETWEEN_DIGITS.sub("", text)


def _codes(text: str) -> Found:
    """Find numbers of phones, accounts, files and versions: groups of digits that have no meaning
    alone."""
    for found in _CODE.finditer(text):
        whole = found[0]
        if whole[0] not in "vV" and sum(map(str.isdigit, whole)) < _LEAST_DIGITS:
            continue
        yield (
            found.start(),
            found.end(),
            frozenset({whole.casefold(), join_digits(whole.replace(" ", "")).casefold()}),
        )


def _identifiers(text: str) -> Found:
    """Find tokens that are not words: with digits, underscores, or capitals inside."""
    for start, end in _parts_with_sign(_TOKEN_SIGN, 64, text):
        for found in _TOKEN.finditer(text, start, end):
            token = found[0].strip("-_")
            is_code = _DIGIT.search(token) or "_" in token or _CAMEL.search(token)
            if not is_code or len(token) < 3 or not _LETTER.search(token):
                continue
            if _VARIABLE.fullmatch(token):
                continue
            if not _UNIT.fullmatch(token) and not _THOUSANDS.fullmatch(token):
                yield found.start(), found.end(), frozenset({token.casefold()})


def find_numbers(text: str) -> Found:
    """Find numbers of at least two digits, or with a currency or a per cent sign."""
    done = 0
    for digits in _DIGIT.finditer(text):
        start = digits.start()
        if start < done:
            continue
        is_signed = start > done and text[start - 1] in _CURRENCY
        found = _NUMBER.match(text, start - is_signed) or _NUMBER.match(text, start)
        if found is None:
            continue
        done = found.end()
        is_money = found[0][0] in _CURRENCY or bool(found[2])
        if is_money or sum(sign.isdigit() for sign in found[1]) > 1:
            yield found.start(), done, values_of(found[1], (found[2] or "").lower())


@lru_cache(maxsize=4_096)
def values_of(digits: str, unit: str = "") -> frozenset[str]:
    """Return the values that a number may have: the thousands separator of one country is the
    decimal separator of another."""
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


# A pattern that begins with a set of characters is searched for fastest.
_DIGIT = lazy(r"\d\d*")
_REST_OF_WORD = lazy(r"[\w-]{0,64}")
_CURRENCY = frozenset("$€£¥")
_BEHIND_HOUR = frozenset(":hHaApPuU")
_URL_SIGN, _ADDRESS_SIGN = re.compile("://"), re.compile("@")
_PATH_SIGN = re.compile(rf"[/\\.](?:(?<=[/\\])|(?<=\.)(?:{_EXTENSIONS})\b)")
_TOKEN_SIGN = re.compile(r"[0-9_A-Z](?:(?<=[0-9_])|(?<=[a-z].))")
_EXACT = (
    _FactFinder("url", _URL_SIGN, _urls),
    _FactFinder("address", _ADDRESS_SIGN, partial(_plain, _EMAIL, _ADDRESS_SIGN)),
    _FactFinder("path", _PATH_SIGN, partial(_plain, _PATH, _PATH_SIGN)),
)
IN_PROSE = (
    _FactFinder("date", _DIGIT, _dates),
    _FactFinder("time", _DIGIT, _times),
    _FactFinder("identifier", _CODE_SIGN, _codes),
    _FactFinder("identifier", _TOKEN_SIGN, _identifiers),
    _FactFinder("number", _DIGIT, find_numbers),
)


def find_facts(text: str) -> Iterator[tuple[str, int, int, frozenset[str]]]:
    """Yield the facts of a text with their kind, their place, and the forms by which each is found
    again; grouped by kind, and without overlaps."""
    rest = text
    for finder in (*_EXACT, *IN_PROSE):
        if not finder.sign.search(rest):
            continue
        for start, end, forms in [*finder.find(rest)]:
            yield finder.kind, start, end, forms
            rest = rest[:start] + " " * (end - start) + rest[end:]
