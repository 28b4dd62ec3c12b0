"""Sentences with a value that was corrected later, and their correction. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from memory.corrections.ended_values import (
    EndedValue,
    find_changeable,
    is_of_one_thing,
    show_corrected,
)
from memory.corrections.finder import Correction, in_force
from memory.corrections.sentences import content_words
from memory.patterns import lazy
from memory.text.receipt import sentence_with
from memory.text.shapes import mentions_past
from memory.text.values import SCANNED, Value, find_values
from memory.text.wording import split_sentences

_MOST_UNTOLD = 12  # corrections
SAID, _AFTER = 1, 2
"""The positions of a correction and of a later summary, as `EndedValue` counts them."""

_DENIES = (
    r"\b(?:and )?not\b|\bnicht\b|\bstatt\b|\banstatt\b|\binstead of\b|\brather than\b|(?:而)?不是"
)


_COMMA = lazy(r"[;；，]|,(?!\d)")
_ARTICLE = (
    r"\b(?:the|a|an|der|die|das|den|dem|des|ein|eine|einen|einem|kein|keine|keinen|mein|meine)\s+"
)


class CurrentValues(Struct, frozen=True):
    """The values in force after corrections: the plain corrections, and the values that were
    ended."""

    plain: Sequence[Correction] = ()
    ended: Sequence[EndedValue] = ()


def choose_certain(found: Iterable[Correction], said: Sequence[str]) -> list[Correction]:
    """Return the corrections in force that are plain enough to change or reject a text for them:
    the message names both values, or says that something was wrong. A word behind an article is not
    a name, but one of two things."""
    return in_force(one for one in found if _is_plain(one, said[one.at]))


def _is_plain(one: Correction, message: str) -> bool:
    if one.kind in ("name", "word") and re.search(
        rf"{_ARTICLE}{re.escape(one.old)}", message, re.IGNORECASE
    ):
        return False
    return one.is_certain or _has_value(message, one.old)


def find_stale(text: str, plain: Sequence[Correction], said: Sequence[str]) -> list[Correction]:
    """Return the corrections whose old value a text gives as if it were in force. If the person did
    not name the old value and the text has the new one too, both may be in force, for two
    things."""
    sentences = split_sentences(text)
    return [
        one
        for one in plain
        if any(has_old_value(one, sentence) for sentence in sentences)
        and (_has_value(said[one.at], one.old) or not _has_value(text, one.new))
    ]


def has_old_value(one: Correction, sentence: str) -> bool:
    """Return whether a sentence has the ended value as if it were in force, and not the new one."""
    if not _is_concerned(one, sentence) or _has_value(sentence, one.new):
        return False
    places = find_changeable(sentence, one.old, one.topic, _values_in(sentence[:SCANNED]))
    return any(not mentions_past(_clause_at(sentence, *place)) for place in places)


def _clause_at(sentence: str, start: int, end: int) -> str:
    """Return the part of a sentence, between commas, around a position."""
    commas = [0, *(comma.end() for comma in _COMMA.finditer(sentence)), len(sentence)]
    return sentence[
        max(comma for comma in commas if comma <= start) : min(c for c in commas if c >= end)
    ]


def correct(sentence: str, corrections: Iterable[Correction]) -> str:
    """Return a sentence with the values in force; "" if it can't be corrected."""
    for one in corrections:
        if not _is_concerned(one, sentence) or not find_changeable(sentence, one.old, one.topic):
            continue
        if not (sentence := _replace(sentence, one)):
            return ""
    return sentence


def apply_corrections(text: str, ended: Sequence[EndedValue]) -> str:
    """Return a summary with the ended values replaced by those in force. A value whose end is
    uncertain is marked with the turn that says so."""
    for one in ended:
        if not one.is_marked:
            text = _denied(one.old.strip(" .,;")).sub("", text)
    return show_corrected(text, ended, "assistant", _AFTER)


def find_omitted(text: str, plain: Sequence[Correction], said: Sequence[str]) -> list[str]:
    """Return the sentences with current values, set by corrections, that a text does not have; only
    the newest `_MOST_UNTOLD`."""
    untold = (one for one in plain[-_MOST_UNTOLD:] if not _has_value(text, one.new))
    found = (sentence_with(one.new, [said[one.at]]) for one in untold)
    return list(dict.fromkeys(filter(None, found)))


def _is_concerned(one: Correction, sentence: str) -> bool:
    if one.others and not one.others.isdisjoint(content_words(sentence)):
        return False
    if not one.about or is_of_one_thing(one.old):
        return True
    return not one.about.isdisjoint(content_words(sentence))


def _has_value(sentence: str, value: str) -> bool:
    """Return whether a sentence has a value, in any form."""
    wanted = _values_in(value)
    if wanted and any(a.is_same(b) for a in wanted for b in _values_in(sentence[:SCANNED])):
        return True
    return bool(_as_word(value).search(sentence))


@lru_cache(maxsize=256)  # each sentence of a summary is checked for each correction
def _values_in(text: str) -> tuple[Value, ...]:
    return tuple(find_values(text))


def _as_word(value: str) -> re.Pattern[str]:
    start, end = (
        r"\b" if sign.isascii() and sign.isalnum() else "" for sign in (value[0], value[-1])
    )
    return re.compile(f"{start}{re.escape(value)}{end}", re.IGNORECASE)


def _replace(text: str, one: Correction) -> str:
    """Return a text with the old value replaced and its denial removed; "" for a text that has the
    old value in another form."""
    old = one.old.strip(" .,;")
    text = _denied(old).sub("", text)
    for start, end in sorted(find_changeable(text, old, one.topic), reverse=True):
        if text[start:end].strip(" .,;").casefold() != old.casefold():
            return ""
        text = text[:start] + one.new + text[end:]
    return text


def _denied(old: str) -> re.Pattern[str]:
    """Return the pattern of a value that a text denies: ", not 3 May"."""
    known = re.escape(old)
    return re.compile(rf"[,，(]?\s*(?:{_DENIES})\s*{known}号?\)?[，,]?", re.IGNORECASE)
