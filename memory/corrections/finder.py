"""Corrections that a person makes in a conversation, found without a model.

"No, it's 4 May, not 3 May" ends a value and names the new one. "I meant Tuesday" names only the new
one, and ends the earlier value of the same kind. `pairs.py` finds the pairs of values,
`score.py` scores them. If several things may have the old value (a small number), only
sentences about the same thing are concerned.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from memory.corrections.aligned import find_aligned
from memory.corrections.bare import LONG, LONGEST_END, find_bare, may_be_bare
from memory.corrections.classes import PLAIN, find_plain
from memory.corrections.denied import find_denied, may_deny
from memory.corrections.doubts import is_rejected
from memory.corrections.elliptic import find_digits, find_elliptic, may_be_elliptic
from memory.corrections.pairs import (
    BACK,
    DENYING,
    ParsedMessage,
    ValuePair,
    find_beside,
    find_pairs,
    read_tokens,
)
from memory.corrections.parallel import is_parallel
from memory.corrections.replaced import find_replaced, may_be_replaced
from memory.corrections.score import FRAMED, has_words, score_pairs
from memory.corrections.sentences import OF_ANYTHING, content_words, split_sentences, without_cues
from memory.text.shapes import mentions_past
from memory.text.values import SCANNED, Value, find_values

log = logging.getLogger(__name__)

MOST = 200
"""The maximum number of corrections kept of a conversation: the newest."""
_HEARD = 600  # messages, and replies, that may have the corrected value
_NOTED = 4_000  # characters of each
_MOST = 5  # corrections of a message
_ECHO = 2  # other words of a reply that repeats a value
_LEAST = 0.5  # score of a correction,
_OF_KINDS = {"word": 1.0, "name": 1.5}  # of a correction of a word or a name,
_OF_NUMBERS = 1.0  # of a correction of a number without any cue,
_FURTHER = 1.0  # of a further one in the same message,
_CERTAIN = 2.0  # and of one for which a text may be changed: of 100 such, 93 are right


class Correction(Struct, frozen=True):
    """A value that a person ended, and its replacement, both as written, and the index of the
    message that says so. `topic` are words of its topic. If other sentences use the old value for
    something else (`is_shared`), only a sentence with one of these words is concerned."""

    old: str
    new: str
    at: int
    kind: str = ""
    topic: frozenset[str] = frozenset()
    is_shared: bool = False
    said: frozenset[str] = frozenset()
    """The topic words of the correcting sentence alone."""
    is_certain: bool = False
    others: frozenset[str] = frozenset()
    """Words of later sentences in which the person uses the old value for something else: a
    sentence with one of them is not concerned."""

    @property
    def about(self) -> frozenset[str]:
        """The words of which a sentence must have one to be concerned; empty: every sentence is."""
        return self.topic if self.is_shared else frozenset()


def find_corrections(said: Sequence[str], answered: Sequence[str] = ()) -> list[Correction]:
    """Return the corrections in a person's messages, oldest first. `answered` has the reply to each
    message, which may have the corrected value."""
    finder = CorrectionFinder()
    found: list[Correction] = []
    for at, message in enumerate(said):
        found = [use_again(one, message) for one in found]
        found += [replace(one, at=at) for one in finder.find_in(message)]
        for reply in answered[at : at + 1]:
            finder.note(reply)
    return found[-MOST:]


@lru_cache(maxsize=8)  # the transcript and `MEMORY.md` check the same message
def may_correct(text: str) -> bool:
    """Return whether a message may correct a value. Most others can't; this check is fast."""
    return (
        has_words(text)
        or may_be_bare(text)
        or may_deny(text)
        or may_be_replaced(text)
        or may_be_elliptic(text)
    )


class CorrectionFinder:
    """A finder of corrections in messages as they arrive."""

    def __init__(self) -> None:
        self._heard = deque[ParsedMessage](maxlen=BACK)
        self._texts = deque[tuple[str, bool]](maxlen=_HEARD)
        """Each with whether it is a reply."""

    def find_in(self, text: str | ParsedMessage) -> list[Correction]:
        """Return the corrections in the next message of a person. If there are any, a parsed
        message is changed. An error must not fail the turn: it is logged, and no corrections are
        returned."""
        said = ParsedMessage(text[:SCANNED]) if isinstance(text, str) else text
        try:
            return self._find(said) if may_correct(said.text) else []
        except Exception:
            log.exception("the corrections in a message could not be found")
            return []
        finally:
            self._keep(said)

    def note(self, reply: str) -> None:
        """Record a reply, whose values may be corrected later."""
        self._keep(ParsedMessage(reply[:_NOTED], is_reply=True))

    def _keep(self, message: ParsedMessage) -> None:
        self._heard.appendleft(message)
        self._texts.appendleft((message.text, message.is_reply))

    def _find(self, said: ParsedMessage) -> list[Correction]:
        found = []
        for pair, score in _choose(said, [*self._heard]):
            old, new = _complete(_as_named(pair), pair.new)
            pair.sentence.replace_by_whole(pair.new, new)
            topic, is_shared = _topic(pair.sentence.text, old, new, self._texts)
            is_shared = is_shared or old.kind == PLAIN
            of_values = content_words(f"{old.text} {new.text}")
            words = content_words(without_cues(pair.sentence.text)) - of_values - OF_ANYTHING
            is_certain = score > _CERTAIN
            found.append(
                Correction(old.text, new.text, 0, old.kind, topic, is_shared, words, is_certain)
            )
        return found


