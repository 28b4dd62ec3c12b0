"""The score of a pair: how surely a message puts one value in the place of another.

A linear model over the words of the sentence, those beside the values, and how the values and what
was said of them are alike. Its weights are learnt from dialogues that were written for this, by
`python -m benchmarks.corrections --learn`, and are in `correction_weights.bin`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from math import sqrt

from msgspec import Struct

from memory.context.correction_frames import MAY_FRAME, SLIP, is_framed, is_slip
from memory.context.correction_pairs import (
    BACK,
    HeardMessage,
    HeardSentence,
    Pair,
    count_at_end,
    count_edits,
    read_tokens,
)
from memory.context.correction_sentences import content_words
from memory.context.correction_subjects import is_of_another, part_of
from memory.context.values import Value
from memory.linear import read_weights

WEIGHTS = "correction_weights.bin"
LENGTH = 20
"""Features that are added to a pair's own before the sum is divided by their root."""
LEAST = -3.8
"""The score of a message's words below which it is not looked at further."""
FRAMED = 3.0
"""The least score of a pair of which the message itself says which one ended."""
OF_ANOTHER = -9.0
"""The score of a pair of values of two things."""
_LOOKED_AT = 24  # pairs of a message, for a frame
_SLIPS = 2  # signs by which a value differs that was written wrongly
_FEW = 12  # words of a sentence that is about one thing
_READ = 2_000  # characters of a message whose words are looked at
_COUNTS = (1, 2, 3, 5)
_RATIOS = (1.05, 1.5, 3, 10)


class Overlap(Struct, frozen=True, order=True):
    """The number of words of what an old value is about that are in the new one's sentence, in its
    message; and of those in its own part of the sentence, in the new one's sentence and part. Then
    of words in the new one's part that were not said of the old one, and the other way round; and
    of those in its sentence."""

    sentence: int
    message: int
    beside: int
    parts: int
    added: int
    left_out: int
    others: int


def is_there() -> bool:
    """Return whether the weights could be read."""
    return read_weights(__package__, WEIGHTS).is_whole


def score_pairs(
    pairs: Sequence[Pair], said: HeardMessage, before: Sequence[HeardMessage]
) -> list[float]:
    """Return the score of each pair: the higher, the surer a correction."""
    weights = read_weights(__package__, WEIGHTS)
    shared: dict[int, tuple[float, int]] = {}
    scores = []
    for pair, own in zip(pairs, list_features(pairs, said, before), strict=True):
        key = id(pair.sentence)
        if key not in shared:
            found = set(describe_sentence(pair.sentence, said))
            shared[key] = weights.total(found), len(found)
        total, count = shared[key]
        scores.append((total + weights.total(own)) / sqrt(count + len(own) + LENGTH))
    for at in (*_list_framed(pairs, said), *_list_slips(pairs, said)):
        scores[at] = max(scores[at], FRAMED)
    return [
        OF_ANOTHER if is_of_another(pair) else score
        for pair, score in zip(pairs, scores, strict=True)
    ]


def _list_framed(pairs: Sequence[Pair], said: HeardMessage) -> Iterable[int]:
    """Return the places of pairs that the message names in a frame; of those with the same old
    value that where the new one comes before it, or is nearest."""
    if not MAY_FRAME.search(said.text[:_READ]):
        return ()
    best: dict[tuple[int, int], tuple[bool, int, int]] = {}
    looks = 0
    for at, pair in enumerate(pairs):
        if pair.back < 0 or pair.new.kind == "word" or not _is_about_it(pair):
            continue  # "I can't sleep, he needs it": words of no kind are no values
        named = _named(pair, said) or _named_in_part(pair)
        if named is None or named[0] is not pair.sentence:
            continue
        if (looks := looks + 1) > _LOOKED_AT:
            break
        (_, old), new = named, pair.new
        is_name = new.kind == "name"
        if is_name and any(one.is_same(new) for one in pair.source.values):
            continue  # "Balu is a Labrador": the one is not said instead of the other
        if new.text.endswith(("'s", "’s")) or not is_framed(
            pair.sentence.text, (old.start, old.end), (new.start, new.end), is_name=is_name
        ):
            continue
        is_behind = new.start > old.start
        gap = new.start - old.end if is_behind else old.start - new.end
        key = id(pair.sentence), old.start
        best[key] = min(best.get(key, (True, len(said.text), 0)), (is_behind, gap, at))
    return [at for _, _, at in best.values()]


