"""The hooks of the search by meaning, with its background work and the comparison."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from bot.app import Kernel
from bot.ports import Processes
from memory.record.database import Database
from memory.record.feature_tables import Step
from memory.record.search.index import Ranges
from memory.record.search.likeness import Likeness
from memory.record.search.ranking import NO_LIKENESS
from memory.record.search.words import words
from memory.record.store import Store
from memory.tasks import BackgroundTasks
from plugins.api import hookimpl
from plugins.hookspecs import Background
from plugins.recall import encoder, record
from plugins.recall.encoder import DIMENSIONS, Encoder, find_loaded
from plugins.recall.record import TABLES
from plugins.recall.settings import SearchSettings

log = logging.getLogger(__name__)

FILL = "recall.fill"
"""The call to the process that makes the vectors, if there are several processes."""
_BATCH = 8  # messages


class VectorBackfill:
    """Makes missing vectors if the setting is on, a few messages at a time, newest first; deletes
    all if it is off."""

    def __init__(self, store: Store, processes: Processes, is_on: Callable[[], bool]) -> None:
        self._store, self._processes, self._is_on = store, processes, is_on
        self._tasks = BackgroundTasks()
        self._model: encoder.Encoder | None = None
        self._is_told = False

    @hookimpl
    def parley_background(self) -> Background:
        return self

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {FILL: self.carry_out}

    async def start_if_due(self) -> None:
        """Start the work, unless it is running."""
        if not self._tasks:
            self._tasks.start(self._try(), "recall")

    async def carry_out(self, body: bytes) -> bytes:
        """Start the work for another process."""
        await self.start_if_due()
        return b""

    async def idle(self) -> None:
        """Wait until no work is running."""
        await self._tasks.idle()

    async def stop(self) -> None:
        """Stop; the rest is done after the next start."""
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
        """Return whether this process makes the vectors; if not, trigger the one that does."""
        return await self._processes.call_owner("recall", FILL, b"") is None

    async def _fill_some(self) -> bool:
        """Make the next few vectors; return whether any were missing."""
        missing = await self._store.read(lambda db: record.read_missing(db, _BATCH))
        if not (missing and self._model):
            return False
        made = await asyncio.to_thread(encoder.to_vectors, self._model, [t for _, t in missing])
        rows = [(place, row) for (place, _), row in zip(missing, made, strict=True)]

        def insert(database: Database) -> None:
            record.insert(database, rows)

        await self._store.write(insert, is_synced=False, is_long=True)
        return True


_AT_ONCE = 250  # vectors that are compared together, to fit the processor's cache


class VectorLikeness(Likeness):
    """Compares the existing vectors, once the model is loaded."""

    def compare(
        self, database: Database, text: str, names: Collection[str], ranges: Ranges
    ) -> Mapping[int, float]:
        model = find_loaded()
        vectors = record.read(database, ranges) if model else {}
        return find_nearest(model, without(text, names), vectors) if model else NO_LIKENESS


def without(text: str, names: Collection[str]) -> str:
    """Return a text without the words that begin with one of these names ("Anna", "Anna's"); all of
    it if it has no others. Speakers are in many messages and carry no meaning."""
    kept = (part for part in text.split() if names_none(part, names))
    return " ".join(kept) or text


def names_none(part: str, names: Collection[str]) -> bool:
    return not any(word in names for word in words(part)[:1])


def find_nearest(model: Encoder, text: str, vectors: Mapping[int, bytes]) -> dict[int, float]:
    """Return the places whose vectors are nearer to a text's than the mean, each with the number of
    standard deviations. For a message in several pieces, the nearest counts."""
    import numpy  # noqa: PLC0415 - only if the setting is on

    if len(vectors) < 2 or not text.strip():
        return {}
    asked = model.encode([text])[0]
    rows = numpy.frombuffer(b"".join(vectors.values()), "int8").reshape(-1, DIMENSIONS)
    parts = range(0, len(rows), _AT_ONCE)
    near = numpy.concatenate([rows[n : n + _AT_ONCE].astype("float32") @ asked for n in parts])
    pieces = [len(one) // DIMENSIONS for one in vectors.values()]
    if len(rows) > len(pieces):
        begins = numpy.cumsum([0, *pieces[:-1]])
        near = numpy.maximum.reduceat(near, begins)
    deviation = float(near.std())
    if not deviation:
        return {}
    apart = ((near - near.mean()) / deviation).tolist()
    return {place: far for place, far in zip(vectors, apart, strict=True) if far > 0}


@hookimpl
def parley_open(kernel: Kernel) -> VectorBackfill:
    def is_on() -> bool:
        return kernel.config.book.effective().section(SearchSettings).semantic

    filling = VectorBackfill(kernel.store, kernel.processes, is_on)
    kernel.schedule.every_minute(filling.start_if_due)
    return filling


@hookimpl
def parley_likeness() -> type[Likeness]:
    return VectorLikeness


@hookimpl
def parley_tables() -> Sequence[Step]:
    return TABLES
