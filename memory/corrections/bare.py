"""Sentences that correct a value and name only the new one: "oops, 17", "打错了，17".

Such a sentence has a cue ("oops"), the value, and otherwise only little words and words that were
used with the old value ("sry, flat 8"). A word for another thing ("5 carrots") makes it something
else. The old value is the one most similar to the new one. A bare number may be the day of a date,
the hour of a time, the number before a unit or the end of a code. If two values are equally
similar, none is chosen: a value ended wrongly is worse than a missed correction. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from memory.corrections.frames import is_doubtful
from memory.corrections.pairs import (
    BACK,
    DATE,
    WHOLE_HOUR,
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    count_edits,
    has_same_unit,
)
from memory.corrections.sentences import (
    has_cue,
    has_end_cue,
    has_hint,
    has_slip_cue,
    list_further,
    list_words,
)
from memory.corrections.targets import part_of
from memory.patterns import lazy
from memory.text.values import Value

_LONGEST = 300  # maximum characters of a message
_SENTENCES = 3  # of a message
_OLD = 60  # values before it
_TAIL = 40  # characters behind the value in which a cue may be
_APART, _APOLOGY = 2, 60  # messages between an apology and the value, and characters of it
_FREE = 3  # words beside a cue behind the value

_ASKING = lazy(
    r"\W*(?:what|how|why|which|who|where|wie|warum|wieso|wer|wo|welch\w*|"
    r"was (?:ist|sind|war|wäre))\b",
    re.IGNORECASE,
)
_CLAUSE = lazy(r"[,;:，、；：(（–—]|\s-\s|\.{2,}|…")


def may_be_bare(text: str) -> bool:
    """Return whether a message is short and has a cue."""
    return len(text) <= _LONGEST and has_cue(text)


class BareValue(Struct, frozen=True):
    """A new value that a sentence names with a cue, the words beside it that are not cues, the word
    directly behind it, and whether the cue says that something was wrong."""

    sentence: ParsedSentence
    new: Value
    words: frozenset[str]
    behind: str
    is_slip: bool


def find_bare(said: ParsedMessage, before: Sequence[ParsedMessage]) -> Iterator[ValuePair]:
    """Yield the pairs of new values that a message names alone and of the old values that they end;
    `before` are the messages before it, newest first."""
    apology = next((one.text for one in before[:_APART] if _is_apology(one)), "")
    if not apology and not may_be_bare(said.text):
        return
    sentences = [part for message in before[:BACK] for part in message.sentences]
    known = [value for part in sentences for value in part.values]
    for one in _list_said(said, known, apology):
        if old := _choose(one, before[:BACK]):
            yield old


def _is_apology(message: ParsedMessage) -> bool:
    """Return whether a message has a cue and no other content: "Sorry!!", before "Wednesday"."""
    text = message.text
    return len(text) <= _APOLOGY and has_cue(text) and not list_further(text)


def _list_said(said: ParsedMessage, known: Sequence[Value], apology: str) -> Iterator[BareValue]:
    cue = apology  # or a sentence of cues alone: "Typo. It's 17."
    for sentence in said.sentences[:_SENTENCES]:
        yield from _read(sentence, cue, known)
        cue = sentence.text if has_cue(sentence.text) and not list_further(sentence.text) else ""


def _read(sentence: ParsedSentence, cue: str, known: Sequence[Value]) -> Iterator[BareValue]:
    text = sentence.text
    values = [one for one in sentence.values if one.kind != "name"] or _list_names(sentence)
    if not values or is_doubtful(text) or _ASKING.match(text):
        return
    values = [one for one in values if not any(one.is_same(old) for old in known)] or values
    new = values[0]
    end = _CLAUSE.search(text, new.end)
    stop = min(end.start() if end else len(text), part_of(text, new)[1])
    is_named = new.kind in ("name", "word")
    others = (one for one in values[1:] if one.start < stop or not is_named)
    if any(one.start < stop or one.kind == new.kind for one in others):
        return
    *clauses, own = _CLAUSE.split(text[: new.start])
    cues = " ".join((cue, *clauses, own, "\0", text[new.end : stop]))
    plain = (one for one in clauses if not has_slip_cue(f"{one},", new.kind))
    head = " ".join((*plain, own, "\0", text[new.end : stop]))
    tail = text[stop : stop + _TAIL]
    if has_cue(tail):
        if len(list_further(tail)) > _FREE:
            return
        cues = f"{cues} {tail}"
    is_slip = has_slip_cue(cues, new.kind)
    if is_slip or (has_hint(cues) and not is_named):
        behind = list_further(text[new.end : stop])[:1]
        is_next = behind and text[new.end :].lstrip(" -").casefold().startswith(behind[0])
        yield BareValue(
            sentence, new, frozenset(list_further(head)), behind[0] if is_next else "", is_slip
        )


def _list_names(sentence: ParsedSentence) -> Sequence[Value]:
    """Return the names of a sentence that are not cues, or its words in Chinese."""
    return [one for one in (*sentence.values, *sentence.runs) if list_further(one.text)]


# --- the old value -------------------------------------------------------------------------------


class _OldValue(Struct, frozen=True):
    """An old value: its difference from the new one, and how many messages back it is."""

    unlike: int
    back: int
    source: ParsedSentence
    value: Value


def _choose(one: BareValue, before: Sequence[ParsedMessage]) -> ValuePair | None:
    """Return the pair of a new value and the only old one that it can replace."""
    last_said = (value for part in before[0].sentences for value in part.values) if before else ()
    if any(one.new.is_same(value) for value in last_said):
        return None  # "Is it 14 or 15?" "No, 15."
    name = one.new.text.casefold() if one.new.kind in ("name", "word") else ""
    if name and any(name in message.folded for message in before):
        return None
    olds = [*_list_old(one, before)]
    if not olds:
        return None
    last = min(olds, key=lambda old: (old.back, old.unlike))
    most = min(olds, key=lambda old: (old.unlike, old.back))
    if last.unlike > most.unlike and (most.unlike or last.unlike < FAR):
        return None
    equal = [old for old in olds if (old.unlike, old.back) == (most.unlike, most.back)]
    if any(not old.value.is_same(most.value) for old in equal):
        return None
    is_sure = one.is_slip or (most.unlike < FAR and not _is_asked(before, most))
    if not is_sure:
        return None
    return ValuePair(one.sentence, one.new, most.source, most.value, most.back, 0)


def _is_asked(before: Sequence[ParsedMessage], old: _OldValue) -> bool:
    """Return whether the last message asks for a value: "How many?" "Sorry, 40"."""
    return before[0].text.rstrip().endswith(("?", "？")) and old.back > 0


def _list_old(one: BareValue, before: Sequence[ParsedMessage]) -> Iterator[_OldValue]:
    count, kind = 0, one.new.kind
    for back, message in enumerate(before):
        for source in reversed(message.sentences):
            for value in reversed(source.runs if kind == "word" else source.values):
                if value.kind != kind == "name" or value.is_same(one.new):
                    continue
                if (count := count + 1) > _OLD:
                    return
                unlike = measure(one, value)
                if unlike is not None and _shares_words(one, source.text, value):
                    yield _OldValue(unlike, back, source, value)


def _shares_words(one: BareValue, source: str, old: Value) -> bool:
    """Return whether the words beside the new value were used with the old one too: all of them, or
    one and few others if the sentence says that something was wrong."""
    if not one.words:
        return True
    said = set(list_words(source))
    start, end = part_of(source, old)
    before = list_words(source[start : old.start])
    behind = list_words(source[old.end : end])
    if one.behind and behind[:1] != [one.behind]:
        return False
    near = {*before[-_NEAR:], *behind[:_NEAR]}
    strange = one.words - said
    is_few = one.is_slip and len(strange) <= _STRANGE and all(word < "\u3400" for word in strange)
    return (is_few or not strange) and not one.words.isdisjoint(near)


_NEAR = 3  # words beside a value
_STRANGE = 2  # words that were not used with the old value
_ALIKE, _SHAPED, FAR = range(3)
"""Degrees of difference between two values: a slip, the same length, the same magnitude."""
_RATIO = 3
_EDITS, _SIGNS = 2, 3
"""The maximum number of changed characters, and one changed character per how many."""
_BARE = lazy(r"(\d{1,9})(?:st|nd|rd|th|\.)?")
_TAIL_OF_CODE = lazy(r"(?:.*\D)?(\d{1,9})")
LONG, LONGEST_END = 7, 6
"""The digits from which on a number may be named by its end alone, and the most digits of that
end."""
_NO_UNIT = lazy(r"[\d.,'’\s零一二三四五六七八九十百千万两]")
_YEARS = range(1900, 2100)


def measure(one: BareValue, old: Value) -> int | None:
    """Return the difference of two values, or None if one can't replace the other."""
    new = one.new
    bare = _BARE.fullmatch(new.text) if new.kind in ("number", "day") else None
    if bare and has_end_cue(one.sentence.text):
        return _compare_ends(bare[1], re.sub(r"\D", "", old.text))
    if bare and old.kind != "number":
        return _measure_part(bare[1], new, old)
    if new.kind != old.kind or not has_same_unit(old, new):
        return None
    if new.kind == "number":
        return _measure_numbers(new, old)
    if new.kind == "word":
        return _ALIKE if _is_typo(new.text, old.text) else None
    if new.kind in ("name", "identifier", "address", "url", "path", "score", "code"):
        edits = count_edits(new.text.casefold(), old.text.casefold(), _EDITS)
        return _ALIKE if edits <= _EDITS and edits * _SIGNS <= len(new.text) else None
    return _ALIKE


