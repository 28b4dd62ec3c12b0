"""Pairs of values for which the message itself says which of the two ended. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from memory.corrections.frames import MAY_FRAME, is_framed
from memory.corrections.pairs import (
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    is_chinese,
)
from memory.corrections.targets import find_named, find_named_in_part
from memory.text.values import Value

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