def _list_slips(pairs: Sequence[Pair], said: HeardMessage) -> Iterator[int]:
    """Yield the places of pairs of a value that the message says was written wrongly before: with
    the old value that is most like it, or the only one of its kind."""
    if not SLIP.search(said.text[:_READ]):
        return
    texts, before = {}, ""
    for sentence in said.sentences:  # "Typo. It's 17."
        texts[id(sentence)] = (f"{before} " if before else "", sentence.text)
        before = sentence.text if len(sentence.tokens) <= _FEW else ""
    of_new: dict[int, list[tuple[int, int, int]]] = {}
    for at, pair in enumerate(pairs):
        if pair.back >= 0 and pair.new.kind != "word":
            of_new.setdefault(id(pair.new), []).append((_count_slips(pair), pair.rank, at))
    for found in of_new.values():
        edits, _rank, at = min(found)
        new = pairs[at].new
        is_alike = edits <= _SLIPS and (edits < len(new.text) / 2 or len(found) == 1)
        is_only = len(found) == 1 and new.kind != "name"
        if is_alike or is_only:
            front, text = texts[id(pairs[at].sentence)]
            place = new.start + len(front), new.end + len(front)
            if is_slip(front + text, place):
                yield at


def _count_slips(pair: Pair) -> int:
    """Return how many signs differ: digits, where both values have some."""
    digits = [re.sub(r"\D", "", value.text)[:30] for value in (pair.new, pair.old)]
    one, other = digits if all(digits) else (pair.new.text.casefold(), pair.old.text.casefold())
    return count_edits(one, other, _SLIPS)


def _is_about_it(pair: Pair) -> bool:
    """Return whether a pair is of one thing: a bare number, or a name, may be of another one."""
    is_plain = pair.new.kind not in ("number", "name", "code")
    is_short = len(pair.sentence.tokens) <= _FEW
    return is_plain or is_short or not pair.source.words.isdisjoint(pair.sentence.words)


@lru_cache(maxsize=8)  # the transcript and `MEMORY.md` ask about the same message
def may_correct(text: str) -> bool:
    """Return whether a message may have words by which people correct; half of all others have
    none, which is found out in no time."""
    found = set(describe_message(text))
    total = read_weights(__package__, WEIGHTS).total(found)
    return total > LEAST * sqrt(len(found) + LENGTH)


def describe_message(text: str) -> Iterator[str]:
    """Yield the features of a message by which it is looked at further."""
    tokens = read_tokens(text[:_READ])
    yield "*"
    yield f"* length {min(len(tokens) // 5, 6)}"
    yield from (f"* ^ {token}" for token in tokens[:1])
    yield from (f"* {token}" for token in tokens)


def list_features(
    pairs: Sequence[Pair], said: HeardMessage, before: Sequence[HeardMessage]
) -> Iterator[set[str]]:
    """Yield the features of each pair, without those of its sentence."""
    whole = frozenset[str]().union(*(one.words for one in said.sentences))
    overlaps = [_overlap(pair, whole) for pair in pairs]
    of_new: dict[int, list[Overlap]] = {}
    for pair, overlap in zip(pairs, overlaps, strict=True):
        of_new.setdefault(id(pair.new), []).append(overlap)
    news = {id(pair.new): pair.new for pair in pairs}
    known = {key: [*_last_said(new, before)] for key, new in news.items()}
    for pair, overlap in zip(pairs, overlaps, strict=True):
        yield {
            *_place(pair, overlap, of_new[id(pair.new)]),
            *_beside(pair, overlap),
            *_denial(pair, said),
            *_likeness(pair.old, pair.new),
            *known[id(pair.new)],
        }


def describe_sentence(sentence: HeardSentence, said: HeardMessage) -> Iterator[str]:
    """Yield the features of a sentence that may correct, and of the message that it is in."""
    row = ["^", *sentence.tokens, "$", ""]
    for one, two, three in zip(row, row[1:], row[2:], strict=False):
        yield f"w {one}"
        yield f"{one} {two}"
        if three:
            yield f"{one} {two} {three}"
    first = [token for one in said.sentences[:3] for token in one.tokens][:3]
    yield from (f"# {token}" for token in first)
    for other in said.sentences:
        if other is not sentence:
            yield from (f"m {token}" for token in other.tokens)
    yield f"length {min(len(sentence.tokens) // 3, 8)}"
    yield f"sentences {min(len(said.sentences), 4)}"
    if sentence.text.rstrip().endswith(("?", "？")):
        yield "?"