def is_similar(one: BareValue, old: Value) -> bool:
    """Return whether a new value may replace an old one, by their kinds and sizes."""
    return measure(one, old) is not None


def _compare_ends(digits: str, there: str) -> int | None:
    """Return the difference of the ends of long numbers."""
    is_part = 1 < len(digits) <= LONGEST_END and len(there) >= LONG
    return _compare(digits, there[-len(digits) :]) if is_part else None


def _measure_part(digits: str, new: Value, old: Value) -> int | None:
    """Return the difference of a bare number from the part of a value that it may replace."""
    patterns = {"date": DATE, "time": WHOLE_HOUR, "identifier": _TAIL_OF_CODE}
    if old.kind == "day":
        pattern: re.Pattern[str] | None = lazy(r"(\d{1,2})\D{0,2}")
    else:
        pattern = patterns.get(old.kind)
    found = pattern.fullmatch(old.text) if pattern else None
    if found is None:
        return None
    part = next(filter(None, found.groups()))
    if old.kind == "identifier":
        return _compare(digits, part) if len(digits) == len(part) else None
    most = 31 if old.kind in ("date", "day") else 24
    if not 0 < int(digits) <= most or int(digits) == int(part):
        return None
    if new.kind == "day" and old.kind == "time":
        return None
    return _compare(digits, part)


