"""The index of messages: the words of each message, and flags derived from it.

A message's `place` is its conversation's row and its `seq` in one number. So an audience is a few
ranges of places, and adjacent messages have adjacent numbers. A message with a row in `passage` is
indexed, in the same transaction; so the index is its own cursor, and a crash leaves no partial
entry. The words are stored in the transcript only (a contentless table): a message must be removed
here before it is deleted there. Shared messages of a branch are indexed once, in their own
conversation.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import orjson
from msgspec import Struct

from memory.messages import Message
from memory.record import transcript
from memory.record.closeness import as_written, to_search_text, without_searches
from memory.record.database import Database
from memory.record.search import words
from memory.record.search.ranking import ChatSessions, ChatTimes, Passage
from memory.record.search.words import UNESCAPED, Term
from memory.tasks import TaskProgress
from memory.turns import Entry

BATCH = 200
"""The number of messages that are indexed in one transaction; other writes run in between."""
_BATCH_SIZE = 500_000  # characters that end a batch early
MOST = 2_000
"""The maximum of messages per term, the newest: a term in more messages says little."""
_PAUSE = 2 * 3_600.0  # the pause in seconds that ends a sitting
_SHIFT = 32
_SEQ = (1 << _SHIFT) - 1


class Range(Struct, frozen=True):
    """The places from `first` to `last`, inclusive."""

    first: int
    last: int


def range_of(conversation: int, first: int = 0, last: int = _SEQ) -> Range:
    """Return the places of a conversation, from seq `first` to seq `last`."""
    return Range(place_of(conversation, first), place_of(conversation, last))


def place_of(conversation: int, seq: int) -> int:
    return conversation << _SHIFT | seq


def home_of(place: int) -> tuple[int, int]:
    """Return the conversation's row and the seq of a place."""
    return place >> _SHIFT, place & _SEQ


# --- writing -------------------------------------------------------------------------------


def catch_up(database: Database, conversation: int) -> bool:
    """Index the next messages of a conversation; return whether more are left."""
    last = _newest(database, conversation)
    rest = [*transcript.own_entries(database, conversation, last + 1, BATCH)]
    batch = list(_within_size(rest))
    if batch:
        _add(database, conversation, batch, last)
    return len(batch) == BATCH or len(batch) < len(rest)


def _newest(database: Database, conversation: int) -> int:
    """Return the seq of the newest indexed message; 0 without one."""
    span = range_of(conversation)
    query = "SELECT place FROM passage WHERE place BETWEEN ? AND ? ORDER BY place DESC LIMIT 1"
    row = database.execute_sql(query, (span.first, span.last)).fetchone()
    return home_of(row[0])[1] if row else 0


def _within_size(entries: Iterable[Entry]) -> Iterator[Entry]:
    size = 0
    for entry in entries:
        yield entry
        size += len(entry.message.text)
        if size > _BATCH_SIZE:
            return


def _add(database: Database, conversation: int, entries: Sequence[Entry], after: int) -> None:
    sitting, silent_since = _find_sitting(database, conversation, after)
    touched = set()
    for entry in entries:
        place, at = place_of(conversation, entry.seq), entry.at.timestamp()
        if abs(at - silent_since) > _PAUSE:
            sitting = place
        silent_since = at
        touched.add(sitting)
        text = to_search_text(without_searches(entry.message))
        found = words.words(text)
        database.add_words(place, found)
        database.execute_sql(
            "INSERT INTO passage VALUES (?, ?, ?, ?, ?)",
            (
                place,
                sitting,
                len(found),
                _signs(entry.message, text, found),
                _speaker(entry.message),
            ),
        )
    _sum_up(database, touched)


def _find_sitting(database: Database, conversation: int, seq: int) -> tuple[int, float]:
    """Return the sitting of the last indexed message, and its time."""
    query = (
        "SELECT sitting, at FROM passage JOIN message ON conversation = ? AND seq = ? "
        "WHERE place = ?"
    )
    place = place_of(conversation, seq)
    rows = database.execute_sql(query, (conversation, seq, place)).fetchall()
    return rows[0] if rows else (0, float("-inf"))


def _signs(message: Message, text: str, indexed: Sequence[str]) -> int:
    signs = words.signs(text, indexed, is_user=message.role == "user")
    return signs | UNESCAPED if _has_escapes(message) else signs