def _overlap(pair: Pair, whole: frozenset[str]) -> Overlap:
    source, old = pair.source.text, pair.old
    about = pair.source.words - content_words(old.text)
    own = pair.sentence.words - content_words(pair.new.text)
    near = _words_beside(source, old)
    mine = _words_beside(pair.sentence.text, pair.new)
    return Overlap(
        len(about & own),
        len(about & whole),
        len(near & own),
        len(near & mine),
        len(mine - about),
        len(near - whole),
        len(own - about),
    )


def _words_beside(text: str, value: Value) -> frozenset[str]:
    """Return the words in a value's part of a sentence."""
    start, end = part_of(text, value)
    return content_words(text[start : value.start]) | content_words(text[value.end : end])


def _place(pair: Pair, overlap: Overlap, others: Sequence[Overlap]) -> Iterator[str]:
    """Yield where the old value was said, and whether what was said of it speaks of the same."""
    kind, best, rank = pair.new.kind, max(others), min(pair.rank, 3)
    several = bisect_right(_COUNTS, len(others))
    is_best, is_about = overlap == best, best.sentence > 0
    is_only = others.count(best) == 1
    yield f"kinds {pair.old.kind} {kind}"
    yield f"back {bisect_right((-1, 0, 1, 2, 4), pair.back)}"
    if pair.sentence.tokens == pair.source.tokens:
        yield f"same words {kind} {_is_next(pair)}"  # of a series: question 1, question 2
    yield f"rank {rank}"
    yield f"rank {rank} of {several}"
    yield f"about {min(overlap.sentence, 3)}"
    yield f"about {min(overlap.sentence, 2)} {kind}"
    yield f"about message {min(overlap.message, 3)}"
    yield f"about beside {min(overlap.beside, 2)}"
    yield f"best {is_best} {is_only} {is_about}"
    yield f"best {is_best} {min(rank, 2)} {is_about}"
    nearest = max(one.beside for one in others)
    is_nearest = overlap.beside == nearest
    is_alone = [one.beside for one in others].count(nearest) == 1
    yield f"nearest {is_nearest} {min(nearest, 2)} {min(rank, 2)}"
    yield f"nearest {is_nearest} {is_alone} {min(nearest, 2)}"
    yield f"nearest {is_nearest} {min(nearest, 2)} {kind}"
    added, left_out = min(overlap.added, 3), min(overlap.left_out, 3)
    strange = bisect_right((1, 2, 3, 5, 8), overlap.others)
    yield f"added {added} {kind}"
    yield f"others {strange} {kind}"
    yield f"others {strange} about {min(overlap.sentence, 3)}"
    yield f"added {added} left out {left_out}"
    yield f"added {added} left out {left_out} parts {min(overlap.parts, 2)}"
    most = max(one.parts for one in others)
    yield f"parts {overlap.parts == most} {min(most, 2)} {kind}"
    yield f"apart {overlap.beside > 0} {overlap.sentence > overlap.beside} {kind}"
    yield f"old begins {kind} {not pair.source.text[: pair.old.start].strip()}"
    yield f"new begins {kind} {not pair.sentence.text[: pair.new.start].strip()}"


def _is_next(pair: Pair) -> bool:
    """Return whether the new value is the number that follows the old one."""
    following = {str(int(form) + 1) for form in pair.old.forms if form.isdecimal()}
    return not pair.new.forms.isdisjoint(following)


def _beside(pair: Pair, overlap: Overlap) -> Iterator[str]:
    """Yield the words beside the new value, and whether the same are beside the old one."""
    before, behind = _neighbours(pair.sentence.text, pair.new)
    there, then = _neighbours(pair.source.text, pair.old)
    kind = pair.new.kind
    yield f"{' '.join(before)} |"
    yield f"{before[-1]} |"
    yield f"| {behind}"
    yield f"{before[-1]} {kind} {behind}"
    same = (before[-1] == there[-1]) + (before == there and len(before) > 1)
    yield f"same before {same}"
    yield f"same before {same} {kind} {min(overlap.sentence, 2)}"
    if behind[0].isalpha() and then[0].isalpha():
        yield f"same behind {behind == then}"
        yield f"same behind {behind == then} {kind}"


