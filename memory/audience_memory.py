"""The memory of an audience: its daily memory files, and the messages of its conversations.

Audiences are isolated: every method of `AudienceMemory` works on one only. `Indexer` keeps the
search index current. `Quarantine` holds, for all audiences, the sections derived from content from
outside until an owner has reviewed them; no model tool reads it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from memory.long_term import ended
from memory.long_term.document import facts, parse
from memory.record import branches, conversations, daily, memory_file, search, summaries, transcript
from memory.record.daily import FoundNotes, Note, NoteSearch
from memory.record.database import Database
from memory.record.memory_file import NAME as MEMORY
from memory.record.memory_file import MemoryFileError
from memory.record.search import SearchHits, index
from memory.record.search.corrected import CorrectionBook, Corrections
from memory.record.search.reach import Scope
from memory.record.store import Store
from memory.services import MemoryServices
from memory.tasks import BackgroundTasks, TaskProgress

log = logging.getLogger(__name__)

TURNS = 25
"""The number of ended turns, in all conversations, after which messages are indexed; a search does
not wait for that many."""


class Indexer:
    """The indexer of a store, shared by all of its conversations."""

    def __init__(self, store: Store, corrections: CorrectionBook) -> None:
        self._store, self.notes, self.corrections = store, NoteSearch(), corrections
        self._waiting: list[int] = []
        self._tasks = BackgroundTasks()

    def turn_ended(self, conversation: int) -> None:
        """Record that a turn ended in the conversation of this row."""
        self._waiting.append(conversation)
        if len(self._waiting) >= TURNS and not self._tasks:
            waiting, self._waiting = set(self._waiting), []
            self._tasks.start(self._index(waiting), "index")

    async def catch_up(self, audience: str) -> None:
        """Index all messages of an audience's conversations so far. Raises StoreError."""
        for row in await self._store.read(lambda db: index.list_unindexed(db, audience)):
            await self._index_one(row)

    async def catch_up_all(self, progress: TaskProgress) -> None:
        """Index all messages. Raises StoreError."""
        waiting = await self._store.read(index.count_unindexed)
        done, total = 0, sum(missing for _, missing in waiting)
        for row, missing in waiting:
            await self._index_one(row)
            done += missing
            progress.show_progress(done, total)

    async def idle(self) -> None:
        """Wait until no batch is running."""
        await self._tasks.idle()

    async def close(self) -> None:
        """Stop; the rest is indexed before a search."""
        await self._tasks.stop()

    async def _index(self, conversations: set[int]) -> None:
        try:
            for row in sorted(conversations):
                await self._index_one(row)
        except Exception:
            log.exception("what was said could not be indexed; the next search tries again")

    async def _index_one(self, row: int) -> None:
        def batch(db: Database) -> bool:
            return index.catch_up(db, row)

        while await self._store.write(batch, is_synced=False, is_long=True):
            pass  # each batch in a transaction of its own, so that others come in between
        await self._store.read(lambda db: self.corrections.of(db, row))


class MemorySearchResult(Struct, frozen=True):
    """The best results of a search: in the daily files, and in messages."""

    notes: FoundNotes
    said: SearchHits


class MemoryStatus(Struct, frozen=True):
    """The status of a memory. `size` is in bytes; `pending` counts the summaries that are still to
    be written to the files."""

    folder: Path
    days: tuple[date, ...]
    size: int
    conversations: int
    pending: int


