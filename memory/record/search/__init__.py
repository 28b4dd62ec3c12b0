"""Search in messages and notes; every kind of search returns `Hit`s.

`find` ranks the messages of an audience's conversations (`index.py`, `ranking.py`); `scan` searches
for literal texts, and `passages` shows consecutive messages, by words, by place or by turn.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo

from msgspec import Struct

from memory.context.layout import RemovedTurns
from memory.corrections.ended_values import EndedValue, has_old_value
from memory.messages import SEARCHES
from memory.record import transcript
from memory.record.branches import lineage
from memory.record.closeness import (
    MOST_WORDS,
    MatchScore,
    Span,
    closeness,
    finder,
    fold,
    spans,
    to_model_text,
    to_search_text,
    without_searches,
)
from memory.record.database import Database
from memory.record.search import index, words
from memory.record.search.corrected import Corrections
from memory.record.search.likeness import Likeness
from memory.record.search.ranking import (
    NO_DAYS,
    WEIGHTS,
    Inquiry,
    NamedDays,
    Passage,
    Posting,
    Ranking,
    Weights,
)
from memory.record.search.reach import Scope, SearchScope
from memory.record.search.words import NamedDate
from memory.turns import Entry

_BESIDES = 3  # the maximum of added messages that correct others
MOST = 100
"""The maximum of messages that `passages` shows."""
BY_WORDS = Likeness()
_LOOKED_AT = 100  # the best messages, among which those with a phrase are moved first


class Hit(Struct, frozen=True):
    """A message that was found, with its searched text and the places of the words in it, in order.

    `conversation` is the id of its conversation; `before` and `after` are the adjacent messages of
    the same sitting. `number` counts, from 1, the messages of a conversation that `passages` may
    show.
    """

    entry: Entry
    text: str
    spans: tuple[Span, ...] = ()
    conversation: str = ""
    before: Entry | None = None
    after: Entry | None = None
    number: int = 0


class SearchHits(Struct, frozen=True):
    """The best hits; the number of messages that contain any of the words (of passages: that may be
    shown); the number that contain all of them; and the number of omitted messages."""

    hits: tuple[Hit, ...] = ()
    total: int = 0
    whole: int = 0
    left_out: int = 0


# --- ranked search ------------------------------------------------------------------------


def find(
    database: Database,
    scope: Scope,
    text: str,
    most: int,
    zone: tzinfo,
    likeness: Likeness = BY_WORDS,
    corrections: Corrections | None = None,
) -> SearchHits:
    """Return the messages that best answer a text. For the model, these include some that have none
    of its words, but are adjacent to those that do, or have a similar meaning (`likeness`). `zone`
    is the time zone of dates in the text. With `corrections`, corrected values are shown as they
    are now."""
    return HistorySearch(database, scope, zone, likeness, corrections).find(text, most)


class HistorySearch:
    """The search of a scope, valid until the next write to the database."""

    def __init__(
        self,
        database: Database,
        scope: Scope,
        zone: tzinfo,
        likeness: Likeness = BY_WORDS,
        corrections: Corrections | None = None,
    ) -> None:
        self._database, self._scope, self._zone = database, scope, zone
        self._likeness = likeness
        self._corrections, self._ended = corrections, dict[int, Sequence[EndedValue]]()
        self._reach = SearchScope(database, scope)
        self._ranges = self._reach.ranges
        self._sessions = index.sessions(database, self._ranges)

    def find(self, text: str, most: int) -> SearchHits:
        """Return the messages that best answer a text."""
        inquiry = self.inquire(text)
        order, near = self.rank(inquiry)
        of_day = {inquiry.sessions.firsts[number] for number in inquiry.days.sittings_on()}
        holding = {place for place, passage in near.items() if passage.sitting in of_day}
        holding.update(*(posting.places for posting in inquiry.postings))
        if not self._scope.is_model:
            order = self._phrases_first([place for place in order if place in holding], text)
        wanted = [term.word for term in inquiry.question.terms]
        best = self._with_corrections(order[:most])
        return SearchHits(tuple(self._hits(best, wanted)), len(holding))

    def _phrases_first(self, order: Sequence[int], text: str) -> list[int]:
        """Return the best places, with those first that contain all of a person's words literally
        and consecutively."""
        wanted = fold(text)
        there = index.entries(self._database, order[:_LOOKED_AT], self._ranges)

        def has_scattered_words(place: int) -> bool:
            text = to_search_text(there[place][1].message) if place in there else ""
            return closeness(text.casefold(), wanted).run < len(wanted)

        return sorted(order, key=has_scattered_words)

    def inquire(self, text: str) -> Inquiry:
        """Return the parsed question and the places of its words."""
        speakers = {name for names in self._sessions.speakers for name in names.split(",")}
        names = {word for name in speakers for word in name.split()}
        question = words.question(text, names)
        places = index.places(self._database, question.terms, self._ranges)
        return Inquiry(
            question,
            [*map(Posting, question.terms, places)],
            self._sessions,
            {name for name in speakers if not question.words.isdisjoint(name.split())},
            self._find_days(question.dates) if question.dates else NO_DAYS,
            self._likeness.compare(self._database, text, names, self._ranges),
        )

    def rank(
        self, inquiry: Inquiry, weights: Weights = WEIGHTS
    ) -> tuple[list[int], Mapping[int, Passage]]:
        """Return the places that answer best, best first, and the passages read for that."""
        ranking = Ranking(inquiry, weights)
        near = index.passages(self._database, ranking.choose(), self._ranges)
        return ranking.rank(near), near

    def _find_days(self, dates: Sequence[NamedDate]) -> NamedDays:
        times = index.times(self._database, self._ranges)
        days = [datetime.fromtimestamp(at, self._zone).date() for at in times.at]
        off = (named.days_off(set(days)) for named in dates)
        return NamedDays(times, [[*map(days_off.__getitem__, days)] for days_off in off])

    def _with_corrections(self, places: Sequence[int]) -> list[int]:
        """Return the places, with each message that corrects another one before that one.
        Correcting messages that were not found themselves are added at the end."""
        if self._corrections is None:
            return [*places]
        there = index.entries(self._database, places, self._ranges)
        order: dict[int, None] = {}
        besides: dict[int, None] = {}
        for place in places:
            for one in self._ended_at(place):
                message = there[place][1].message
                if (
                    one.turn > 0
                    and one.seq > index.home_of(place)[1]
                    and has_old_value(message.text, [one])
                ):
                    correcting = index.place_of(self._row_of(place, one.seq), one.seq)
                    (order if correcting in places else besides)[correcting] = None
            order[place] = None
        visible = index.entries(self._database, [*order, *besides], self._ranges)
        found = [place for place in order if place in visible]
        extra = [place for place in besides if place in visible and place not in order]
        return [*found, *extra[:_BESIDES]]

    def _row_of(self, place: int, seq: int) -> int:
        """Return the row that stores a message of the transcript that a place is seen in."""
        line = lineage(self._database, self._reach.seen_from(place))
        return next(link.conversation for link in line if seq <= link.seq)

    def _ended_at(self, place: int) -> Sequence[EndedValue]:
        """Return the values that were corrected in the conversation of a place."""
        if self._corrections is None:
            return ()
        row = self._reach.seen_from(place)
        if row not in self._ended:
            self._ended[row] = self._corrections.of(self._database, row)
        return self._ended[row]

    def _shown(self, entry: Entry, place: int) -> Entry:
        if self._corrections is None:
            return entry
        return self._corrections.show(entry, self._ended_at(place))

    def _hits(self, places: Sequence[int], wanted: Sequence[str]) -> Iterator[Hit]:
        around = {place + distance for place in places for distance in (-1, 0, 1)}
        there = index.entries(self._database, around, self._ranges)

        def neighbour(sitting: int, place: int) -> Entry | None:
            its_sitting, entry = there.get(place, (0, None))
            if entry is None or its_sitting != sitting or entry.message.tool in SEARCHES:
                return None
            return self._shown(entry, place)

        for place in places:
            sitting, entry = there[place]
            entry = self._shown(entry, place)
            text, name = to_search_text(entry.message), self._reach.name(place)
            neighbours = neighbour(sitting, place - 1), neighbour(sitting, place + 1)
            yield Hit(entry, text, spans(text, wanted), name, *neighbours)


# --- literal search -----------------------------------------------------------------------


def scan(
    database: Database,
    conversations: Mapping[int, str],
    texts: Iterable[str],
    most: int,
    read: Callable[[Database, int], Iterable[Entry]] = transcript.every_entry,
    corrections: Corrections | None = None,
) -> SearchHits:
    """Return the messages that match these texts most closely, the newest first among equals. The
    match ignores case (Unicode's folding), may be within words, and need not be a word, such as
    "C++". It reads all of these conversations, given by row and name; `read` yields the entries of
    each."""
    folded = dict.fromkeys(text.casefold() for text in texts if text)
    wanted = [*folded][:MOST_WORDS]
    counts = Counter[int]()

    def iter_scored() -> Iterator[tuple[MatchScore, datetime, int, int, Entry]]:
        for row in conversations:
            for entry in read(database, row):
                near = closeness(to_search_text(entry.message).casefold(), wanted)
                if near.held:
                    counts[near.held - near.whole] += 1
                    yield near, entry.at, entry.seq, row, entry

    hits = []
    for *_, row, entry in heapq.nlargest(most, iter_scored()):
        entry = corrections.show(entry, corrections.of(database, row)) if corrections else entry
        content = to_search_text(entry.message)
        hits.append(Hit(entry, content, spans(content, wanted), conversations[row]))
    return SearchHits(tuple(hits), counts.total(), counts[len(wanted)])


# --- passages ------------------------------------------------------------------------------


class Words(Struct, frozen=True):
    """The messages that contain this text in any case, each with its neighbours."""

    text: str
    before: int = 2
    after: int = 2


class Tail(Struct, frozen=True):
    """The newest messages."""

    last: int = 10


class FirstMessages(Struct, frozen=True):
    """The first messages."""

    first: int = 10


class MessagesAround(Struct, frozen=True):
    """All messages of a turn, and of this many turns before and after it."""

    turn: int
    before: int = 0
    after: int = 0


class ExactMessage(Struct, frozen=True):
    """The whole message of this turn and seq, as shown to the model: the address in a stub."""

    turn: int
    seq: int


Wanted = Words | Tail | FirstMessages | MessagesAround | ExactMessage


def passages(
    database: Database,
    conversation: int,
    wanted: Wanted,
    running: int,
    away: RemovedTurns,
    corrections: Corrections | None = None,
) -> SearchHits:
    """Return the passages that flo.monster's `context_search` gives its model: messages in order,
    with their neighbours. The `running` turn (0: none), removed turns, and results of searches are
    left out."""
    searches = transcript.results_of(database, conversation, SEARCHES)
    places = [
        (seq, turn)
        for seq, turn in transcript.places(database, conversation)
        if turn != running and seq not in searches and not away.has(turn)
    ]
    pattern = finder(wanted.text) if isinstance(wanted, Words) else None
    if isinstance(wanted, Words):
        seqs = _seqs_with(database, conversation, wanted.text)
        matches = [number for number, (seq, _) in enumerate(places, 1) if seq in seqs]
        numbers = spread(matches[-MOST:], wanted.before, wanted.after, len(places))[-MOST:]
        left_out = sum(number < numbers[0] for number in matches) if matches else 0
    else:
        chosen = _choose(wanted, places)
        numbers, left_out = chosen[:MOST], len(chosen[MOST:])
    entries = transcript.entries_at(database, conversation, (places[n - 1][0] for n in numbers))
    ended = corrections.of(database, conversation, away) if corrections else ()
    hits = []
    for number, entry in zip(numbers, entries, strict=True):
        is_whole = isinstance(wanted, ExactMessage)
        if corrections and not is_whole:
            entry = corrections.show(entry, ended)
        text = entry.message.shown_text if is_whole else to_model_text(entry.message)
        match = pattern.search(text) if pattern else None
        hits.append(Hit(entry, text, (Span(*match.span()),) if match else (), number=number))
    return SearchHits(tuple(hits), len(places), left_out=left_out)


def _seqs_with(database: Database, conversation: int, text: str) -> frozenset[int]:
    pattern, entries = finder(text), transcript.every_entry(database, conversation)
    texts = ((entry.seq, to_model_text(without_searches(entry.message))) for entry in entries)
    return frozenset(seq for seq, text in texts if pattern.search(text))


def _choose(
    wanted: Tail | FirstMessages | MessagesAround | ExactMessage, places: Sequence[tuple[int, int]]
) -> list[int]:
    """Return the numbers of the selected messages; `places` has each message's seq and turn."""
    total = len(places)
    match wanted:
        case Tail():
            return list(range(max(1, total - wanted.last + 1), total + 1))
        case FirstMessages():
            return list(range(1, min(total, wanted.first) + 1))
        case MessagesAround():
            near = range(wanted.turn - wanted.before, wanted.turn + wanted.after + 1)
            return [number for number, (_, turn) in enumerate(places, 1) if turn in near]
        case ExactMessage():
            place = wanted.seq, wanted.turn
            return [number for number, other in enumerate(places, 1) if other == place]


def spread(numbers: Iterable[int], before: int, after: int, total: int) -> list[int]:
    """Return these numbers and their neighbours within 1 to `total`, each once, in order."""
    windows = (range(max(1, n - before), min(total, n + after) + 1) for n in numbers)
    return sorted({number for window in windows for number in window})
