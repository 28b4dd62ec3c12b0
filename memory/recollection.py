"""What an audience remembers: its daily memory files, and all that was said in its conversations.

Nobody reads another audience's: every method works on one audience alone.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from memory.record import daily, search, summaries, transcript
from memory.record.daily import Note
from memory.record.search import Gathered, Span, spans
from memory.room import Room


@dataclass(frozen=True, slots=True)
class NoteHit:
    """A part of a daily file that holds some of the words, and where they stand, in order."""

    note: Note
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Remembered:
    """The best hits in the daily files, with how many there are, and in the transcripts."""

    notes: tuple[NoteHit, ...]
    total_notes: int
    said: Gathered


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """`size` in bytes; `pending` counts the summaries that are on their way to the files."""

    folder: Path
    days: tuple[date, ...]
    size: int
    conversations: int
    pending: int


class Recollection:
    """Reads; nothing here changes anything."""

    def __init__(self, room: Room, audience: str) -> None:
        self._room, self._audience = room, audience

    async def days(self) -> list[date]:
        """The days that have a file, oldest first."""
        return await asyncio.to_thread(daily.days, self._room.data, self._audience)

    async def notes(self, day: date) -> list[Note]:
        """What is in a day's file, in order."""
        return await asyncio.to_thread(self._notes, day)

    async def search(self, words: Sequence[str], most: int) -> Remembered:
        """What holds the most of these words, the newest first among equals."""
        said = await self._room.store.read(
            lambda db: search.search_audience(db, self._audience, words, most)
        )
        hits = await asyncio.to_thread(self._hits, [word.casefold() for word in words])
        best = heapq.nlargest(most, hits, key=lambda hit: (len(hit.spans), hit.note.day))
        return Remembered(tuple(best), len(hits), said)

    async def status(self) -> MemoryStatus:
        """How much there is, and what is still to come."""
        pending = await self._room.store.read(lambda db: summaries.pending(db, self._audience))
        keys = await self._room.store.read(lambda db: transcript.of_audience(db, self._audience))
        days = await self.days()
        folder = daily.folder(self._room.data, self._audience)
        size = sum((folder / f"{day}.md").stat().st_size for day in days)
        return MemoryStatus(folder, tuple(days), size, len(keys), pending)

    def _notes(self, day: date) -> list[Note]:
        return list(daily.notes(self._room.data, self._audience, day))

    def _hits(self, wanted: Sequence[str]) -> list[NoteHit]:
        """Parts of all files with any of the folded words, the newest day first."""
        days = reversed(daily.days(self._room.data, self._audience))
        parts = ((note, spans(note.text, wanted)) for day in days for note in self._notes(day))
        return [NoteHit(note, tuple(where)) for note, where in parts if where]