def _measure_numbers(new: Value, old: Value) -> int | None:
    one, other = _unit(new.text), _unit(old.text)
    if one and other and one != other:
        return None
    first, second = (_amount(value) for value in (new, old))
    if not first or not second or (not one and (first in _YEARS) != (second in _YEARS)):
        return None
    digits, there = (re.sub(r"\D", "", value.text) for value in (new, old))
    has_shape = digits and there and _shape(new.text) == _shape(old.text)
    if has_shape:
        return _compare(digits, there)
    return FAR if max(first, second) / min(first, second) <= _RATIO else None


def _compare(digits: str, there: str) -> int:
    if len(digits) != len(there):
        return FAR
    differ = sum(a != b for a, b in zip(digits, there, strict=True))
    return _ALIKE if differ == 1 or sorted(digits) == sorted(there) else _SHAPED


def _is_typo(one: str, other: str) -> bool:
    """Return whether two Chinese names differ in one character that is not the first."""
    differ = [a != b for a, b in zip(one, other, strict=False)]
    return len(one) == len(other) > 1 and not differ[0] and sum(differ) == 1


def _unit(text: str) -> str:
    """Return the unit written at a number; "" for a number that is a word."""
    return "" if text.isalpha() and text.isascii() else _NO_UNIT.sub("", text).casefold()


def _shape(text: str) -> str:
    return re.sub(r"\d", "0", "".join(re.findall(r"[\d.,]", text)).strip(".,"))


def _amount(value: Value) -> float:
    numbers = [float(form) for form in value.forms if re.fullmatch(r"\d{1,15}(?:\.\d+)?", form)]
    return max(numbers, default=0.0)
