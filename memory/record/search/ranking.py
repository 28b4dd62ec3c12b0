"""How well each message answers a question: postings in, places out, the best first.

BM25 over the words of a message and, weaker, of those around it: people name what they speak of
once, and then say "it". What is long holds so many words that it gives little to its neighbours.
The sitting counts as a whole, too, and so do the days that the question names.

The `Weights` were chosen on four kinds of chat together (`benchmarks/recall.py --leave-one-out`);
each may be half or twice as large without much harm.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from memory.record.search.words import (
    ENDS_ASKING,
    SELF,
    TEMPORAL,
    USER,
    Question,
    Term,
)

CANDIDATES = 80
"""Messages that are looked at closely, with those around them."""


class Weights(NamedTuple):
    """All that was chosen by measuring.

    `near` is what a word gives to the next message, and with each further one, up to `reach`, again
    so much less; what stands before it is as far as one more. Of a message of over `brief` words it
    is less, in proportion. `prefix` weighs a beginning and `dated` a date, where a whole word
    weighs 1; a date that is missed by `days` counts for a third (1/e). `saturation` is BM25's k1,
    which grows with a text of over `length` words. A message has a share `sitting` of its sitting's
    score. So much more counts what is `spoken` by whom the question is about, what is `temporal`
    where it asks for a time, and what is about its speaker's `own` things; so much less what is
    `asking` itself.
    """

    near: float = 0.5
    reach: int = 3
    brief: float = 20.0
    prefix: float = 0.3
    dated: float = 3.0
    days: float = 2.0
    saturation: float = 0.5
    length: float = 100.0
    sitting: float = 0.7
    spoken: float = 0.3
    temporal: float = 0.6
    own: float = 0.2
    asking: float = 0.2


WEIGHTS = Weights()


class Passage(NamedTuple):
    """A message as it is ranked. `place` is its row in the index, where the messages of a
    conversation follow one another; `sitting` is the place of the first message of its sitting;
    `words` counts them, `signs` are those of `words.signs`. (A tuple: a search makes hundreds.)"""

    place: int
    sitting: int
    words: int
    signs: int
    speaker: str


class ChatSession(NamedTuple):
    """What was said without a long pause, from the place `first` to `last`: when it began (a
    time stamp), how much it is, and who spoke (names, with commas between)."""

    first: int
    last: int
    at: float
    messages: int
    words: int
    speakers: str


class Posting(NamedTuple):
    """Where a term stands."""

    term: Term
    places: Sequence[int]


class Inquiry(NamedTuple):
    """What is looked for, and where that stands: the postings of the question's terms, all sittings
    that are searched, the speakers whom it names, and for each date in it by how many days each
    sitting, named by its first place, misses it."""

    question: Question
    postings: Sequence[Posting]
    sessions: Sequence[ChatSession]
    spoken_by: Collection[str] = ()
    days_off: Sequence[Mapping[int, int]] = ()


class Ranking:
    """Ranks what is found: first roughly, and then what may be among the best closely, so that most
    messages cost little."""

    def __init__(self, inquiry: Inquiry, weights: Weights = WEIGHTS) -> None:
        self._question, postings, sessions, self._spoken_by, self._days_off = inquiry
        self._sessions, self._weights = sessions, weights
        self._shares = list(_shares(weights))
        self._terms = defaultdict[int, list[int]](list)  # by the place where they stand
        for number, posting in enumerate(postings):
            for place in posting.places:
                self._terms[place].append(number)
        self._messages = sum(session.messages for session in sessions)
        weight = [weights.prefix if posting.term.is_prefix else 1.0 for posting in postings]
        self._worth = [
            factor * _rarity(len(posting.places), self._messages)
            for factor, posting in zip(weight, postings, strict=True)
        ]
        self._sitting = _find_sittings(self._terms, sessions)
        self._of_sitting = self._score_sittings(weight, postings)
        self._dates = [self._weigh_date(one) for one in self._days_off]
        self._sources: dict[int, list[tuple[int, float]]] = {}

    def _score_sittings(
        self, weight: Sequence[float], postings: Sequence[Posting]
    ) -> Mapping[int, float]:
        """BM25 of whole sittings, by how many of their messages hold a term."""
        count, scores = len(self._sessions), defaultdict[int, float](float)
        mean = sum(session.words for session in self._sessions) / max(1, count)
        k1 = self._weights.saturation / max(1.0, mean)
        length = {session.first: k1 * session.words for session in self._sessions}
        for factor, posting in zip(weight, postings, strict=True):
            held = Counter(map(self._sitting.__getitem__, posting.places))
            worth = self._weights.sitting * factor * _rarity(len(held), count)
            for first, often in held.items():
                scores[first] += worth * often / (often + length[first])
        return scores

    def _weigh_date(self, days_off: Mapping[int, int]) -> tuple[float, dict[int, float]]:
        """What a date is worth, and how much of it each sitting has."""
        share = {first: math.exp(-off / self._weights.days) for first, off in days_off.items()}
        of_it = sum(share[session.first] * session.messages for session in self._sessions)
        return self._weights.dated * _rarity(of_it, self._messages), share

    def choose(self) -> list[int]:
        """The places that must be read: those that may be among the best, as far as postings tell,
        and those that count for them."""
        own = self._estimate()
        rough = defaultdict[int, float](float)
        for place in heapq.nlargest(CANDIDATES, own, key=own.__getitem__):
            for distance, share in self._shares:
                rough[place + distance] += share * own[place]
        rough |= dict.fromkeys(islice(self._iter_days(), CANDIDATES), math.inf)
        shares, terms = self._shares, self._terms
        for place in sorted(rough, key=rough.__getitem__, reverse=True)[: 2 * CANDIDATES]:
            self._sources[place] = [
                (place - distance, share) for distance, share in shares if place - distance in terms
            ]
        return [*self._sources.keys() | {place for s in self._sources.values() for place, _ in s}]

    def _estimate(self) -> dict[int, float]:
        """What can be told of each place that holds a term before any is read."""
        whole = defaultdict(float, self._of_sitting)
        for of_date, shares in self._dates:
            for first, share in shares.items():
                whole[first] += of_date * share
        worth, sitting = self._worth, self._sitting
        return {
            place: whole[sitting[place]] + sum([worth[number] for number in numbers])
            for place, numbers in self._terms.items()
        }

    def _iter_days(self) -> Iterator[int]:
        """All places of the very days that are asked for, those of the newest sittings first."""
        for session in sorted(self._sessions, key=lambda one: one.at, reverse=True):
            if any(not days[session.first] for days in self._days_off):
                yield from range(session.first, session.last + 1)

    def rank(self, passages: Mapping[int, Passage]) -> list[int]:
        """The places in order, the best first, by what was read of those that it `choose`s; one
        that is not among the `passages` is not there."""
        there = (passages[place] for place in self._sources if place in passages)
        scores = {one.place: self._score(one, passages) * self._factor(one) for one in there}
        return sorted(scores, key=lambda place: (scores[place], place), reverse=True)

    def _score(self, passage: Passage, passages: Mapping[int, Passage]) -> float:
        """BM25 of a message and its sitting. A term counts once for the message that holds it, and
        less for those around it."""
        found: dict[int, float] = {}
        for place, share in self._sources[passage.place]:
            source = passages.get(place)
            if source is not None and source.sitting == passage.sitting:
                if place != passage.place:
                    share *= self._brevity(source)
                for number in self._terms[place]:
                    found[number] = found.get(number, 0.0) + share
        length, k1 = passage.words / self._weights.length, self._weights.saturation
        if length > 1:
            k1 *= length
        score = self._of_sitting.get(passage.sitting, 0.0)
        for number, frequency in found.items():
            score += self._worth[number] * frequency / (frequency + k1)
        for worth, shares in self._dates:
            share = shares[passage.sitting]
            score += worth * share / (share + k1)
        return score

    def _brevity(self, passage: Passage) -> float:
        """1 for what is brief; what is longer says less about what stands beside it."""
        brief = self._weights.brief
        return 1.0 if passage.words <= brief else brief / passage.words

    def _factor(self, passage: Passage) -> float:
        """What the question asks for decides between messages of the same words."""
        weights, question, signs = self._weights, self._question, passage.signs
        by_user = question.asks_self and not self._spoken_by and signs & USER
        factor = 1.0
        if by_user or passage.speaker in self._spoken_by:
            factor += weights.spoken
        if question.asks_when and signs & TEMPORAL:
            factor += weights.temporal
        if signs & SELF:
            factor += weights.own
        if signs & ENDS_ASKING:
            factor -= weights.asking * self._brevity(passage)
        return factor


def _find_sittings(places: Iterable[int], sessions: Iterable[ChatSession]) -> dict[int, int]:
    """The first places of the sittings in which these places are."""
    firsts = sorted(session.first for session in sessions)
    return {place: firsts[bisect_right(firsts, place) - 1] for place in places}


def _shares(weights: Weights) -> Iterator[tuple[int, float]]:
    """What a word counts for its own message, and those after and before: distance and share."""
    yield 0, 1.0
    for distance in range(1, weights.reach + 1):
        yield distance, weights.near**distance
        yield -distance, weights.near ** (distance + 1)


def _rarity(holding: float, count: int) -> float:
    """BM25's weight of a term that so many of all texts hold."""
    return math.log(1 + max(0.0, count - holding + 0.5) / (holding + 0.5))
