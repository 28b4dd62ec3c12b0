"""The score of a pair: the certainty that a message replaces one value by the other.

A linear model over the words of the sentence, the words beside the values, and the similarity of
the values and of their contexts. Its weights are learnt from dialogues written for this purpose, by
`python -m benchmarks.corrections --learn`, and are in `weights.bin`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from math import sqrt

from msgspec import Struct

from memory.corrections.doubts import is_doubted
from memory.corrections.pairs import (
    BACK,
    ParsedMessage,
    ParsedSentence,
    ValuePair,
    count_at_end,
    count_edits,
    read_tokens,
)
from memory.corrections.replaced import is_changed_to
from memory.corrections.sentences import content_words
from memory.corrections.targets import (
    adjacent_words,
    find_named,
    is_of_another,
    is_only,
    is_reverse,
    is_unlike,
    list_framed,
    list_others,
)
from memory.linear import read_weights
from memory.text.values import Value

WEIGHTS = "weights.bin"
LENGTH = 20
"""The number of features added to a pair's own before the sum is divided by the square root of
their number."""
LEAST = -3.3
"""The score of a message's words below which the message is skipped."""
FRAMED = 3.0
"""The least score of a pair if the message itself says which one ended."""
OF_ANOTHER = -9.0
"""The score of a pair of values of two things."""
_LIKELY = 0.0
"""The score above which the other old values of the same new one are checked too."""
_READ = 2_000  # characters of a message whose words are checked
_COUNTS = (1, 2, 3, 5)
_RATIOS = (1.05, 1.5, 3, 10)


class Overlap(Struct, frozen=True, order=True):
    """The numbers of words that two contexts share. First, words of the old value's topic that are
    in the new one's sentence, and in its message. Then, words of the old value's clause that are in
    the new one's sentence, and in its clause. Then, words of the new one's clause that were not
    used with the old one, and the reverse; and words of its sentence that were not."""

    sentence: int
    message: int
    beside: int
    parts: int
    added: int
    left_out: int
    others: int


def is_there() -> bool:
    """Return whether the weights could be loaded."""
    return read_weights(__package__, WEIGHTS).is_whole


def score_pairs(
    pairs: Sequence[ValuePair], said: ParsedMessage, before: Sequence[ParsedMessage]
) -> list[float]:
    """Return the score of each pair: the higher, the more certain a correction."""
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
    framed = [*list_framed(pairs, said)]
    told = {at for *_, at in framed}
    changed = {at for at, pair in enumerate(pairs) if is_changed_to(pair)}
    told |= changed
    likely = {id(one.new) for at, one in enumerate(pairs) if scores[at] > _LIKELY or at in told}
    near = [at for at, pair in enumerate(pairs) if id(pair.new) in likely]
    others = {at for at in near if is_of_another(pairs[at]) or is_doubted(pairs[at], said, before)}
    others.update(near[at] for at in list_others([pairs[at] for at in near]))
    others.update(at for at in near if at not in told and is_reverse(pairs[at], pairs, told))
    best = {key: at for key, *_, at in sorted(framed, reverse=True) if at not in others}
    ended = {id(pairs[at].new): pairs[at].old for at in best.values()}
    changed = {at for at in changed - others if is_only(pairs[at], pairs, others)}
    for at in near:
        pair, is_told = pairs[at], at in best.values() or at in changed
        old = ended.get(id(pair.new), pair.old)
        if not pair.old.is_same(old) or (not is_told and is_unlike(pair, said)):
            others.add(at)
        elif is_told:
            scores[at] = max(scores[at], FRAMED)
    return [OF_ANOTHER if at in others else score for at, score in enumerate(scores)]


def has_words(text: str) -> bool:
    """Return whether a message may have words of corrections. Half of all other messages have none;
    this check is fast."""
    found = set(describe_message(text))
    total = read_weights(__package__, WEIGHTS).total(found)
    return total > LEAST * sqrt(len(found) + LENGTH)


def describe_message(text: str) -> Iterator[str]:
    """Yield the features of a message that decide whether it is checked further."""
    tokens = read_tokens(text[:_READ])
    yield "*"
    yield f"* length {min(len(tokens) // 5, 6)}"
    yield from (f"* ^ {token}" for token in tokens[:1])
    yield from (f"* {token}" for token in tokens)


