"""Memory search: what was said in an audience's conversations, the best answers first."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import groupby

from peewee import SqliteDatabase

from memory.context.change import cleared_before
from memory.record import tables, transcript
from memory.record.recall import index, words
from memory.record.recall.index import Ranges, Stretch, home_of, range_of
from memory.record.recall.ranking import REACH, Corpus, Posting, ranked
from memory.record.recall.words import Question, Term
from memory.record.search import Hit, search, searched, spans
from memory.turns import Entry


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be found: all that is kept of an audience. For the model (`is_model`) only what no
    person cleared, and of the conversation in which a turn runs only what was said before that:
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
    names = dict(_conversations(database, scope))
    ranges = Ranges(_visible(database, scope, names))
    stretches = index.stretches(database, ranges)
    speakers = {name for stretch in stretches for name in stretch.speakers}
    question = words.question(text, {word for name in speakers for word in name.split()})
    postings = [_posting(database, term, ranges, stretches, zone) for term in question.terms]
    corpus = _corpus(database, postings, ranges, stretches)
    holding = {place for posting in postings for place in posting.places}
    order = ranked(question, postings, corpus, _named(speakers, question))
    order = [place for place in order if scope.is_model or place in holding]
    hits = _hits(database, order[:most], ranges, question)
    return Gathered(tuple(Recalled(names[row], *hit) for row, hit in hits), len(holding))


def _conversations(database: SqliteDatabase, scope: Scope) -> Iterable[tuple[int, str]]:
    columns = tables.Conversation
    query = columns.select(columns.id, columns.key).where(columns.audience == scope.audience)
    return query.tuples().execute(database)  # type: ignore[no-any-return]


def _visible(
    database: SqliteDatabase, scope: Scope, rows: Iterable[int]
) -> Iterable[index.Range]:
    if not scope.is_model:
        return map(range_of, rows)
    cleared = {row: cleared_before(transcript.events_of(database, row)) for row in rows}
    row, begin = scope.running
    return (
        range_of(one, first, begin - 1) if one == row else range_of(one, first)
        for one, first in cleared.items()
    )


def _posting(
    database: SqliteDatabase, term: Term, ranges: Ranges, stretches: Iterable[Stretch], zone: tzinfo
) -> Posting:
    return Posting(term, index.places(database, term, ranges), _dated(term, stretches, zone))


def _dated(term: Term, stretches: Iterable[Stretch], zone: tzinfo) -> Sequence[int]:
    """The places of the days that a term names, the newest days first."""
    if not words.may_date(term.word):
        return ()
    of_day = (s.span for s in stretches if words.dates(term.word, _begin(s, zone)))
    return [place for span in of_day for place in range(span.first, span.last + 1)][: index.MOST]


def _begin(stretch: Stretch, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(stretch.at, zone)


def _corpus(
    database: SqliteDatabase,
    postings: Iterable[Posting],
    ranges: Ranges,
    stretches: Iterable[Stretch],
) -> Corpus:
    found = {place for posting in postings for place in posting.places}
    passages = index.passages(database, found, REACH, ranges)
    dated = {place for posting in postings for place in posting.dated}
    passages |= index.passages(database, dated - passages.keys(), 0, ranges)
    return Corpus(passages, {stretch.span.first: stretch.size for stretch in stretches})


def _named(speakers: Iterable[str], question: Question) -> set[str]:
    return {name for name in speakers if not question.words.isdisjoint(name.split())}


def _hits(
    database: SqliteDatabase, places: Sequence[int], ranges: Ranges, question: Question
) -> Iterable[tuple[int, tuple[Hit, Entry | None, Entry | None]]]:
    """The rows of conversations, with hits and their neighbours in the same sitting."""
    there = index.passages(database, places, 1, ranges)
    entries = _entries(database, there)
    wanted = [term.word for term in question.terms]
    for place in places:
        before, after = (
            entries[other] if other in there and there[other].sitting == there[place].sitting else None
            for other in (place - 1, place + 1)
        )
        entry = entries[place]
        said = searched(entry.message)
        hit = Hit(entry, said, tuple(spans(said, wanted)))
        yield home_of(place)[0], (hit, before, after)


def _entries(database: SqliteDatabase, places: Iterable[int]) -> dict[int, Entry]:
    homes = sorted(home_of(place) for place in places)
    return {
        index.place_of(row, entry.seq): entry
        for row, members in groupby(homes, key=lambda home: home[0])
        for entry in transcript.entries_at(database, row, [seq for _, seq in members])
    }


def scan(database: SqliteDatabase, audience: str, wanted: Sequence[str], most: int) -> Gathered:
    """The messages that hold the most of these texts, letter by letter, also within words: for what
    is no word, such as "C++". It reads everything."""
    conversations = list(_conversations(database, Scope(audience)))
    found = [(name, search(database, row, wanted, most)) for row, name in conversations]
    hits = [Recalled(name, hit) for name, part in found for hit in part.hits]
    best = heapq.nlargest(most, hits, key=lambda one: (len(one.hit.spans), one.hit.entry.at))
    return Gathered(tuple(best), sum(part.partly for _, part in found))