class AudienceMemory:
    """Reads and searches an audience's memory."""

    def __init__(self, services: MemoryServices, indexer: Indexer, scope: Scope) -> None:
        self._services, self._indexer, self._scope = services, indexer, scope
        self._audience = scope.audience

    async def days(self) -> list[date]:
        """Return the days that have a file, oldest first."""
        return await asyncio.to_thread(daily.days, self._services.data, self._audience)

    async def notes(self, day: date) -> list[Note]:
        """Return the notes of a day's file, in order, with corrected values: as the model reads
        them."""
        return await asyncio.to_thread(lambda: self._with_corrections(self._notes(day)))

    async def titles(self, homes: Iterable[str]) -> dict[str, str]:
        """Return the given titles of chats, or the beginnings of their first messages."""

        def read(database: Database) -> dict[str, str]:
            own = {key.home for key in conversations.of_audience(database, self._audience)}
            found = {home: branches.of_chat(database, home) for home in own.intersection(homes)}
            return {home: rows[0].title for home, rows in found.items() if rows}

        return await self._services.store.read(read)

    async def search(self, text: str, most: int) -> MemorySearchResult:
        """Search for a person, who also finds cleared messages. A text without words is searched
        literally if nothing else is found."""
        found = await self._find(replace(self._scope, is_model=False), text, most)
        if found.said.total or found.notes.total:
            return found
        read, audience = self._services.store.read, self._audience
        corrections = await self._corrections()
        names = await read(lambda db: {c.row: c.name for c in index.conversations(db, audience)})
        hits = await read(
            lambda db: search.scan(
                db, names, text.split(), most, transcript.own_entries, corrections
            )
        )
        return replace(found, said=hits)

    async def recall(self, text: str, most: int) -> MemorySearchResult:
        """Search for the model, without cleared messages and the running turn."""
        return await self._find(replace(self._scope, is_model=True), text, most)

    async def _find(self, scope: Scope, text: str, most: int) -> MemorySearchResult:
        zone, read = self._services.rules.zone(), self._services.store.read
        likeness, corrections = self._services.likeness, await self._corrections()

        def find(database: Database) -> SearchHits:
            return search.find(database, scope, text, most, zone, likeness, corrections)

        def find_if_indexed(database: Database) -> SearchHits | None:
            return None if index.list_unindexed(database, scope.audience) else find(database)

        if (hits := await read(find_if_indexed)) is None:
            await self._indexer.catch_up(scope.audience)
            hits = await read(find)
        return MemorySearchResult(await asyncio.to_thread(self._find_notes, text, most), hits)

    async def _corrections(self) -> Corrections:
        data, audience = self._services.data, self._audience
        values = await asyncio.to_thread(ended.stored, data, audience)
        return Corrections(self._indexer.corrections, values)

    def _find_notes(self, text: str, most: int) -> FoundNotes:
        days = daily.days(self._services.data, self._audience)
        everything = [note for day in days for note in self._notes(day)]
        everything = self._with_corrections([*everything, *self._lines()])
        zone = self._services.rules.zone()
        return self._indexer.notes.find(self._audience, everything, text, most, zone)

    async def status(self) -> MemoryStatus:
        """Return the size of the memory, and the pending summaries."""
        pending = await self._services.store.read(
            lambda db: summaries.count_pending(db, self._audience)
        )
        keys = await self._services.store.read(
            lambda db: conversations.of_audience(db, self._audience)
        )
        days = await self.days()
        folder = daily.folder(self._services.data, self._audience)
        size = sum((folder / f"{day}.md").stat().st_size for day in days)
        return MemoryStatus(folder, tuple(days), size, len(keys), pending)

    def _lines(self) -> list[Note]:
        """Return the lines of `MEMORY.md`; a line without a date gets the day of the file's last
        change."""
        path = memory_file.path_of(self._services.data, self._audience)
        version = memory_file.version_of(path)
        with suppress(MemoryFileError):
            changed = datetime.fromtimestamp(version.changed / 1e9 if version else 0, UTC).date()
            found = facts(parse(memory_file.read(path)))
            return [Note(_day(line.said) or changed, line.text, turns=MEMORY) for line in found]
        return []

    def _with_corrections(self, notes: list[Note]) -> list[Note]:
        ended_values = ended.read(ended.path_of(self._services.data, self._audience))
        if not ended_values:
            return notes
        return [replace(note, text=ended.show_note(note, ended_values)) for note in notes]

    def _notes(self, day: date) -> list[Note]:
        return list(daily.notes(self._services.data, self._audience, day))


def _day(day: str) -> date | None:
    try:
        return date.fromisoformat(day) if day else None
    except ValueError:
        return None  # a person wrote an impossible date


class WaitingSection(Struct, frozen=True):
    """A section that waits for review, with its audience."""

    audience: str
    note: Note


class Quarantine:
    """Lists, releases and rejects sections that wait for review. The commands check who may do
    that. `on_release` is called with the conversation of a released section."""

    def __init__(
        self, services: MemoryServices, on_release: Callable[[str], Awaitable[None]]
    ) -> None:
        self._services, self._on_release = services, on_release

    async def list_waiting(self, audience: str = "") -> list[WaitingSection]:
        """Return the waiting sections of an audience or ("") of all, in the order of their
        summaries."""

        def read() -> list[WaitingSection]:
            place = daily.quarantine(self._services.data)
            whose = [audience] if audience else daily.audiences(place)
            found = [
                WaitingSection(one, note)
                for one in whose
                for day in daily.days(place, one)
                for note in daily.notes(place, one, day)
                if note.job
            ]
            return sorted(found, key=lambda one: one.note.job)

        return await asyncio.to_thread(read)

    async def release(self, one: WaitingSection) -> None:
        """Move a section to its audience's daily memory."""
        data, job = self._services.data, one.note.job
        if await asyncio.to_thread(daily.release, data, one.audience, job):
            await self._services.store.write(lambda db: summaries.mark_reviewed(db, job))
            await self._on_release(one.note.conversation)

    async def reject(self, one: WaitingSection) -> None:
        """Delete a section."""
        place, which = (
            daily.quarantine(self._services.data),
            daily.SectionFilter(frozenset({one.note.job})),
        )
        await asyncio.to_thread(daily.remove, place, one.audience, which)
