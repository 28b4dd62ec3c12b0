"""Search in the daily memory files, ranked just as what was said is.

People may edit the files, so nothing of them is kept: their parts go into a database in memory, as
if each day were a conversation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, time, tzinfo

from peewee import SqliteDatabase

from memory.keys import ConversationKey
from memory.messages import Message
from memory.record import recall, transcript
from memory.record.daily import Note
from memory.record.migrations import migrate
from memory.record.recall import index
from memory.record.search import Span
from memory.turns import Entry

_SCOPE = recall.Scope("notes")


@dataclass(frozen=True, slots=True)
class NoteHit:
    """A part of a daily file that holds some of the words, and where they stand, in order."""

    note: Note
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class FoundNotes:
    """The best hits in the daily files, and how many there are."""

    hits: tuple[NoteHit, ...]
    total: int


def find(notes: Sequence[Note], text: str, most: int, zone: tzinfo) -> FoundNotes:
    """The notes that answer a text best."""
    if not notes:
        return FoundNotes((), 0)
    database = SqliteDatabase(":memory:")
    with database.connection_context():
        migrate(database)
        with database.atomic():
            _fill(database, notes, zone)
        found = recall.find(database, _SCOPE, text, most, zone)
    hits = (one.hit for one in found.hits)
    return FoundNotes(tuple(NoteHit(notes[hit.entry.turn], hit.spans) for hit in hits), found.total)


def _fill(database: SqliteDatabase, notes: Sequence[Note], zone: tzinfo) -> None:
    """Put the notes into a transcript, each as the turn of its own number."""
    for number, note in enumerate(notes):
        key = ConversationKey(str(note.day), _SCOPE.audience)
        row = transcript.find_or_create(database, key)
        at = datetime.combine(note.day, time(), zone)
        entry = Entry(row.last_seq + 1, number, Message("note", note.text), 0, at)
        transcript.insert(database, row.id, [entry])
    for row_id in index.behind(database, _SCOPE.audience):
        while index.catch_up(database, row_id):
            pass