def _has_escapes(message: Message) -> bool:
    return any("\\" in call.arguments for call in message.tool_calls)


def _speaker(message: Message) -> str:
    return " ".join(words.words(message.speaker))


def _sum_up(database: Database, sittings: Collection[int]) -> None:
    """Recompute the totals of these sittings; delete empty ones."""
    chosen = orjson.dumps(sorted(sittings)).decode()
    database.execute_sql(f"DELETE FROM sitting WHERE first IN {database.numbers}", (chosen,))
    database.execute_sql(
        f"""INSERT INTO sitting
        SELECT sitting, MAX(place), MIN(at), COUNT(*), SUM(words), {database.names}
        FROM passage JOIN message ON conversation = place >> 32 AND seq = place & {_SEQ}
        WHERE sitting IN {database.numbers} GROUP BY sitting""",
        (chosen,),
    )


def forget(database: Database, conversation: int, turns: Collection[int] | None = None) -> None:
    """Remove the messages of these turns (None: all), before they are deleted from the
    transcript."""
    newest = _newest(database, conversation)
    if turns is None:
        entries: Iterable[Entry] = transcript.own_entries(database, conversation)
    else:
        entries = transcript.own_of_turns(database, conversation, turns)
    rowids = []
    for entry in entries:
        if entry.seq <= newest:
            rowids.append(place_of(conversation, entry.seq))
            indexed = words.words(_indexed(database, rowids[-1], without_searches(entry.message)))
            database.remove_words(rowids[-1], indexed)
    chosen = (orjson.dumps(rowids).decode(),)
    are_gone = f"place IN {database.numbers}"
    query = f"SELECT DISTINCT sitting FROM passage WHERE {are_gone}"
    sittings = [sitting for (sitting,) in database.execute_sql(query, chosen)]
    database.execute_sql(f"DELETE FROM passage WHERE {are_gone}", chosen)
    _sum_up(database, sittings)


def _indexed(database: Database, place: int, message: Message) -> str:
    """Return the text with which a message was indexed."""
    if _has_escapes(message):
        query = "SELECT signs FROM passage WHERE place = ?"
        row = database.execute_sql(query, (place,)).fetchone()
        if row is not None and not row[0] & UNESCAPED:
            return as_written(message)
    return to_search_text(message)


# --- reading -------------------------------------------------------------------------------


class Ranges:
    """The places that a search may return: ranges of places, in order, except the `gaps`."""

    def __init__(self, ranges: Iterable[Range], gaps: Iterable[Range] = ()) -> None:
        self._ranges, self._gaps = _join(ranges), _join(gaps)

    def __iter__(self) -> Iterator[Range]:
        return iter(self._ranges)

    @property
    def has_gaps(self) -> bool:
        return bool(self._gaps)

    def only(self, places: Iterable[int]) -> list[int]:
        """Return the places that a search may return, in order."""
        ordered = sorted(places)
        found = [place for span in self._ranges for place in _within(ordered, span)]
        for gap in self._gaps:
            begin = bisect.bisect_left(found, gap.first)
            del found[begin : bisect.bisect_right(found, gap.last, begin)]
        return found


def _within(ordered: Sequence[int], span: Range) -> Sequence[int]:
    begin = bisect.bisect_left(ordered, span.first)
    return ordered[begin : bisect.bisect_right(ordered, span.last, begin)]


def _join(ranges: Iterable[Range]) -> list[Range]:
    """Return the ranges in order, with adjacent ones merged."""
    joined: list[Range] = []
    for one in sorted(ranges, key=lambda one: one.first):
        if joined and joined[-1].last + 1 == one.first:
            one = Range(joined.pop().first, one.last)
        joined.append(one)
    return joined


class IndexedConversation(NamedTuple):
    """A conversation by its row and name, and whether a person ever removed a part of it."""

    row: int
    name: str
    lacks_some: bool


def conversations(database: Database, audience: str) -> list[IndexedConversation]:
    """Return the conversations of an audience."""
    query = """SELECT id, key, EXISTS (
        SELECT * FROM view_event AS e WHERE e.conversation = c.id AND kind = 'view'
            AND (e.change LIKE '%"gone",1]%' OR e.change LIKE '%"gone",2]%'))
        FROM conversation AS c WHERE audience = ?"""
    return [IndexedConversation._make(row) for row in database.execute_sql(query, (audience,))]


