"""Memory search: what was said in an audience's conversations, the best answers first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import groupby

from peewee import SqliteDatabase

from memory.context.change import NOTHING_AWAY, TakenAway, replayed
from memory.record import search, transcript
from memory.record.recall import index, words
from memory.record.recall.index import Conversation, Range, Ranges, home_of, place_of, range_of
from memory.record.recall.ranking import REACH, Corpus, Posting, ranked
from memory.record.recall.words import Term
from memory.record.search import SEARCHES, Hit, searched, spans
from memory.turns import Entry


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be found: all that is kept of an audience. For the model (`is_model`) only what no
    person took away, and of the conversation in which a turn runs only what was said before that:
    `running` is the conversation's row, and the seq at which the turn begins."""

    audience: str
    is_model: bool = False
    running: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Recalled:
    """A hit in its conversation, with the messages right before and after it of that sitting."""

    conversation: str
    hit: Hit
    before: Entry | None = None
    after: Entry | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """The best hits, and how many messages hold any of the words."""

    hits: tuple[Recalled, ...] = ()
    total: int = 0


def find(database: SqliteDatabase, scope: Scope, text: str, most: int, zone: tzinfo) -> Gathered:
    """The messages that answer a text best. The model is given some that hold none of its words,
    but stand beside those that do. `zone` is the time zone in which a date in the text is meant.
    """
    return _Search(database, scope, zone).find(text, most)


class _Search:
    """What one search reads, in the conversations that it may."""

    def __init__(self, database: SqliteDatabase, scope: Scope, zone: tzinfo) -> None:
        self._database, self._scope, self._zone = database, scope, zone
        conversations = index.conversations(database, scope.audience)
        self._names = {one.row: one.name for one in conversations}
        away = {one.row: self._taken_away(one) for one in conversations}
        gaps = (gap for row, taken in away.items() for gap in self._gaps(row, taken))
        self._ranges = Ranges((self._visible(row, taken) for row, taken in away.items()), gaps)
        self._stretches = index.stretches(database, self._ranges)

    def find(self, text: str, most: int) -> Gathered:
        speakers = {name for stretch in self._stretches for name in stretch.speakers}
        question = words.question(text, {word for name in speakers for word in name.split()})
        spoken_by = {name for name in speakers if not question.words.isdisjoint(name.split())}
        postings = [self._posting(term) for term in question.terms]
        order = ranked(question, postings, self._corpus(postings), spoken_by)
        holding = {place for posting in postings for place in posting.places}
        if not self._scope.is_model:
            order = [place for place in order if place in holding]
        wanted = [term.word for term in question.terms]
        return Gathered(tuple(self._recalled(order[:most], wanted)), len(holding))

    def _taken_away(self, one: Conversation) -> TakenAway:
        """What may not be found of a conversation."""
        if not (self._scope.is_model and one.lacks_some):
            return NOTHING_AWAY
        return replayed(transcript.events_of(self._database, one.row), "").taken_away

    def _visible(self, row: int, away: TakenAway) -> Range:
        """The places of a conversation that may be found, but for the gaps in them."""
        running, begin = self._scope.running
        if self._scope.is_model and row == running:
            return range_of(row, away.cleared, begin - 1)
        return range_of(row, away.cleared)

    def _gaps(self, row: int, away: TakenAway) -> list[Range]:
        """The places of the turns that a person dropped."""
        spans = transcript.spans(self._database, row, away.dropped) if away.dropped else []
        return [range_of(row, first, last) for first, last in spans]

    def _posting(self, term: Term) -> Posting:
        return Posting(term, index.places(self._database, term, self._ranges), self._dated(term))

    def _dated(self, term: Term) -> Sequence[int]:
        """The places of the days that a term names, the newest days first."""
        if not words.may_date(term.word):
            return ()
        of_day = (
            stretch.span
            for stretch in self._stretches
            if words.dates(term.word, datetime.fromtimestamp(stretch.at, self._zone))
        )
        return [n for span in of_day for n in range(span.first, span.last + 1)][: index.MOST]

    def _corpus(self, postings: Iterable[Posting]) -> Corpus:
        holding = {place for posting in postings for place in posting.places}
        dated = {place for posting in postings for place in posting.dated}
        passages = index.passages(self._database, holding, REACH, self._ranges)
        passages |= index.passages(self._database, dated - passages.keys(), 0, self._ranges)
        return Corpus(passages, {stretch.span.first: stretch.size for stretch in self._stretches})

    def _recalled(self, places: Sequence[int], wanted: Sequence[str]) -> Iterator[Recalled]:
        there = index.passages(self._database, places, 1, self._ranges)
        entries = _entries(self._database, there)

        def beside(place: int, other: int) -> Entry | None:
            is_near = other in there and there[other].sitting == there[place].sitting
            return (
                entries[other] if is_near and entries[other].message.tool not in SEARCHES else None
            )

        for place in places:
            said = searched(entries[place].message)
            hit = Hit(entries[place], said, tuple(spans(said, wanted)))
            name = self._names[home_of(place)[0]]
            yield Recalled(name, hit, beside(place, place - 1), beside(place, place + 1))


def scan(database: SqliteDatabase, audience: str, wanted: Sequence[str], most: int) -> Gathered:
    """The messages that hold the most of these texts, letter by letter, also within words: for what
    is no word, such as "C++". It reads everything."""
    conversations = index.conversations(database, audience)
    found = [(one.name, search.search(database, one.row, wanted, most)) for one in conversations]
    hits = [Recalled(name, hit) for name, part in found for hit in part.hits]
    best = heapq.nlargest(most, hits, key=lambda one: (len(one.hit.spans), one.hit.entry.at))
    return Gathered(tuple(best), sum(part.partly for _, part in found))


def _entries(database: SqliteDatabase, places: Iterable[int]) -> dict[int, Entry]:
    homes = sorted(home_of(place) for place in places)
    return {
        place_of(row, entry.seq): entry
        for row, members in groupby(homes, key=lambda home: home[0])
        for entry in transcript.entries_at(database, row, [seq for _, seq in members])
    }
