"""The files of conversations, kept up to date where the settings say so.

All are written anew as a whole, which costs in proportion to the conversation. So it is done off
the turn's path, for many changes together, and takes at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress

from memory.keys import Scope
from memory.mirror import WHOLE, Mirror, Mirrored
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from plugins.context_files import writing
from plugins.context_files.settings import ContextFilesSettings
from plugins.context_files.writing import Written

log = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds from a change until it is in the files, so that several are written at once."""
_REST = 20  # times as long as the writing took, before the next


async def write_files(conversation: Mirrored, *, is_readable: bool = False) -> Written:
    """Write what was said, and a line for each turn, into a conversation's folder. `is_readable`:
    also as Markdown. Raises OSError."""
    name, hide = conversation.key.id, conversation.hide
    title = (await conversation.title() or name) if is_readable else ""
    return await conversation.write_turns(
        lambda folder, turns: writing.write(folder, turns, name, hide, title)
    )


def _is_kept(conversation: Mirrored) -> bool:
    section = conversation.limits.context
    return isinstance(section, ContextFilesSettings) and section.context_files


class FileMirror(Mirror):
    """Keeps the files of those conversations up to date that are touched."""

    def __init__(self) -> None:
        self._touched: dict[str, Mirrored] = {}
        self._tasks = BackgroundTasks()
        self._followed: set[str] = set()
        self._hurry = asyncio.Event()

    def touch(self, conversation: Mirrored) -> None:
        """Something was said in the conversation, or forgotten: its files are due, where they are
        wanted."""
        if not _is_kept(conversation):
            return
        name = conversation.key.id
        self._touched[name] = conversation
        if name not in self._followed:
            self._followed.add(name)
            self._tasks.start(self._follow(name), f"files {name}")

    async def renew(self, conversation: Mirrored) -> None:
        """Write the files anew where they are kept, or were exported. Raises OSError."""
        exported = conversation.folder / WHOLE
        if _is_kept(conversation) or await asyncio.to_thread(exported.exists):
            await write_files(conversation)

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
                if (conversation := self._touched.pop(name, None)) is not None:
                    await _try(conversation)
                pause = max(PAUSE, _REST * (time.monotonic() - started))
        finally:
            self._followed.discard(name)


async def _try(conversation: Mirrored) -> None:
    try:
        await write_files(conversation)
    except (OSError, StoreError):
        log.exception("the files of %s could not be written", conversation.key.id)
