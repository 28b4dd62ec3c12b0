"""The old value that a message refers to, among those that its new value could end. Pure.

It is the value that the sentence names, else the one used with the same thing, else the one most
similar to the new value. A name replaces another only if it is similar to it, or if the same word
introduces both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from memory.corrections.pairs import (
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    count_edits,
    is_short_for,
    read_tokens,
)
from memory.corrections.sentences import OF_ANYTHING, content_words
from memory.corrections.subjects import part_of
from memory.patterns import lazy
from memory.text.values import Value

_ARTICLES = frozenset(
    ("the", "a", "an", "der", "die", "das", "den", "dem", "ein", "eine", "einen", "jetzt", "now")
)
_ALIKE = 4  # letters at the beginning that two similar names share
_SIGNS = frozenset(",;.:!?-–—")
_IS = ("s", "are", "was", "were", "it", "ist", "war", "heißt", "hieß", "called", "named", "bin")
_LEADS = (
    dict.fromkeys(_IS, "is")
    | dict.fromkeys(("zum", "zur", "nach"), "to")
    | dict.fromkeys(("im", "am", "at"), "in")
)
"""Words that introduce a value, each with its representative."""


def list_others(pairs: Sequence[ValuePair]) -> Iterator[int]:
    """Yield the positions of pairs whose old value is not the one that the message refers to."""
    of_new: dict[int, list[int]] = {}
    for at, pair in enumerate(pairs):
        if pair.back >= 0:
            of_new.setdefault(id(pair.new), []).append(at)
    for places in of_new.values():
        meant = [pairs[at] for at in places]
        for way in _WAYS if len(places) > 1 else ():
            told = [way(pair) for pair in meant]
            shared = frozenset[Any].intersection(*told)
            if found := [pair for pair, words in zip(meant, told, strict=True) if words - shared]:
                meant = found
                break
        yield from (at for at in places if not any(pairs[at] is pair for pair in meant))


def _names_old(pair: ValuePair) -> frozenset[Any]:
    values = (one for one in pair.sentence.values if one is not pair.new)
    return frozenset([True for one in values if one.is_same(pair.old)][:1])


def _words_around_both(pair: ValuePair) -> frozenset[Any]:
    mine = adjacent_words(pair.sentence.text, pair.new)
    return mine & adjacent_words(pair.source.text, pair.old) - OF_ANYTHING


def _words_around_old(pair: ValuePair) -> frozenset[Any]:
    return adjacent_words(pair.source.text, pair.old) & _own_words(pair)


def _of_sentences(pair: ValuePair) -> frozenset[Any]:
    return pair.source.words & _own_words(pair)


def _own_words(pair: ValuePair) -> frozenset[Any]:
    return pair.sentence.words - content_words(pair.new.text) - OF_ANYTHING


def _alike(pair: ValuePair) -> frozenset[Any]:
    """Return a non-empty set if the values differ by few letters, or have the same month or
    hour."""
    old, new = pair.old.text.casefold(), pair.new.text.casefold()
    if pair.new.kind in ("date", "time"):
        return frozenset(_LETTERS.findall(old)) & frozenset(_LETTERS.findall(new))
    is_slip = len(new) >= _LONG and count_edits(old, new, 2) <= 2
    return frozenset([True] if is_slip else [])


_WAYS = (_names_old, _words_around_both, _words_around_old, _of_sentences, _alike)
"""The rules that select the old value, the most reliable first: a pair with a word that not all
others have is selected."""
_LETTERS = lazy(r"[^\W\d_]{3,}|\d{1,2}[点月]")
_LONG = 8  # letters from which on two may be wrong


def is_unlike(pair: ValuePair, said: ParsedMessage) -> bool:
    """Return whether a name can't replace the old value: the old value is not named, the two are
    not similar, and another word introduces the new one ("Dr Marsh" is not for "on Monday")."""
    old, new = pair.old, pair.new
    if new.kind != "name" or pair.back < 0 or find_named(pair, said) or find_named_in_part(pair):
        return False
    words = {word.casefold() for word in new.text.split()}
    if not words.isdisjoint(word.casefold() for word in old.text.split()):
        return False
    one, other = new.text.casefold(), old.text.casefold()
    if one[:_ALIKE] == other[:_ALIKE] or count_edits(one, other, 3) * 3 <= len(one):
        return False
    return _copula(pair.sentence.text, new) != _copula(pair.source.text, old)


def _copula(text: str, value: Value) -> str:
    """Return the word that introduces a value: one representative for all forms of "to be", "" for
    none."""
    before = [word for word in read_tokens(text[: value.start]) if word not in _ARTICLES]
    word = before[-1] if before else ""
    return "" if word in _SIGNS else _LEADS.get(word, word)


def adjacent_words(text: str, value: Value) -> frozenset[str]:
    """Return the words in a value's clause."""
    start, end = part_of(text, value)
    return _words_around(text, start, value.start, value.end, end)


@lru_cache(maxsize=1_000)
def _words_around(text: str, *places: int) -> frozenset[str]:
    start, first, last, end = places
    return content_words(text[start:first]) | content_words(text[last:end])


def find_named(pair: ValuePair, said: ParsedMessage) -> tuple[ParsedSentence, Value] | None:
    is_word = pair.new.kind == "word"
    for sentence in said.sentences:
        there = [*sentence.runs, *sentence.latin] if is_word else sentence.values
        for value in there:
            if value is not pair.new and value.is_same(pair.old):
                return sentence, value
    return None


def find_named_in_part(pair: ValuePair) -> tuple[ParsedSentence, Value] | None:
    """Return the place where the sentence names a person by a part of the earlier name, or a date
    by its day."""
    words = set(pair.old.text.split()) if pair.old.kind == "name" else set()
    for value in pair.sentence.values:
        is_name = words and value.kind == "name" and words.issuperset(value.text.split())
        if value is not pair.new and (is_name or is_short_for(value, pair.old)):
            return pair.sentence, value
    return None