def list_features(
    pairs: Sequence[ValuePair], said: ParsedMessage, before: Sequence[ParsedMessage]
) -> Iterator[set[str]]:
    """Yield the features of each pair, without those of its sentence."""
    whole = frozenset[str]().union(*(one.words for one in said.sentences))
    overlaps = [_overlap(pair, whole) for pair in pairs]
    of_new: dict[int, list[Overlap]] = {}
    for pair, overlap in zip(pairs, overlaps, strict=True):
        of_new.setdefault(id(pair.new), []).append(overlap)
    news = {id(pair.new): pair.new for pair in pairs}
    cues = dict(_list_cues(said))
    known = {key: [*_last_said(new, before)] for key, new in news.items()}
    for pair, overlap in zip(pairs, overlaps, strict=True):
        yield {
            *_place(pair, overlap, of_new[id(pair.new)]),
            *_adjacent_words(pair, overlap),
            *_denial(pair, said),
            *_cued(pair, cues[id(pair.sentence)], overlap, of_new[id(pair.new)]),
            *_likeness(pair.old, pair.new),
            *known[id(pair.new)],
        }


def describe_sentence(sentence: ParsedSentence, said: ParsedMessage) -> Iterator[str]:
    """Yield the features of a sentence that may correct, and of its message."""
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


def _overlap(pair: ValuePair, whole: frozenset[str]) -> Overlap:
    source, old = pair.source.text, pair.old
    about = pair.source.words - content_words(old.text)
    own = pair.sentence.words - content_words(pair.new.text)
    near = adjacent_words(source, old)
    mine = adjacent_words(pair.sentence.text, pair.new)
    return Overlap(
        len(about & own),
        len(about & whole),
        len(near & own),
        len(near & mine),
        len(mine - about),
        len(near - whole),
        len(own - about),
    )


def _place(pair: ValuePair, overlap: Overlap, others: Sequence[Overlap]) -> Iterator[str]:
    """Yield the position of the old value, and whether its context is about the same thing."""
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


def _list_cues(said: ParsedMessage) -> Iterator[tuple[int, Sequence[str]]]:
    """Yield the kinds of cues in each sentence, and those that only other sentences of its message
    have."""
    for sentence in said.sentences:
        beside = {cue for one in said.sentences for cue in one.cues}.difference(sentence.cues)
        yield id(sentence), [*sentence.cues, *(f"m {cue}" for cue in beside)] or ["none"]


def _cued(
    pair: ValuePair, cues: Sequence[str], overlap: Overlap, others: Sequence[Overlap]
) -> Iterator[str]:
    """Yield the kinds of cues, each with whether the old value belongs to the same thing, and is
    the only one."""
    kind, is_about = pair.new.kind, overlap.beside > 0
    is_only = not any(one.beside >= overlap.beside for one in others if one is not overlap)
    for cue in cues:
        yield f"cue {cue} {kind}"
        yield f"cue {cue} {is_about} {is_only}"
        yield f"cue {cue} {is_about} {is_only} {kind}"
        yield f"cue {cue} others {min(overlap.others, 4)} {is_about}"


def _is_next(pair: ValuePair) -> bool:
    """Return whether the new value is the next number after the old one."""
    following = {str(int(form) + 1) for form in pair.old.forms if form.isdecimal()}
    return not pair.new.forms.isdisjoint(following)


def _adjacent_words(pair: ValuePair, overlap: Overlap) -> Iterator[str]:
    """Yield the words beside the new value, and whether they are also beside the old one."""
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


def _denial(pair: ValuePair, said: ParsedMessage) -> Iterator[str]:
    """Yield the place where the message names the old value too, and the words between the two."""
    if pair.back < 0:
        yield "only here"
    named = find_named(pair, said)
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


def _last_said(value: Value, before: Sequence[ParsedMessage]) -> Iterator[str]:
    """Yield how many messages ago a value was last said, if it was."""
    for back, message in enumerate(before[:BACK]):
        if any(one.is_same(value) for there in message.sentences for one in there.values):
            yield f"known {bisect_right((0, 1, 3), back)}"
            return


def _likeness(old: Value, new: Value) -> Iterator[str]:
    """Yield the similarity of the values."""
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
    """Return a text with each run of letters replaced by one letter, and each run of digits by one
    digit."""
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
