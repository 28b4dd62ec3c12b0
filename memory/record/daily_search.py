"""Search in the parts of daily files, ranked just as what was said is.

People may edit the files, so nothing of them is kept on disk: their parts stand in a database in
memory, as if each day were a conversation. It lasts from one search to the next, since files mostly
grow at their end.
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
"""Audiences whose notes stay in memory: those that were searched last."""
_NOTES = Scope("notes")


class NoteHit(Hit, frozen=True, kw_only=True):
    """A part of a daily file that was found."""

    note: Note


class FoundNotes(Struct, frozen=True):
    """The best hits, and how many notes hold any of the words."""

    hits: tuple[NoteHit, ...] = ()
    total: int = 0


class NoteSearch:
    """The search of the notes, for all audiences; it may be asked in any thread."""

    def __init__(self) -> None:
        self._indexed: OrderedDict[str, _IndexedNotes] = OrderedDict()
        self._one_at_a_time = threading.Lock()

    def find(
        self, audience: str, notes: Sequence[Note], text: str, most: int, zone: tzinfo
    ) -> FoundNotes:
        """Find the notes that answer a text best among all notes of an audience, given by day."""
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
        """Forget an audience's index, since what is in no file any more stays in no memory
        either."""
        with self._one_at_a_time:
            if indexed := self._indexed.pop(audience, None):
                indexed.close()


class _IndexedNotes:
    """Notes in a database in memory, each as the turn of its own number."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone, self._database = zone, in_memory(is_shared=True)
        self._notes: list[Note] = []
        self._by_day: dict[date, list[Note]] = {}

    def may_become(self, by_day: Mapping[date, Sequence[Note]], zone: tzinfo) -> bool:
        """Return whether nothing but additions at the end of days make these notes of what is
        here."""
        return zone == self._zone and all(
            by_day.get(day, ())[: len(there)] == there for day, there in self._by_day.items()
        )

    def add(self, by_day: Mapping[date, Sequence[Note]]) -> None:
        """Index what is not here yet."""
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