def _choose(
    said: ParsedMessage, before: Sequence[ParsedMessage]
) -> Iterator[tuple[ValuePair, float]]:
    """Yield the pairs that are corrections, each value once, in the order of the message."""
    if digits := [*find_digits(said, before)]:
        yield from ((pair, FRAMED) for pair in digits)
        return
    ruled = [pair for find in _FINDERS for pair in find(said, before)]
    pairs = find_pairs(said, before) if has_words(said.text) else []
    plain = [pair for pair in ruled if pair.new.kind == PLAIN]
    pairs = [pair for pair in pairs if not any(_has_same_new(pair, one) for one in plain)]
    scores = [*score_pairs(pairs, said, before), *[FRAMED] * len(ruled)]
    pairs += ruled
    scored = sorted(zip(scores, pairs, strict=True), key=_score)
    chosen: list[tuple[ValuePair, float]] = []
    taken = set[str]()
    for score, pair in scored[::-1]:
        if score <= (_FURTHER if chosen else _LEAST) or len(chosen) == _MOST:
            break
        if score <= _least_of(pair, said) or _is_refused(pair, said):
            continue
        forms = pair.old.forms | pair.new.forms
        if pair.new.kind in ("word", PLAIN):
            forms |= {*pair.old.text.casefold().split(), *pair.new.text.casefold().split()}
        if taken.isdisjoint(forms):
            taken |= forms
            chosen.append((pair, score))
    chosen.sort(key=lambda one: pairs.index(one[0]))
    for found, score in [*chosen]:
        for pair in find_beside(found, before):
            if taken.isdisjoint(forms := pair.old.forms | pair.new.forms):
                taken |= forms
                chosen.append((pair, score))
    yield from chosen[:_MOST]


def _has_same_new(pair: ValuePair, other: ValuePair) -> bool:
    new, there = pair.new, other.new
    return pair.sentence is other.sentence and new.start < there.end and there.start < new.end


def _is_refused(pair: ValuePair, said: ParsedMessage) -> bool:
    """Return whether a pair is no correction, whatever rule has found it. A message that says that
    something was wrong, or names the old value, is about the same thing."""
    if is_rejected(pair, said):
        return True
    is_about_old = any(
        {"slip", "hint"}.intersection(one.cues) or any(pair.old.is_same(v) for v in one.values)
        for one in said.sentences
    )
    return not is_about_old and is_parallel(pair)


def _least_of(pair: ValuePair, said: ParsedMessage) -> float:
    """Return the score above which a pair of its kind is a correction."""
    if pair.new.kind == "number" and not any(one.cues for one in said.sentences):
        return _OF_NUMBERS
    return _OF_KINDS.get(pair.new.kind, _LEAST)


_FINDERS = (find_elliptic, find_replaced, find_aligned, find_bare, find_plain, find_denied)
"""Rules that find corrections of their own; for the same values, the later rule is more
reliable."""


def _score(scored: tuple[float, ValuePair]) -> float:
    return scored[0]


def has_value(text: str, value: Value) -> bool:
    """Return whether a text has a value, in any form."""
    return any(other.is_same(value) for other in find_values(text))


def _as_named(pair: ValuePair) -> Value:
    """Return the old value as the sentence names it: Peter, after "Invite Peter"."""
    named = (
        value
        for value in pair.sentence.values
        if value is not pair.new and value.kind == pair.old.kind == "name"
    )
    return next((one for one in named if one.text in pair.old.text), pair.old)


def _complete(old: Value, new: Value) -> tuple[Value, Value]:
    """Complete a day by its month, and a bare number by the unit of the other value."""
    if {old.kind, new.kind} == {"number", "day"} or (
        old.text[-1:] == "号" and old.kind == "number"
    ):
        return _as_number(old), _as_number(new)
    if old.kind == "number" and new.kind == "time":
        return _with_number(new, old), new
    if old.kind == "day" and new.kind == "date":
        return _with_number(new, old), new
    if new.kind in ("day", "number") and old.kind in ("date", "time"):
        return old, _with_number(old, new)
    if _BARE.fullmatch(new.text) and old.kind in ("number", "identifier"):
        return old, _with_unit(old, new)
    return old, new


def _as_number(value: Value) -> Value:
    """Return a day as the number that it really is: of a platform, or of a house."""
    digits = re.search(r"\d+", value.text)
    return replace(value, kind="number", text=digits[0]) if digits else value


