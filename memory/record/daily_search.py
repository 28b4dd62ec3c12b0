"""Search in the parts of daily files, ranked like the search in messages.

People may edit the files, so the index is not kept on disk: the parts are stored in a database in
memory, as if each day were a conversation. The database is kept between searches, since files
mostly grow at their end.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, tzinfo

from msgspec import Struct
from msgspec.structs import astuple

from memory.keys import ConversationKey
from memory.messages import Message
from memory.record import conversations, transcript
from memory.record.daily import Note
from memory.record.engines.sqlite import in_memory
from memory.record.search import Hit, find, index
from memory.record.search.reach import Scope
from memory.turns import Entry

KEPT = 4
"""The number of audiences whose notes stay in memory: the last searched ones."""
_NOTES = Scope("notes")


class NoteHit(Hit, frozen=True, kw_only=True):
    """A part of a daily file that was found."""

    note: Note


class FoundNotes(Struct, frozen=True):
    """The best hits, and the number of notes that contain any of the words."""

    hits: tuple[NoteHit, ...] = ()
    total: int = 0


class NoteSearch:
    """The search of the notes of all audiences; thread-safe."""

    def __init__(self) -> None:
        self._indexed: OrderedDict[str, _IndexedNotes] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def find(
        self, audience: str, notes: Sequence[Note], text: str, most: int, zone: tzinfo
    ) -> FoundNotes:
        """Find the notes that match a text best among all notes of an audience, given by day."""
        if not notes:
            self._forget(audience)
            return FoundNotes()
        by_day = defaultdict[date, list[Note]](list)
        for note in notes:
            by_day[note.day].append(note)
        with self._one_at_a_time:
            indexed = self._indexed.pop(audience, None)
            if indexed is not None and not indexed.may_become(by_day, zone):
                indexed.close()
                indexed = None
            indexed = indexed or _IndexedNotes(zone)
            indexed.add(by_day)
            self._indexed[audience] = indexed
            while len(self._indexed) > KEPT:
                self._indexed.popitem(last=False)[1].close()
            return indexed.find(text, most)

    def _forget(self, audience: str) -> None:
        """Delete an audience's index, since text that is deleted from the files must not stay in
        memory."""
        with self._one_at_a_time:
            if indexed := self._indexed.pop(audience, None):
                indexed.close()


class _IndexedNotes:
    """Notes in a database in memory; each is the turn of its own number."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone, self._database = zone, in_memory(is_shared=True)
        self._notes: list[Note] = []
        self._by_day: dict[date, list[Note]] = {}

    def may_become(self, by_day: Mapping[date, Sequence[Note]], zone: tzinfo) -> bool:
        """Return whether the indexed notes only need additions at the end of days to become
        these."""
        return zone == self._zone and all(
            by_day.get(day, ())[: len(there)] == there for day, there in self._by_day.items()
        )

    def add(self, by_day: Mapping[date, Sequence[Note]]) -> None:
        """Index the notes that are not indexed yet."""
        new = {day: notes[len(self._by_day.get(day, ())) :] for day, notes in by_day.items()}
        if not any(new.values()):
            return
        with self._database.atomic():
            for day, notes in new.items():
                if notes:
                    self._add_to_day(day, notes)
            for row in index.behind(self._database, _NOTES.audience):
                while index.catch_up(self._database, row):
                    pass

    def _add_to_day(self, day: date, notes: Sequence[Note]) -> None:
        key = ConversationKey(str(day), _NOTES.audience)
        row = conversations.find_or_create(self._database, key)
        at, number = datetime.combine(day, time(), self._zone), len(self._notes)
        entries = [
            Entry(row.last_seq + 1 + i, number + i, Message("note", note.text), 0, at)
            for i, note in enumerate(notes)
        ]
        transcript.insert(self._database, row.id, entries)
        self._notes += notes
        self._by_day.setdefault(day, []).extend(notes)

    def close(self) -> None:
        self._database.close()

    def find(self, text: str, most: int) -> FoundNotes:
        found = find(self._database, _NOTES, text, most, self._zone)
        hits = (NoteHit(*astuple(hit), note=self._notes[hit.entry.turn]) for hit in found.hits)
        return FoundNotes(tuple(hits), found.total)