def sessions(database: Database, ranges: Ranges) -> ChatSessions:
    """Return the sittings of the conversations of these ranges."""
    query = "SELECT * FROM sitting WHERE first BETWEEN ? AND ? ORDER BY first"
    named = "SELECT DISTINCT speakers FROM sitting WHERE first BETWEEN ? AND ?"
    firsts, sizes, messages, speakers = list[int](), list[int](), list[int](), set[str]()
    for span in _whole_conversations(ranges):
        found = database.read_columns(query, ("first", "words", "messages"), span)
        firsts += found[0]
        sizes += found[1]
        messages += found[2]
        speakers.update(*database.execute_sql(named, span).fetchall())
    return ChatSessions(firsts, sizes, messages, speakers)


def times(database: Database, ranges: Ranges) -> ChatTimes:
    """Return the times of the sittings of the conversations of these ranges."""
    query = "SELECT * FROM sitting WHERE first BETWEEN ? AND ? ORDER BY first"
    lasts, at = list[int](), list[float]()
    for span in _whole_conversations(ranges):
        found = database.read_columns(query, ("last", "at"), span)
        lasts += found[0]
        at += found[1]
    return ChatTimes(lasts, at)


def _whole_conversations(ranges: Ranges) -> Iterable[tuple[int, int]]:
    """Return the distinct spans of places from the beginning of each conversation to the end of its
    range."""
    return {place_of(home_of(span.first)[0], 0): span.last for span in ranges}.items()


def places(database: Database, terms: Sequence[Term], ranges: Ranges) -> list[list[int]]:
    """Find the places of each term, in the newest messages of each range."""
    found: list[list[int]] = [[] for _ in terms]
    for span in ranges:
        there = database.find_places(terms, span.first, span.last, MOST)
        for places, more in zip(found, there, strict=True):
            places += more
    return [*map(ranges.only, found)] if ranges.has_gaps else found


def passages(database: Database, places: Iterable[int], ranges: Ranges) -> dict[int, Passage]:
    """Return the passages at these places."""
    chosen = orjson.dumps(ranges.only(places)).decode()
    query = f"SELECT * FROM passage WHERE place IN {database.numbers}"
    columns = database.read_columns(query, Passage._fields, (chosen,))
    return dict(zip(columns[0], map(_TO_PASSAGE, zip(*columns, strict=True)), strict=True))


_TO_PASSAGE = partial(tuple.__new__, Passage)  # twice as fast as `Passage._make`


def entries(
    database: Database, places: Iterable[int], ranges: Ranges
) -> dict[int, tuple[int, Entry]]:
    """Return the messages at these places, each with its sitting."""
    chosen = orjson.dumps(ranges.only(places)).decode()
    query = f"""SELECT place, sitting, {transcript.COLUMNS}
        FROM passage JOIN message ON conversation = place >> {_SHIFT} AND seq = place & {_SEQ}
        WHERE place IN {database.numbers}"""
    rows = database.execute_sql(query, (chosen,)).fetchall()
    return {row[0]: (row[1], transcript.to_entry(row[2:])) for row in rows}


_MISSING = f"""(SELECT id, audience, last_seq - COALESCE(
    (SELECT place & {_SEQ} FROM passage WHERE place BETWEEN id << 32 AND (id + 1 << 32) - 1
    ORDER BY place DESC LIMIT 1), (SELECT seq FROM branch WHERE conversation = id), 0) AS missing
    FROM conversation) AS counted"""


def list_unindexed(database: Database, audience: str) -> list[int]:
    """Return the conversations of an audience that have messages that are not indexed."""
    query = f"SELECT id FROM {_MISSING} WHERE audience = ? AND missing > 0"
    return [row for (row,) in database.execute_sql(query, (audience,))]


def count_unindexed(database: Database) -> list[tuple[int, int]]:
    """Return the conversations with messages that are not indexed, each with their number."""
    query = f"SELECT id, missing FROM {_MISSING} WHERE missing > 0 ORDER BY id"
    return [(row, missing) for row, missing in database.execute_sql(query)]


def catch_up_all(database: Database, progress: TaskProgress) -> None:
    """Index all missing messages. No other code uses the record meanwhile."""
    waiting = count_unindexed(database)
    done, total = 0, sum(missing for _, missing in waiting)
    for row, missing in waiting:
        is_left = True
        while is_left:
            with database.atomic():
                is_left = catch_up(database, row)
        done += missing
        progress.show_progress(done, total)
