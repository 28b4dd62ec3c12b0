"""The receipt of a summary: the names, numbers, dates, paths, addresses and identifiers of the
removed turns that are still in it. Made without a model, by searching, without understanding the
text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Literal

from msgspec import Struct

from memory.patterns import lazy
from memory.text.facts import (
    IN_PROSE,
    Fact,
    FoundFacts,
    find_numbers,
    join_digits,
    separate_scripts,
    values_of,
)
from memory.text.mentioned import MentionedDates, MentionedNumbers
from memory.text.names import WORD
from memory.text.numbers import Units

MOST = 40
"""The maximum number of facts of one summary: those mentioned most often, and by the person."""
SCANNED = 200_000
"""The maximum number of characters searched: the person's messages first, then the replies."""
_LINE = 20_000  # characters of one message
_OF_A_WHOLE_NAME = 4
_PARTS_OF_NAMES = 2  # of which one at least was said: who is called so was spoken of
_SLIP_OF_A_DAY = 2  # a day that is one of those said but for its month or number counts so much
_SLIP_OF_A_UNIT = 2
_COMPARED = 8  # slips whose words are compared
_CHUNK = 4_000  # characters of short messages that are searched together
_QUOTED = 200  # characters of a sentence

Taken = Literal["", "first", "second", "extract"]
"""The summary that was used: the model's first, its second, or sentences of the turns."""


class Receipt(Struct, frozen=True):
    """The number of facts of the removed turns that a summary kept, and the missing facts, by
    weight. `taken` is the summary's source ("": a person, or an older version), `findings` the
    reasons why no earlier one was accepted (`audit.REASONS`)."""

    kept: int = 0
    missing: tuple[str, ...] = ()
    taken: Taken = ""
    findings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        return self.kept + len(self.missing)

    @property
    def share(self) -> float:
        """The share of facts that were kept, from 0 to 1; 1 if there were none to keep."""
        return self.kept / self.total if self.total else 1.0


_WHOLE_NAME = lazy(r"[A-ZÀ-ÖØ-Þ]\S{2,} (?:\S+ )?[A-ZÀ-ÖØ-Þ]\S{2,}")
_COUNTED = lazy(r"(?<!\d)(\d{1,12})\s?([^\W\d_]{2,20})")
_UNIT = lazy(r"[€$£¥元%]|\d (?:euros?|dollars?|pounds?|EUR|USD|GBP)\b", re.IGNORECASE)


class Invented(Struct, frozen=True):
    """The names, and the other facts, in a text that are not in its source. Also the number of all
    its facts (`told`), of those with digits (`numbers`), and of those that differ from a number of
    the source by one digit or the order of digits (`slips`)."""

    names: tuple[str, ...]
    others: tuple[str, ...]
    told: int
    numbers: int
    slips: int = 0

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.names, *self.others)

    @property
    def false_numbers(self) -> tuple[str, ...]:
        return tuple(one for one in self.others if any(map(str.isdigit, one)))

    @property
    def weights(self) -> tuple[int, int]:
        """The names, of which one of several words counts most, and the numbers, of which one
        counts more that is long, or has a unit, or is a slip."""
        numbers = self.false_numbers
        long = sum(len(re.findall(r"\d", one)) > 2 for one in numbers)
        units = sum(bool(_UNIT.search(one)) for one in numbers)
        return (
            sum(_OF_A_WHOLE_NAME if _WHOLE_NAME.search(one) else 1 for one in self.names),
            len(numbers) + long + units + self.slips,
        )


