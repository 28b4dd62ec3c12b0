"""The files of a conversation (flo.monster's two, and one for people): written when asked for, or
kept up to date.

`context.json` holds the whole history, a message an entry, tagged with its turn's id;
`context.terse.json` the activity log, an entry for each line.

All are written anew as a whole, which costs in proportion to the conversation. So it is done off
the turn's path, for many changes together, and takes at most a twentieth of the time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from memory.context.lines import lines_of
from memory.keys import Scope
from memory.messages import Message
from memory.plain_text import literal
from memory.record import fence, offload
from memory.record.store import StoreError
from memory.tasks import BackgroundTasks
from memory.turns import Entry, Turn

log = logging.getLogger(__name__)

WHOLE, TERSE, READABLE = "context.json", "context.terse.json", "context.md"
FORMAT = "parley-context"
VERSION = 1
SAME = ("tool", "speaker", "reasoning", "is_error", "is_untrusted", "is_tainted", "mark", "terse")
"""The fields that a message in the file has by the same name as a `Message`."""
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
        WHOLE: serialize(_hide(as_data(turns, conversation), hide)),
        TERSE: serialize(_hide(as_terse(turns, conversation), hide)),
    }
    if title or (folder / READABLE).exists():
        readable = as_markdown(turns, title or conversation, hide)
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


def as_data(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """Return the content of `context.json`; defaults are left out of each message."""
    return {
        **_head(conversation),
        "messages": [_entry(turn, entry) for turn in turns for entry in turn.entries],
    }


def as_terse(turns: Iterable[Turn], conversation: str) -> dict[str, Any]:
    """Return the content of `context.terse.json`: the lines of each turn, with their times in
    UTC."""
    entries = [
        {
            "timestamp": line.at.astimezone(UTC).isoformat(),
            "turnId": turn.id,
            "role": line.role,
            "summary": line.text,
        }
        for turn in turns
        for line in lines_of(turn)
    ]
    return {**_head(conversation), "entries": entries}


def as_markdown(turns: Iterable[Turn], title: str, hide: Callable[[str], str]) -> str:
    """Return the conversation to be read by people: what was said, and which tools were used."""
    now = datetime.now(UTC)
    pieces = [f"# {literal(hide(title))}", f"Exported from Parley on {now:%Y-%m-%d at %H:%M} UTC."]
    for turn in turns:
        pieces.append(f"## {turn.id} · {turn.entries[0].at.astimezone(UTC):%Y-%m-%d %H:%M} UTC")
        for entry in turn.entries:
            pieces += paragraphs(entry.message)
    return hide("\n\n".join(pieces)) + "\n"


def paragraphs(message: Message) -> list[str]:
    """Return a message as people read it; nothing of what tools returned."""
    if message.role == "user":
        return [f"**{literal(message.speaker) or 'You'}:**", message.text]
    if message.role != "assistant":
        return []
    used = [f"*used `{call.name}`*" for call in message.tool_calls]
    return [*(["**Parley:**", message.told] if message.told else []), *used]


def serialize(data: Mapping[str, Any]) -> bytes:
    """Return a file's content."""
    return orjson.dumps(data, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _head(conversation: str) -> dict[str, Any]:
    now = datetime.now(UTC).isoformat()
    return {"format": FORMAT, "version": VERSION, "conversation": conversation, "exported": now}


def _entry(turn: Turn, entry: Entry) -> dict[str, Any]:
    """Return the fields of a message; what is empty is left out."""
    message = entry.message
    fields = {
        "turnId": turn.id,
        "role": message.role,
        "content": message.text,
        "timestamp": entry.at.isoformat(),
        "tool_calls": [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            for call in message.tool_calls
        ],
        "tool_call_id": message.call_id,
        **{name: getattr(message, name) for name in SAME},
        "images": [
            {"sha256": image.sha256, "media_type": image.media_type} for image in message.images
        ],
    }
    return {name: value for name, value in fields.items() if value}


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