def _neighbours(text: str, value: Value) -> tuple[list[str], str]:
    """Return the two words before a value, and the one behind it."""
    before = read_tokens(text[max(0, value.start - 40) : value.start])[-2:]
    behind = read_tokens(text[value.end : value.end + 20])[:1]
    return before or ["^"], behind[0] if behind else "$"


def _denial(pair: Pair, said: HeardMessage) -> Iterator[str]:
    """Yield where the message names the old value too, and the words between the two."""
    if pair.back < 0:
        yield "only here"
    named = _named(pair, said)
    if named is None:
        yield "not named"
        return
    sentence, old = named
    before, behind = _neighbours(sentence.text, old)
    yield "named"
    yield f"{' '.join(before)} <old>"
    yield f"{before[-1]} <old>"
    yield f"<old> {behind}"
    if sentence is not pair.sentence:
        yield "named elsewhere"
        return
    order = "new old" if pair.new.start < old.start else "old new"
    first, second = sorted((pair.new, old), key=lambda value: value.start)
    between = read_tokens(sentence.text[first.end : second.start])
    yield order
    yield f"{order} {' '.join(between) if len(between) < 5 else '…'}"
    yield from (f"{order} has {word}" for word in between)


def _named(pair: Pair, said: HeardMessage) -> tuple[HeardSentence, Value] | None:
    is_word = pair.new.kind == "word"
    for sentence in said.sentences:
        there = [*sentence.runs, *sentence.latin] if is_word else sentence.values
        for value in there:
            if value is not pair.new and value.is_same(pair.old):
                return sentence, value
    return None


def _named_in_part(pair: Pair) -> tuple[HeardSentence, Value] | None:
    """Return where the sentence names a person by a part of the name that was said."""
    words = set(pair.old.text.split()) if pair.old.kind == "name" else set()
    for value in pair.sentence.values if words else ():
        if value is not pair.new and value.kind == "name" and words.issuperset(value.text.split()):
            return pair.sentence, value
    return None


def _last_said(value: Value, before: Sequence[HeardMessage]) -> Iterator[str]:
    """Yield how far back a value was said already, if it was."""
    for back, message in enumerate(before[:BACK]):
        if any(one.is_same(value) for there in message.sentences for one in there.values):
            yield f"known {bisect_right((0, 1, 3), back)}"
            return


def _likeness(old: Value, new: Value) -> Iterator[str]:
    """Yield how the values are alike."""
    digits = ["".join(re.findall(r"\d", value.text))[:9] for value in (new, old)]
    if all(digits):
        yield from _likeness_of_numbers(*digits)
    yield f"shape {new.kind} {_shape(new.text) == _shape(old.text)}"
    one, other = new.text.casefold(), old.text.casefold()
    if new.kind == "word":
        yield f"end {min(count_at_end(one, other), 3)}"
        yield f"length {min(len(one), 5)} {len(one) == len(other)}"
        yield f"edits {min(count_edits(one, other), 3)}"
        yield f"wide {one[0] > 'ƿ'}"
        yield f"first {one[0] == other[0]}"
    elif new.kind == "name":
        same = next((n for n in (3, 2, 1) if one[:n] == other[:n]), 0)
        yield f"prefix {same}"
        yield f"words {one.count(' ') == other.count(' ')}"
        if one.startswith(other) or other.startswith(one):
            yield "contained"


def _shape(text: str) -> str:
    """Return a text with a letter in place of all letters, and a digit in place of all digits."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "0", text))


def _likeness_of_numbers(new: str, old: str) -> Iterator[str]:
    size = min(len(new), 4)
    yield f"digits {len(new) == len(old)}"
    if sorted(new) == sorted(old):
        yield f"turned {size}"
    elif len(new) == len(old):
        if sum(a != b for a, b in zip(new, old, strict=True)) == 1:
            yield f"one other {size}"
    elif count_edits(new, old, 1) == 1:
        yield f"one more {size}"
    first, second = float(new), float(old)
    if first and second:
        yield f"ratio {bisect_right(_RATIOS, max(first, second) / min(first, second))}"
    if abs(first - second) == 1:
        yield f"next {first > second}"
