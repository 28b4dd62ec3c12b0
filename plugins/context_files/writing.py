"""The files of a conversation as they are written.

`context.json` holds the whole history, a message an entry, tagged with its turn's id;
`context.terse.json` the activity log, an entry for each line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from memory.context.lines import lines_of
from memory.mirror import READABLE, TERSE, WHOLE, remove_files
from memory.plain_text import literal, paragraphs
from memory.record import offload
from memory.turns import Entry, Turn

FORMAT = "parley-context"
VERSION = 1
SAME = ("tool", "speaker", "reasoning", "is_error", "is_untrusted", "is_tainted", "mark", "terse")
"""The fields that a message in the file has by the same name as a `Message`."""


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
        remove_files(folder)  # what stood there was taken away
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
