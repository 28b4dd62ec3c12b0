"""What an audience remembers: its daily memory files, and all that was said in its conversations.

Nobody reads another audience's: every method works on one audience alone.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from memory.indexer import Indexer
from memory.record import daily, search, summaries, transcript
from memory.record.daily import Note
from memory.record.search import Found, Scope, index
from memory.services import MemoryServices


@dataclass(frozen=True, slots=True)
class Remembered:
    """What answers a search best: in the daily files, and in what was said."""

    notes: Found
    said: Found


@dataclass(frozen=True, slots=True)
class MemoryStatus:
    """`size` in bytes; `pending` counts the summaries that are on their way to the files."""

    folder: Path
    days: tuple[date, ...]
    size: int
    conversations: int
    pending: int


class AudienceMemory:
    """Reads what is remembered, and finds in it."""

    def __init__(self, services: MemoryServices, indexer: Indexer, scope: Scope) -> None:
        self._services, self._indexer, self._scope = services, indexer, scope
        self._audience = scope.audience

    async def days(self) -> list[date]:
        """The days that have a file, oldest first."""
        return await asyncio.to_thread(daily.days, self._services.data, self._audience)

    async def notes(self, day: date) -> list[Note]:
        """What is in a day's file, in order."""
        return await asyncio.to_thread(self._notes, day)

    async def search(self, text: str, most: int) -> Remembered:
        """What a person finds: also what they cleared. What is no word is looked for letter by
        letter, where nothing else is found."""
        found = await self._find(replace(self._scope, is_model=False), text, most)
        if found.said.total or found.notes.total:
            return found
        read, audience = self._services.store.read, self._audience
        names = await read(lambda db: {c.row: c.name for c in index.conversations(db, audience)})
        said = await read(lambda db: search.scan(db, names, text.split(), most))
        return replace(found, said=said)

    async def recall(self, text: str, most: int) -> Remembered:
        """What the model finds: nothing that a person cleared, and nothing of the running turn."""
        return await self._find(replace(self._scope, is_model=True), text, most)

    async def _find(self, scope: Scope, text: str, most: int) -> Remembered:
        await self._indexer.catch_up(scope.audience)
        zone = self._services.zone()
        said = await self._services.store.read(lambda db: search.find(db, scope, text, most, zone))
        return Remembered(await asyncio.to_thread(self._find_notes, text, most), said)

    def _find_notes(self, text: str, most: int) -> Found:
        days = daily.days(self._services.data, self._audience)
        everything = [note for day in days for note in self._notes(day)]
        return search.find_notes(everything, text, most, self._services.zone())

    async def status(self) -> MemoryStatus:
        """How much there is, and what is still to come."""
        pending = await self._services.store.read(lambda db: summaries.pending(db, self._audience))
        keys = await self._services.store.read(
            lambda db: transcript.of_audience(db, self._audience)
        )
        days = await self.days()
        folder = daily.folder(self._services.data, self._audience)
        size = sum((folder / f"{day}.md").stat().st_size for day in days)
        return MemoryStatus(folder, tuple(days), size, len(keys), pending)

    def _notes(self, day: date) -> list[Note]:
        return list(daily.notes(self._services.data, self._audience, day))
