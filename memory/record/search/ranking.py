"""How well each message answers a question: postings in, messages with their scores out.

BM25 over the words of a message and, weaker, of those around it: people name what they speak of
once, and then say "it". Its sitting counts as a whole, too. What the question asks for (a person, a
time, a number) decides between messages of the same words. The weights were measured on LoCoMo
(`benchmarks/recall.py`); each may be off by a third without much harm.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from memory.record.search.words import (
    ASKS,
    ENDS_ASKING,
    NUMBER,
    SELF,
    TEMPORAL,
    Question,
    Term,
)

_AROUND = ((1, 0.5), (2, 0.35), (-1, 0.25), (-2, 0.12))
"""What a word gives to the messages after and before its own; distance and share."""
_ASKED = 0.3  # more for the message after a question: it may be the answer
_DATED = 2.0  # for a message of the day that the word names
_TOP, _K1, _B = 1.5, 0.5, 0.2  # BM25 of a message
_SITTING_TOP, _SITTING_K1, _SITTING_B = 2.2, 1.2, 0.75  # BM25 of a sitting
_SITTING = 0.5  # its share in the score of a message
_LENGTH, _LONG = 0.2, 40  # a message of so many words says more than "Yes!"
_ASKS, _SPOKEN, _TIME, _NUMBER, _FIRST, _SELF = -0.3, 0.2, 0.5, 0.2, 0.2, 0.1

REACH = 2
"""How many messages far a word counts."""


class Passage(NamedTuple):
    """A message as it is ranked. `place` is its row in the index, where the messages of a
    conversation follow one another; `sitting` is the place of the first message of its sitting;
    `words` counts them, `signs` are those of `words.signs`. (A tuple: a search makes thousands.)"""

    place: int
    sitting: int
    words: int
    signs: int
    speaker: str


@dataclass(frozen=True, slots=True)
class ChatSession:
    """What was said without a long pause, with how much that is."""

    messages: int
    words: int


@dataclass(frozen=True, slots=True)
class Posting:
    """Where a term stands, and which messages are of a day that it names."""

    term: Term
    places: Sequence[int]
    dated: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Corpus:
    """What is searched: the passages that are near a posting, and all sittings."""

    passages: Mapping[int, Passage]
    sittings: Mapping[int, ChatSession]

    @property
    def messages(self) -> int:
        return sum(sitting.messages for sitting in self.sittings.values())

    @property
    def words(self) -> int:
        return sum(sitting.words for sitting in self.sittings.values())


def rank(
    question: Question, postings: Iterable[Posting], corpus: Corpus, spoken_by: Collection[str]
) -> list[int]:
    """The places that answer a question, the best first; `spoken_by` are speakers that it names."""
    heard = [_filter_findable(posting, corpus) for posting in postings]
    messages, sittings = _of_messages(heard, corpus), _of_sittings(heard, corpus)
    scores = {
        place: (score + _SITTING * sittings.get(corpus.passages[place].sitting, 0.0))
        * _factor(corpus.passages[place], question, spoken_by)
        for place, score in messages.items()
    }
    return sorted(scores, key=lambda place: (scores[place], place), reverse=True)


def _filter_findable(posting: Posting, corpus: Corpus) -> Posting:
    """A posting without the places at which nothing may be found."""
    there = corpus.passages.keys()
    return replace(
        posting,
        places=[place for place in posting.places if place in there],
        dated=[place for place in posting.dated if place in there],
    )


def _of_messages(postings: Iterable[Posting], corpus: Corpus) -> Mapping[int, float]:
    scores: defaultdict[int, float] = defaultdict(float)
    count, mean = corpus.messages, corpus.words / max(1, corpus.messages)
    for posting in postings:
        rarity = _TOP * posting.term.weight * _rarity(len(posting.places), count)
        for place, frequency in _spread(posting, corpus.passages).items():
            length = corpus.passages[place].words / mean
            scores[place] += rarity * _saturate(frequency, length, _K1, _B)
    return scores


def _of_sittings(postings: Iterable[Posting], corpus: Corpus) -> Mapping[int, float]:
    scores: defaultdict[int, float] = defaultdict(float)
    count, mean = len(corpus.sittings), corpus.words / max(1, len(corpus.sittings))
    for posting in postings:
        held = Counter(corpus.passages[place].sitting for place in posting.places)
        rarity = _SITTING_TOP * posting.term.weight * _rarity(len(held), count)
        for sitting, frequency in held.items():
            length = corpus.sittings[sitting].words / mean
            scores[sitting] += rarity * _saturate(frequency, length, _SITTING_K1, _SITTING_B)
    return scores


def _rarity(holding: int, count: int) -> float:
    """BM25's weight of a term that so many of all texts hold."""
    return math.log(1 + (count - holding + 0.5) / (holding + 0.5))


def _saturate(frequency: float, length: float, k1: float, b: float) -> float:
    """BM25's share for a frequency in a text of this length, as a multiple of the mean."""
    return frequency / (frequency + k1 * (1 - b + b * length))


def _spread(posting: Posting, passages: Mapping[int, Passage]) -> Mapping[int, float]:
    """How often a term counts for each message: for its own, and less for those around it."""
    found: defaultdict[int, float] = defaultdict(float)
    for place in posting.places:
        own = passages[place]
        found[place] += 1
        for distance, share in _AROUND:
            other = passages.get(place + distance)
            if other is not None and other.sitting == own.sitting:
                is_answer = distance == 1 and own.signs & ASKS
                found[place + distance] += share + _ASKED * bool(is_answer)
    for place in posting.dated:
        found[place] += _DATED
    return found


def _factor(passage: Passage, question: Question, spoken_by: Collection[str]) -> float:
    signs = passage.signs
    return (
        1
        + _LENGTH * min(passage.words, _LONG) / _LONG
        + _ASKS * bool(signs & ENDS_ASKING)
        + _SPOKEN * (passage.speaker in spoken_by)
        + _TIME * (question.asks_when and bool(signs & TEMPORAL))
        + _NUMBER * (question.asks_many and bool(signs & NUMBER))
        + _FIRST * (passage.place == passage.sitting)
        + _SELF * bool(signs & SELF)
    )
