"""What waits until an owner has looked through it: summaries that were made from what came from
outside, of all audiences. No tool of a model reaches here, and no search."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from memory.record import daily, summaries
from memory.record.daily import Note
from memory.services import MemoryServices


@dataclass(frozen=True, slots=True)
class Waiting:
    """A section that waits, and whose it is."""

    audience: str
    note: Note


class Quarantine:
    """Shows and settles what waits. Who may do that is for the commands to say. `on_release` hears
    in which conversation something was let in."""

    def __init__(
        self, services: MemoryServices, on_release: Callable[[str], Awaitable[None]]
    ) -> None:
        self._services, self._on_release = services, on_release

    async def waiting(self, audience: str = "") -> list[Waiting]:
        """What waits, of an audience or ("") of all, in the order in which it was summarised."""

        def read() -> list[Waiting]:
            place = daily.quarantine(self._services.data)
            whose = [audience] if audience else daily.audiences(place)
            found = [
                Waiting(one, note)
                for one in whose
                for day in daily.days(place, one)
                for note in daily.notes(place, one, day)
                if note.job
            ]
            return sorted(found, key=lambda one: one.note.job)

        return await asyncio.to_thread(read)

    async def release(self, one: Waiting) -> None:
        """Let a section into its audience's daily memory."""
        data, job = self._services.data, one.note.job
        if await asyncio.to_thread(daily.release, data, one.audience, job):
            await self._services.store.write(lambda db: summaries.trust(db, job))
            await self._on_release(one.note.conversation)

    async def reject(self, one: Waiting) -> None:
        """Delete a section."""
        place, which = daily.quarantine(self._services.data), daily.Which(frozenset({one.note.job}))
        await asyncio.to_thread(daily.remove, place, one.audience, which)
