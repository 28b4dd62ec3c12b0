"""The making of vectors, in the background: a few messages at a time, the newest first."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from bot.ports import Processes
from memory.record.database import Database
from memory.record.store import Store
from memory.tasks import BackgroundTasks
from plugins.recall import encoder, record

log = logging.getLogger(__name__)

FILL = "recall.fill"
"""The call by which a process asks the one that makes the vectors, where there are several."""
_BATCH = 8  # messages


class Filling:
    """Makes the vectors that are missing where the setting is on, and deletes all where it is
    off."""

    def __init__(self, store: Store, processes: Processes, is_on: Callable[[], bool]) -> None:
        self._store, self._processes, self._is_on = store, processes, is_on
        self._tasks = BackgroundTasks()
        self._model: encoder.Encoder | None = None
        self._is_told = False

    async def look(self) -> None:
        """Begin, if there is anything to do."""
        if not self._tasks:
            self._tasks.start(self._try(), "recall")

    async def carry_out(self, body: bytes) -> bytes:
        """Do the same for another process."""
        await self.look()
        return b""

    async def idle(self) -> None:
        """Wait until nothing is under way."""
        await self._tasks.idle()

    async def stop(self) -> None:
        """End; what is left is done after the next start."""
        await self._tasks.close()

    async def _try(self) -> None:
        try:
            await self._keep_up()
        except Exception:
            log.exception("vectors of messages could not be made; it is tried again in a minute")

    async def _keep_up(self) -> None:
        if not self._is_on():
            if self._model:
                encoder.unload()
                self._model = None
            if await self._store.read(record.has_any):
                await self._store.write(record.delete_all, is_synced=False, is_long=True)
        elif await self._load() and await self._is_here():
            while self._is_on() and await self._fill_some():
                pass

    async def _load(self) -> bool:
        if self._model is None and encoder.is_installed():
            self._model = await asyncio.to_thread(encoder.load)
        if self._model is None and not self._is_told:
            self._is_told = True
            log.warning("search.semantic is on, but its packages are missing; see doctor.")
        return self._model is not None

    async def _is_here(self) -> bool:
        """Return whether it is this process that makes the vectors, or have the one begin that
        does."""
        return await self._processes.call_owner("recall", FILL, b"") is None

    async def _fill_some(self) -> bool:
        """Make the next few vectors; return whether there were any to make."""
        missing = await self._store.read(lambda db: record.read_missing(db, _BATCH))
        if not (missing and self._model):
            return False
        made = await asyncio.to_thread(encoder.to_vectors, self._model, [t for _, t in missing])
        rows = [(place, row) for (place, _), row in zip(missing, made, strict=True)]

        def insert(database: Database) -> None:
            record.insert(database, rows)

        await self._store.write(insert, is_synced=False, is_long=True)
        return True
