"""The old value that a message refers to, among those that its new value could end; pairs of values
for which the message itself says which of the two ended; and the things that values belong to, if a
number or a name tells them apart: the XR-20 is not the XR-10, and Dad's flight is not Mum's. Pure.

It is the value that the sentence names, else the one used with the same thing, else the one most
similar to the new value. A name replaces another only if it is similar to it, or if the same word
introduces both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any

from memory.corrections.frames import MAY_FRAME, is_framed
from memory.corrections.pairs import (
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    count_edits,
    is_chinese,
    is_short_for,
    read_tokens,
)
from memory.corrections.sentences import OF_ANYTHING, content_words
from memory.patterns import lazy
from memory.text.values import Value

CLAUSE = lazy(
    r"(?:[;，、；：–—]|(?<!\d)[,:]|[,:](?!\d))\s?|\s(?:and|und|aber|but|then|dann|while)\s",
    re.IGNORECASE,
)
"""Punctuation and words between clauses, each of which is about another thing."""
_OF_A_PERSON = lazy(r"['’]?s$")
_TELLING = frozenset(("identifier", "code"))


def part_of(text: str, value: Value) -> tuple[int, int]:
    """Return the start and end of a value's clause."""
    start = max((one.end() for one in CLAUSE.finditer(text, 0, value.start)), default=0)
    end = CLAUSE.search(text, value.end)
    return start, end.start() if end else len(text)


def is_of_another(pair: ValuePair) -> bool:
    """Return whether the new value belongs to another thing than the old one. Its sentence names
    one thing, by a number or by a value of its own, and the old value's clause names another. Or:
    the two are numbers of things, and each has another value."""
    new, old, said = pair.new, pair.old, pair.sentence.values
    if pair.back < 0:
        return False
    own = [one for one in said if one is not new and not one.is_same(old)]
    theirs = [one for one in _other_values(pair.source, old) if not one.is_same(new)]
    if new.kind in _TELLING:
        is_named = any(one.is_same(old) for one in said)
        return not is_named and _differ(own, theirs, {"number", "time", "date", "weekday"})
    if _differ(own, theirs, _TELLING):
        return True
    if new.kind in ("name", "word"):
        return False
    others = [one for one in pair.source.values if one is not old and one.kind == old.kind]
    elsewhere = [name for one in others for name in _other_values(pair.source, one)]
    mine, named = _names(own), _names(theirs)
    return mine.isdisjoint(named) and not mine.isdisjoint(_names(elsewhere) - named)


def _other_values(source: ParsedSentence, old: Value) -> list[Value]:
    """Return the other values in a value's clause."""
    start, end = part_of(source.text, old)
    return [one for one in source.values if one is not old and start <= one.start < end]


def _differ(own: Iterable[Value], theirs: Iterable[Value], kinds: Iterable[str]) -> bool:
    """Return whether both sides have values of one of these kinds, and none is the same."""
    for kind in kinds:
        here = [one for one in own if one.kind == kind]
        there = [one for one in theirs if one.kind == kind]
        if here and there:
            return not any(a.is_same(b) for a in here for b in there)
    return False


def _names(values: Iterable[Value]) -> frozenset[str]:
    """Return the words of the names among values, without the possessive: Dad, for "Dad's
    flight"."""
    words = (word for one in values if one.kind == "name" for word in one.text.split())
    return frozenset(_OF_A_PERSON.sub("", word.casefold()) for word in words)


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


_LOOKED_AT = 24  # pairs of a message that are checked for a frame
_FEW = 12  # words of a sentence that is about one thing
_READ = 2_000  # characters of a message whose words are checked

_Place = tuple[int, int]
"""A sentence, and the start of an old value in it."""


def list_framed(
    pairs: Sequence[ValuePair], said: ParsedMessage
) -> Iterator[tuple[_Place, bool, int, int]]:
    """Yield the pairs that the message names in a frame: the place of the old value, whether the
    new one is behind it, the distance, and the index of the pair. Of pairs with the same old value,
    the new value before it is selected, or else the nearest."""
    if not MAY_FRAME.search(said.text[:_READ]):
        return
    looks = 0
    for at, pair in enumerate(pairs):
        if not _may_be_framed(pair):
            continue
        named = find_named(pair, said) or find_named_in_part(pair)
        if named is None or (text := _joined(*named, pair, said)) is None:
            continue
        if (looks := looks + 1) > _LOOKED_AT:
            break
        (there, old), new = named, pair.new
        is_name = new.kind in ("name", "word")
        if is_name and pair.back >= 0 and any(one.is_same(new) for one in pair.source.values):
            continue  # "Balu is a Labrador": neither replaces the other
        at_new = 0 if there is pair.sentence else len(there.text)
        spans = (old.start, old.end), (at_new + new.start, at_new + new.end)
        if new.text.endswith(("'s", "’s")) or not is_framed(
            text, *spans, is_name=is_name, is_repair=pair.back < 0
        ):
            continue
        is_behind = spans[1] > spans[0]
        gap = spans[1][0] - old.end if is_behind else old.start - spans[1][1]
        yield (id(there), old.start), is_behind, gap, at


def _joined(there: ParsedSentence, _old: Value, pair: ValuePair, said: ParsedMessage) -> str | None:
    """Return the text that has both values: the sentence of the new one, or that and the one
    directly before it with the old one ("Forget C12. We have D04."). None if they are apart."""
    if there is pair.sentence:
        return there.text
    places = zip(said.sentences, said.sentences[1:], strict=False)
    is_next = any(one is there and other is pair.sentence for one, other in places)
    return there.text + pair.sentence.text if is_next and pair.back >= 0 else None


def _may_be_framed(pair: ValuePair) -> bool:
    """Return whether a frame may apply to a pair. A bare number, or a name, may belong to another
    thing. Words without a kind are values only if one is denied in Chinese ("I can't sleep, he
    needs it")."""
    if pair.new.kind == "word":
        is_name = len(pair.old.text) > 1 or pair.sentence.text[: pair.new.start].endswith("姓")
        return is_chinese(pair.new.text) and is_name and "不" in pair.sentence.text
    is_plain = pair.new.kind not in ("number", "name", "code")
    is_short = len(pair.sentence.tokens) <= _FEW
    return is_plain or is_short or not pair.source.words.isdisjoint(pair.sentence.words)


def is_only(pair: ValuePair, pairs: Sequence[ValuePair], others: AbstractSet[int]) -> bool:
    """Return whether the old value of a pair is the only one that its new value may end."""
    there = (one for at, one in enumerate(pairs) if at not in others and one.new is pair.new)
    return all(one.old.is_same(pair.old) for one in there)


def is_reverse(pair: ValuePair, pairs: Sequence[ValuePair], told: AbstractSet[int]) -> bool:
    """Return whether the message says that the new value of a pair ended, and the old one holds."""
    return any(pairs[at].old.is_same(pair.new) and pairs[at].new.is_same(pair.old) for at in told)
