"""The files of a conversation (flo.monster's two, and one for people): written when asked for, or
kept up to date.

All are written anew as a whole, which costs in proportion to the conversation. So it is done off
the turn's path, for many changes together, and takes at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from memory.keys import Scope
from memory.record import exchange, fence, offload
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from memory.turns import Turn

log = logging.getLogger(__name__)

WHOLE, TERSE, READABLE = "context.json", "context.terse.json", "context.md"
PAUSE = 1.0
"""Seconds from a change until it is in the files, so that several are written at once."""
_REST = 20  # times as long as the writing took, before the next


class Written(Struct, frozen=True):
    """The files that were written, and the turns and messages in them; no files where no turn is
    complete."""

    files: tuple[Path, ...]
    turns: int
    messages: int


def write(
    folder: Path,
    turns: Sequence[Turn],
    conversation: str,
    hide: Callable[[str], str],
    title: str = "",
) -> Written:
    """Write both files of the complete turns, and the one for people where it is wanted (under a
    `title`) or there is one, without what `hide` takes out of each text; readers see the old
    content or the new. Raises OSError."""
    turns = [turn for turn in turns if turn.is_complete]
    if not turns:
        fence.confirm()
        for name in (WHOLE, TERSE, READABLE):
            (folder / name).unlink(missing_ok=True)  # what stood there was taken away
        return Written((), 0, 0)
    folder.mkdir(parents=True, exist_ok=True)
    contents = {
        WHOLE: exchange.serialize(_hide(exchange.as_data(turns, conversation), hide)),
        TERSE: exchange.serialize(_hide(exchange.as_terse(turns, conversation), hide)),
    }
    if title or (folder / READABLE).exists():
        readable = exchange.as_markdown(turns, title or conversation, hide)
        contents[READABLE] = readable.encode()
    for name, content in contents.items():
        offload.write_whole(folder / name, content)
    paths = tuple(folder / name for name in contents)
    return Written(paths, len(turns), sum(len(turn.entries) for turn in turns))


def _hide(data: Any, hide: Callable[[str], str]) -> Any:
    """Return the data with each text in it as `hide` leaves it."""
    if isinstance(data, str):
        return hide(data)
    if isinstance(data, dict):
        return {name: _hide(value, hide) for name, value in data.items()}
    return [_hide(value, hide) for value in data] if isinstance(data, list | tuple) else data


Write = Callable[[], Awaitable[Written]]


class Mirror:
    """Keeps the files of those conversations up to date that are touched."""

    def __init__(self) -> None:
        self._touched: dict[str, Write] = {}
        self._tasks = BackgroundTasks()
        self._followed: set[str] = set()
        self._hurry = asyncio.Event()

    def touch(self, name: str, write: Write) -> None:
        """Something was said in the conversation of this name, or forgotten: its files are due."""
        self._touched[name] = write
        if name not in self._followed:
            self._followed.add(name)
            self._tasks.start(self._follow(name), f"files {name}")

    async def settle(self) -> None:
        """Write now what is due."""
        self._hurry.set()
        await self._tasks.idle()
        self._hurry.clear()

    def drop(self, is_meant: Scope) -> None:
        """Others keep the files of these conversations from now on."""
        for name in [name for name in self._touched if is_meant(name)]:
            del self._touched[name]

    async def close(self) -> None:
        """Stop; what is due is written with the next change."""
        await self._tasks.close()

    async def _follow(self, name: str) -> None:
        pause = PAUSE
        try:
            while name in self._touched:
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._hurry.wait()
                started = time.monotonic()
                if (write := self._touched.pop(name, None)) is not None:
                    await _try(write, name)
                pause = max(PAUSE, _REST * (time.monotonic() - started))
        finally:
            self._followed.discard(name)


async def _try(write: Write, name: str) -> None:
    try:
        await write()
    except (OSError, StoreError):
        log.exception("the files of %s could not be written", name)