class SourceFacts:
    """The facts of texts: of the person's messages, of the replies, and of the arguments of tool
    calls, of which only paths and addresses count. `facts` are those with the highest weights,
    `texts` all texts that were searched."""

    def __init__(
        self, asked: Sequence[str], answered: Sequence[str], touched: Sequence[str]
    ) -> None:
        self._found, room = FoundFacts(), SCANNED
        self.texts: list[str] = []
        for texts, weight, is_prose in ((asked, 3, True), (answered, 1, True), (touched, 1, False)):
            done = len(self.texts)
            for text in texts:
                if room <= 0:
                    break
                part = text[: min(_LINE, room)]
                room -= len(part)
                self.texts.append(part)
            for chunk in _join(self.texts[done:]):
                self._found.add(chunk, weight, is_prose)
        self.facts = self._found.best(MOST)

    def receipt(self, summary: str) -> Receipt:
        """Return the receipt of a summary."""
        missing = tuple(fact.text for fact in self.list_missing(summary))
        return Receipt(len(self.facts) - len(missing), missing)

    def list_missing(self, summary: str) -> list[Fact]:
        """Return the facts with the highest weights that a summary does not have."""
        shown = _Shown(summary)
        return [fact for fact in self.facts if not shown.has(fact)]

    def list_names(self) -> list[str]:
        """Return the names and identifiers in these texts."""
        return [fact.text for fact in self._found.all() if fact.kind in ("name", "identifier")]

    @property
    def has_numbers(self) -> bool:
        """Return whether one of the facts with the highest weights has digits."""
        return any(any(map(str.isdigit, fact.text)) for fact in self.facts)

    def is_name(self, word: str) -> bool:
        """Return whether these texts have a word only with a capital."""
        return word in self._raw and f" {word.lower()}" not in self._raw

    def weigh_facts(self, text: str) -> dict[str, int]:
        """Return the facts in a text, each with its weight."""
        shown = _Shown(text)
        return {fact.text: self._found.weight(fact) for fact in self.facts if shown.has(fact)}

    def prepare(self) -> None:
        """Find what `find_invented` compares with."""
        _ = self.find_invented("2 kg of 1,234 on 9 May at 12:34")

    def find_invented(self, summary: str) -> Invented:
        """Return the facts of a summary that these texts do not have in any form."""
        told = FoundFacts()
        told.add(summary, 1, is_prose=True)
        all_told = list(told.all())
        absent = [fact for fact in all_told if not self._has(fact) and not self._has_value(fact)]
        names = [fact.text for fact in absent if fact.kind == "name"]
        others = [fact.text for fact in absent if fact.kind != "name"]
        numbers = [fact.text for fact in all_told if any(map(str.isdigit, fact.text))]
        slips = sum(bool(self._numbers.find_like(one)) for one in others)
        slips += self._count_of_the_same(others, summary)
        slips += sum(
            _SLIP_OF_A_DAY
            for fact in absent
            if fact.kind == "date" and self._dates.is_like(fact.forms)
        )
        changed = self._units.find_changed(summary)
        slips += _SLIP_OF_A_UNIT * len(changed)
        others += changed
        return Invented(tuple(names), tuple(others), len(all_told), len(numbers), slips)

    def _count_of_the_same(self, numbers: Sequence[str], summary: str) -> int:
        """Return how many of the first numbers are slips of one that the same word follows."""
        counted = dict(_COUNTED.findall(summary))
        told = [(one, counted[one].casefold()) for one in numbers[:_COMPARED] if one in counted]
        likes = ((self._numbers.find_like(one), word) for one, word in told)
        return sum(
            bool(re.search(rf"(?<!\d){like}\s?{word}\b", self.text)) for like, word in likes if like
        )

    @cached_property
    def text(self) -> str:
        """All searched texts, in lower case."""
        return self._raw.casefold()

    @cached_property
    def _joined(self) -> str:
        return join_digits(self.text)

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        """The first four and the first five characters of all words."""
        starts = [found.start() for found in re.finditer(r"\b\w", self.text)]
        return frozenset(self.text[at : at + size] for at in starts for size in (4, 5))

    @cached_property
    def _digits(self) -> frozenset[str]:
        return frozenset(re.findall(r"\d+", self.text))

    @cached_property
    def _raw(self) -> str:
        return "\n".join(self.texts)

    @cached_property
    def _numbers(self) -> MentionedNumbers:
        return MentionedNumbers(self.texts)

    @cached_property
    def _units(self) -> Units:
        return Units(self.texts)

    @cached_property
    def _dates(self) -> MentionedDates:
        return MentionedDates(self.texts)

    def _has_value(self, fact: Fact) -> bool:
        """Return whether these texts have a fact with digits in another form."""
        if fact.kind == "date":
            return self._dates.has(fact.forms)
        return any(map(str.isdigit, fact.text)) and self._numbers.has(fact.text)

    def _has(self, fact: Fact) -> bool:
        if self._found.has(fact) or fact.text.casefold() in self.text:
            return True
        if fact.kind == "date":
            return False
        if fact.kind == "name":
            parts = [part[:5] for part in WORD.findall(fact.text.casefold()) if len(part) > 3]
            known = sum(part in self._beginnings for part in parts)
            return known > 0 and known * _PARTS_OF_NAMES >= len(parts)
        if fact.kind in ("number", "time"):
            shown = re.findall(r"\d+", fact.text)
            return all({f"{int(one)}", f"0{int(one)}"} & self._digits for one in shown)
        return any(form in self.text or form in self._joined for form in fact.forms)


def _join(texts: Sequence[str]) -> Iterator[str]:
    """Yield the texts, short ones joined: starting a search takes longer than the search itself."""
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


# --- the content of the summary ------------------------------------------------------------------


_DIGITS = lazy(r"\d(?:[\d.,'’]{0,30}\d)?")


class _Shown:
    """A summary, prepared for looking facts up."""

    def __init__(self, summary: str) -> None:
        summary = separate_scripts(summary)
        self._text = summary.casefold()
        self._joined = join_digits(self._text)
        self._words = frozenset(WORD.findall(self._text))
        self._forms = {
            finder.kind: frozenset(form for *_, forms in finder.find(summary) for form in forms)
            for finder in IN_PROSE
            if finder.kind in ("date", "time")
        }
        numbers = (values_of(found[0]) for found in _DIGITS.finditer(summary))
        scaled = (forms for *_, forms in find_numbers(summary))
        self._forms["number"] = frozenset(form for forms in (*numbers, *scaled) for form in forms)

    def has(self, fact: Fact) -> bool:
        """Return whether the summary has this fact: a date or a number in any form; of a name, a
        part beyond its first word; of anything else, its own words."""
        if fact.kind in self._forms:
            return not fact.forms.isdisjoint(self._forms[fact.kind])
        if any(form in self._text or form in self._joined for form in fact.forms):
            return True
        if fact.kind != "name":
            return False
        words = fact.text.casefold().split()
        return len(words) > 1 and words[-1] in self._words and len(words[-1]) > 3


def sentence_with(words: str, texts: Iterable[str]) -> str:
    """Return the first sentence with these words, on one line; "" if there is none."""
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
        if len(line) <= _QUOTED:
            return line
        where = max(0, line.casefold().find(wanted) - _QUOTED // 2)
        return f"…{line[where : where + _QUOTED]}…"
    return ""