_BARE = re.compile(r"\d[\d.,'’]*")
_LAST_NUMBER = re.compile(r"(?:\d[\d.,'’]*)?\d(?=\D*$)")


def _with_unit(old: Value, new: Value) -> Value:
    """Return a value with its last number replaced: 45 euros, or A19."""
    number, digits = _LAST_NUMBER.search(old.text), new.text.rstrip(".")
    if number is None or new.kind == "identifier":
        return new
    start = number.start()
    if len(re.sub(r"\D", "", old.text)) >= LONG and len(digits) <= LONGEST_END:
        start = number.end() - len(digits)
    text = old.text[:start] + digits + old.text[number.end() :]
    (made,) = find_values(text)[:1] or (new,)
    return made if made.text == text else replace(new, text=text)


def _with_number(date: Value, day: Value) -> Value:
    """Return a date or a time with its number replaced."""
    number = re.search(r"\d+", day.text)
    places = [*re.finditer(r"\d+|[一二三四五六七八九十两]+", date.text)]
    if number is None or not places:
        return day
    is_iso = re.fullmatch(r"\d{4}-\d{1,2}-\d{1,2}", date.text)
    place = places[-1] if is_iso or "月" in date.text else places[0]
    text = date.text[: place.start()] + number[0] + date.text[place.end() :]
    (made,) = find_values(text)[:1] or (day,)
    return made


def _topic(
    sentence: str, old: Value, new: Value, before: Iterable[tuple[str, bool]]
) -> tuple[frozenset[str], bool]:
    """Return the words of the sentences that have and end the old value, and whether other
    sentences use it for something else."""
    about = content_words(sentence) - content_words(new.text)
    digits = [re.compile(rf"(?<!\d)0?{one}(?!\d)") for one in re.findall(r"\d+", old.text)]
    parts = [
        (words, part, back, is_reply)
        for back, (text, is_reply) in enumerate(before)
        if old.text in text or (digits and all(one.search(text) for one in digits))
        for part in split_sentences(text)
        if old.text in part or (digits and has_value(part, old))
        if (words := content_words(part) - content_words(old.text))
    ]
    first = parts[0] if parts else (frozenset[str](), "", 0, False)
    own, said, at, is_echo = next((one for one in parts if not about.isdisjoint(one[0])), first)
    if not about.isdisjoint(own) and sum(old.is_same(one) for one in find_values(said)) > 1:
        return about - content_words(old.text), True  # "3 kids and 3 dogs": of one of them
    is_echo = is_echo and about.isdisjoint(own)
    echoes = (  # "Noted, Wednesday at 10:30."
        words
        for words, _part, back, is_reply in parts
        if (is_reply and back == at - 1 and len(words) <= _ECHO) or (is_echo and back == at + 1)
    )
    about = (about | own).union(*echoes) - content_words(old.text)
    return about, any(about.isdisjoint(words) for words, *_ in parts)


def use_again(one: Correction, text: str) -> Correction:
    """Return a correction after a later message of the person, which may use the old value for
    something else: it says so, and neither denies it nor asks."""
    if one.old.casefold() not in text.casefold():
        return one
    others = set(one.others)
    for sentence in split_sentences(text[:SCANNED]):
        folded = sentence.casefold()
        if one.old.casefold() not in folded or one.new.casefold() in folded:
            continue
        is_asked = "?" in sentence or "？" in sentence
        if not (is_asked or mentions_past(sentence) or DENYING & {*read_tokens(sentence)}):
            others |= content_words(sentence) - one.topic - OF_ANYTHING - content_words(one.old)
    return replace(one, others=frozenset(others)) if len(others) > len(one.others) else one


# --- the values in force -------------------------------------------------------------------------


def in_force(corrections: Iterable[Correction]) -> list[Correction]:
    """Return the corrections in force, each with the final value. A new value that was corrected
    again is replaced, whether the later correction names it or the value before it; a value that
    was restored never ended. Corrections of different things with equal values do not affect each
    other."""
    held: list[Correction] = []
    for late in corrections:
        about = [one for one in held if _is_about_the_same(one, late)]
        kept = [one for one in held if not _is_about_the_same(one, late)]
        again = [one for one in about if _is_value(one.old, late.old)]
        between = [one.new for one in again if not _is_value(one.new, late.new)]
        for one in about:
            if _is_value(one.old, late.new) or (between and _is_value(one.old, late.old)):
                continue
            is_gone = any(_is_value(one.new, old) for old in (late.old, *between))
            kept.append(replace(one, new=late.new, at=late.at) if is_gone else one)
        held = [*kept, *(replace(late, old=old) for old in dict.fromkeys(between)), late]
    return held


def _is_about_the_same(one: Correction, other: Correction) -> bool:
    return not one.said or not other.said or not one.said.isdisjoint(other.said)


def _is_value(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or any(
        a.is_same(b) for a in _values_in(one) for b in _values_in(other)
    )


@lru_cache(maxsize=1_000)
def _values_in(value: str) -> tuple[Value, ...]:
    return tuple(find_values(value))
