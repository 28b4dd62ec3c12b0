"""The interface of what writes a conversation's files: all that was said in it, where the model's
tools and people may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from memory.context.limits import Limits
from memory.keys import ConversationKey, Scope
from memory.record import fence
from memory.turns import Turn

WHOLE, TERSE, READABLE = "context.json", "context.terse.json", "context.md"
"""The names of the files, in the folder of their conversation."""

T = TypeVar("T")


class MirroredConversation(Protocol):
    """A conversation, as its files are written from it; `hide` takes secrets out of a text."""

    @property
    def key(self) -> ConversationKey: ...

    @property
    def folder(self) -> Path: ...

    @property
    def limits(self) -> Limits: ...

    @property
    def hide(self) -> Callable[[str], str]: ...

    async def title(self) -> str: ...

    async def write_turns(self, write: Callable[[Path, Sequence[Turn]], T]) -> T:
        """Have `write` put what was said into the conversation's folder, without what a person
        removed. Raises OSError."""
        ...


class Mirror:
    """Keeps the files of conversations up to date. This one keeps none; a feature brings one that
    does (hook `parley_mirror`)."""

    def touch(self, conversation: MirroredConversation) -> None:
        """Note that something was said in a conversation, or forgotten."""

    async def renew(self, conversation: MirroredConversation) -> None:
        """Write the files of a conversation anew, where it has some: turns were removed, or brought
        back. Raises OSError."""
        await asyncio.to_thread(remove_files, conversation.folder)

    async def flush(self) -> None:
        """Write all pending files now."""

    def drop(self, is_meant: Scope) -> None:
        """Stop updating these conversations, which other processes own from now on."""

    async def close(self) -> None:
        """Stop; pending files are written with the next change."""


def remove_files(folder: Path) -> None:
    """Delete the files of a conversation."""
    fence.check_may_write()
    for name in (WHOLE, TERSE, READABLE):
        (folder / name).unlink(missing_ok=True)
