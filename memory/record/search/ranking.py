"""The ranking of the messages that answer a question: postings in, places out, the best first.

The score is BM25 over the words of a message and, with lower weight, of adjacent messages: people
name a subject once, and then say "it". A long message gives little to its neighbours, since it has
many words. The sitting counts as a whole, too, and so do the days that the question names.

The `Weights` were chosen on four kinds of chat together (`benchmarks/recall.py --leave-one-out`);
each may be half or twice as large without much harm.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from operator import add, mul
from typing import NamedTuple

from memory.record.search.words import (
    ENDS_ASKING,
    SELF,
    TEMPORAL,
    USER,
    Question,
    Term,
)

CANDIDATES = 100
"""The maximum of messages that are scored exactly, and of those on the named days."""
_ALIKE = 200  # the maximum of messages that are scored exactly because of their meaning
_FAR = 3.5  # the standard deviations of a close meaning, if no message is closer


class Weights(NamedTuple):
    """All weights that were chosen by measurement.

    `near` is the share of a word's weight for the next message. Each further message, up to
    `reach`, gets that share again; a previous message counts as one further away. For a message of
    more than `brief` words the share is reduced in proportion. `prefix` is the weight of a prefix
    and `dated` of a date, relative to a whole word; a date that is missed by `days` counts for a
    third (1/e). `saturation` is BM25's k1, which grows for messages of more than `length` words.
    `sitting` is a message's share of its sitting's score. The score is increased by `spoken` for
    messages by the person in question, by `temporal` for messages with a time if the question asks
    for one, and by `own` for messages about their speaker. It is reduced by `asking` for questions.
    If meanings are compared, `alike` is the share that the message closest in meaning gets of the
    best score by words; `near_alike` is for meanings what `near` is for words.
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
    alike: float = 0.48
    near_alike: float = 0.52


WEIGHTS = Weights()


class Passage(NamedTuple):
    """A message for ranking. `place` is its place in the index, consecutive within a conversation;
    `sitting` is the place of the first message of its sitting; `words` is the number of its words,
    `signs` are the flags of `words.signs`. (A tuple, since a search makes hundreds.)"""

    place: int
    sitting: int
    words: int
    signs: int
    speaker: str


class ChatSessions(NamedTuple):
    """All sittings (messages without a long pause in between) in order, as columns, since a search
    reads hundreds: the place of each one's first message, its numbers of words and messages; and
    the speakers of all (names, separated by commas)."""

    firsts: list[int]
    words: list[int]
    messages: list[int]
    speakers: Collection[str]


class ChatTimes(NamedTuple):
    """The times of sittings, read only if a question names a day: the place of each one's last
    message, and its start (a timestamp)."""

    lasts: list[int]
    at: list[float]


class Posting(NamedTuple):
    """The places of a term."""

    term: Term
    places: Sequence[int]


class NamedDays(NamedTuple):
    """The sittings near the days that a question names: the time of each sitting, and for each date
    its distance in days from each sitting."""

    times: ChatTimes
    off: Sequence[Sequence[int]] = ()

    def sittings_on(self) -> list[int]:
        """Return the numbers of the sittings on exactly these days, newest first."""
        numbers = {number for off in self.off for number, days in enumerate(off) if not days}
        return sorted(numbers, key=lambda number: (self.times.at[number], number), reverse=True)


NO_DAYS = NamedDays(ChatTimes([], []))
NO_LIKENESS: Mapping[int, float] = {}


class Inquiry(NamedTuple):
    """A question with the places of its words: the postings of its terms, all searched sittings,
    the speakers and days that it names, and the similarity of messages by meaning
    (`likeness.py`)."""

    question: Question
    postings: Sequence[Posting]
    sessions: ChatSessions
    spoken_by: Collection[str] = ()
    days: NamedDays = NO_DAYS
    likeness: Mapping[int, float] = NO_LIKENESS


Source = tuple[int, float, Sequence[int]]
"""The contribution of a message to those around it: its sitting, the share of a word's weight that
it gives (by its brevity), and the numbers of its terms."""


class Ranking:
    """Ranks messages: first roughly, and then the best candidates exactly, so that most messages
    cost little. (Sittings are numbered here, from 1, by their order.)"""

    def __init__(self, inquiry: Inquiry, weights: Weights = WEIGHTS) -> None:
        self._inquiry, self._weights = inquiry, weights
        self._shares = list(_shares(weights.near, weights.reach))
        self._shares_alike = list(_shares(weights.near_alike, weights.reach))
        self._messages = sum(inquiry.sessions.messages)
        factors = [weights.prefix if one.term.is_prefix else 1.0 for one in inquiry.postings]
        self._worth = [
            factor * _rarity(len(posting.places), self._messages)
            for factor, posting in zip(factors, inquiry.postings, strict=True)
        ]
        self._own = self._add_up()
        self._number = partial(bisect_right, inquiry.sessions.firsts)
        self._numbers = dict(zip(self._own, map(self._number, self._own), strict=True))
        self._of_sitting = self._score_sittings(factors)
        self._dates = [self._date_weight(off) for off in inquiry.days.off]
        self._chosen: list[int] = []
        self._terms: dict[int, list[int]] = {}

    def _add_up(self) -> dict[int, float]:
        """Add up, for each place, the weights of its terms."""
        own: dict[int, float] = {}
        for worth, posting in zip(self._worth, self._inquiry.postings, strict=True):
            for place in posting.places:
                if place in own:
                    own[place] += worth
                else:
                    own[place] = worth
        return own

    def _score_sittings(self, factors: Sequence[float]) -> list[float]:
        """Return BM25 scores of whole sittings, by the number of their messages with a term."""
        words = self._inquiry.sessions.words
        k1 = self._weights.saturation / max(1.0, sum(words) / max(1, len(words)))
        scores = [0.0] * (len(words) + 1)
        for factor, posting in zip(factors, self._inquiry.postings, strict=True):
            held = Counter(map(self._numbers.__getitem__, posting.places))
            worth = self._weights.sitting * factor * _rarity(len(held), len(words))
            for number, often in held.items():
                scores[number] += worth * often / (often + k1 * words[number - 1])
        return scores

    def _date_weight(self, days_off: Sequence[int]) -> tuple[float, list[float]]:
        """Return the weight of a date, and the share of each sitting."""
        shares = [math.exp(-off / self._weights.days) for off in days_off]
        of_it = sum(map(mul, shares, self._inquiry.sessions.messages))
        return self._weights.dated * _rarity(of_it, self._messages), [0.0, *shares]

    def choose(self) -> list[int]:
        """Return the places to read: the best candidates by their postings, and those that
        contribute to their scores."""
        own, numbers, whole = self._own, self._numbers, self._estimate_sittings()
        of_sitting = map(whole.__getitem__, numbers.values())
        estimates = dict(zip(own, map(add, own.values(), of_sitting), strict=True))
        gains = [(distance, self._saturate(share)) for distance, share in self._shares]
        rough: dict[int, float] = {}
        for place in _best(estimates):
            sitting, worth = whole[numbers[place]], own[place]
            for distance, gain in gains:
                near = place + distance
                if near in rough:
                    rough[near] += gain * worth
                else:
                    rough[near] = sitting + gain * worth
        likeness = self._inquiry.likeness
        days = islice(self._iter_days(), CANDIDATES)
        self._chosen = [*dict.fromkeys([*_best(rough), *_best(likeness, _ALIKE), *days])]
        around = {place - distance for distance, _ in gains for place in self._chosen}
        giving = own.keys() | likeness.keys() if likeness else own.keys()
        self._terms = {place: [] for place in around & giving}
        for number, posting in enumerate(self._inquiry.postings):
            for place in self._terms.keys() & posting.places:
                self._terms[place].append(number)
        return [*self._terms.keys() | self._chosen]

    def _estimate_sittings(self) -> list[float]:
        """Estimate the contribution of each sitting and its days to a message, if a word in a brief
        message counts fully."""
        full = 1 + self._weights.saturation
        whole = [full * score for score in self._of_sitting]
        for worth, shares in self._dates:
            scores = zip(whole, shares, strict=True)
            whole = [score + worth * self._saturate(share) for score, share in scores]
        return whole

    def _saturate(self, frequency: float) -> float:
        """Return the BM25 score of this frequency in a brief message, relative to a whole word."""
        k1 = self._weights.saturation
        return (1 + k1) * frequency / (frequency + k1)

    def _iter_days(self) -> Iterator[int]:
        """Yield all places on exactly the named days, newest sittings first."""
        firsts, lasts = self._inquiry.sessions.firsts, self._inquiry.days.times.lasts
        for number in self._inquiry.days.sittings_on():
            yield from range(firsts[number], lasts[number] + 1)

    def rank(self, passages: Mapping[int, Passage]) -> list[int]:
        """Return the places, best first, from the passages read for those that it `choose`s; places
        without a passage are skipped."""
        sources: dict[int, Source] = {}
        for place, terms in self._terms.items():
            if one := passages.get(place):
                sources[place] = one.sitting, self._brevity(one.words), terms
        there = [passages[place] for place in self._chosen if place in passages]
        worth = [self._score(one, sources) for one in there]
        if self._inquiry.likeness:
            worth = self._add_likeness(
                worth, [self._compute_similarity(one, sources) for one in there]
            )
        factors = map(self._factor, there)
        places = (one.place for one in there)
        scores = zip(map(mul, worth, factors), places, strict=True)
        return [place for _, place in sorted(scores, reverse=True)]

    def _add_likeness(self, worth: Sequence[float], alike: Sequence[float]) -> list[float]:
        """Add the scores by meaning to those by words, each relative to the highest."""
        most = max(worth, default=0.0) or 1.0
        gain = self._weights.alike / max(_FAR, *alike, 0.0)
        return [by_words / most + gain * near for by_words, near in zip(worth, alike, strict=True)]

    def _compute_similarity(self, passage: Passage, sources: Mapping[int, Source]) -> float:
        """Return the similarity of a message by meaning, plus a share of that of adjacent
        messages."""
        likeness, nearness = self._inquiry.likeness, 0.0
        for distance, share in self._shares_alike:
            near = passage.place - distance
            if near in likeness and (source := sources.get(near)):
                sitting, brevity, _ = source
                if sitting == passage.sitting:
                    nearness += likeness[near] * (share * brevity if distance else share)
        return nearness

    def _score(self, passage: Passage, sources: Mapping[int, Source]) -> float:
        """Return the BM25 score of a message and its sitting. A term counts fully in its own
        message, and less for those around it."""
        found: dict[int, float] = {}
        place, its_sitting, words, _, _ = passage
        for distance, share in self._shares:
            if source := sources.get(place - distance):
                sitting, brevity, terms = source
                if sitting == its_sitting:
                    given = share * brevity if distance else share
                    for term in terms:
                        found[term] = found[term] + given if term in found else given
        k1, worth = self._weights.saturation * max(1.0, words / self._weights.length), self._worth
        number = self._number(place)
        score = self._of_sitting[number]
        for term, frequency in found.items():
            score += worth[term] * frequency / (frequency + k1)
        for of_date, shares in self._dates:
            score += of_date * shares[number] / (shares[number] + k1)
        return score

    def _brevity(self, words: int) -> float:
        """Return 1 for a brief message; less for a longer one, which says less about its
        neighbours."""
        brief = self._weights.brief
        return 1.0 if words <= brief else brief / words

    def _factor(self, passage: Passage) -> float:
        """Return the factor for the intent of the question, which ranks messages with the same
        words."""
        weights, question, signs = self._weights, self._inquiry.question, passage.signs
        by_user = question.asks_self and not self._inquiry.spoken_by and signs & USER
        factor = 1.0
        if by_user or passage.speaker in self._inquiry.spoken_by:
            factor += weights.spoken
        if question.asks_when and signs & TEMPORAL:
            factor += weights.temporal
        if signs & SELF:
            factor += weights.own
        if signs & ENDS_ASKING:
            factor -= weights.asking * self._brevity(passage.words)
        return factor


def _best(scores: Mapping[int, float], most: int = CANDIDATES) -> list[int]:
    """Return the places with the highest scores. (Sorting all is faster than `heapq.nlargest`.)"""
    return sorted(scores, key=scores.__getitem__, reverse=True)[:most]


def _shares(near: float, reach: int) -> Iterator[tuple[int, float]]:
    """Yield (distance, share) of a word for its own message, and for those after and before."""
    yield 0, 1.0
    for distance in range(1, reach + 1):
        yield distance, near**distance
        yield -distance, near ** (distance + 1)


def _rarity(holding: float, count: int) -> float:
    """Return BM25's weight of a term that `holding` of `count` texts contain."""
    return math.log(1 + max(0.0, count - holding + 0.5) / (holding + 0.5))
