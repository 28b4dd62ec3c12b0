"""The files of an audience, as its people see them: those they sent, and those that tools wrote."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from heapq import nlargest
from pathlib import Path

from msgspec import Struct

from agent.pictures import find_picture_type
from agent.tools import ToolError
from agent.tools.allowance import PICTURES, measure_room
from agent.tools.workspace import WRITABLE, files_below, open_file, resolve
from bot.attachments import Stored, store
from bot.runtime import RuntimeConfig
from channels.base import OpenedFile, StoredFile, WorkspaceFiles
from channels.message import Attachment
from memory.keys import ConversationKey
from memory.record.offload import SESSIONS, write_whole
from memory.services import READABLE, TERSE, WHOLE

MOST = 500
"""The maximum number of listed files, the newest."""
_KEPT = re.compile(r"[0-9a-f]{64}(\.\w{1,10})?")  # names of files stored by their hash
_NO_TEXT = re.compile("[\ud800-\udfff]")  # bytes of a name that are no Unicode
ANSWER = "answer-t"
"""The name prefix of the file with a turn's spoken answer. It is in the folder of its conversation,
and is deleted with it."""
_SPOKEN = re.compile(ANSWER + r"(\d{1,18})\.(?:ogg|mp3)")
_BEGINNING = 16  # bytes that identify a picture, or a sound
_SOUNDS = {
    b"OggS": "audio/ogg",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\xff\xf2": "audio/mpeg",
    b"\x1aE\xdf\xa3": "audio/webm",
    b"fLaC": "audio/flac",
}


class Workspaces(Struct, frozen=True):
    """The folders of all audiences."""

    config: RuntimeConfig

    async def keep(
        self, key: ConversationKey, attachments: Sequence[Attachment]
    ) -> tuple[Stored, ...]:
        """Store the files of a message. Raises AttachmentRefused."""
        return await store(self.config.workspace(key), attachments, self.config.files_quota(key))

    async def list_files(self, key: ConversationKey) -> WorkspaceFiles:
        """Return the files in `files/`, and the remaining space."""
        return await asyncio.to_thread(_list, self.config.folder(key), self.config.files_quota(key))

    async def open(self, key: ConversationKey, path: str) -> OpenedFile | None:
        """Return a file of `files/`, or one that came with a message; None if there is none."""
        return await asyncio.to_thread(_open, self.config.folder(key), path)


def _list(folder: Path, megabytes: int) -> WorkspaceFiles:
    newest = nlargest(MOST, _stored(folder), key=lambda file: file.at)
    return WorkspaceFiles(tuple(newest), measure_room(folder, megabytes))


def _stored(folder: Path) -> Iterator[StoredFile]:
    with suppress(OSError):  # nothing was written yet
        for path in files_below(folder, folder / WRITABLE):
            place = path.relative_to(folder).as_posix()
            if path.name.startswith(".") or not _is_text(place):
                continue
            with suppress(OSError):  # it was deleted meanwhile
                state = path.stat(follow_symlinks=False)
                at = datetime.fromtimestamp(state.st_mtime, UTC)
                yield StoredFile(place, state.st_size, at)


def _is_text(name: str) -> bool:
    """Return whether a name is Unicode. A command may create a file with another name, which no URL
    can hold."""
    return not _NO_TEXT.search(name)


def _open(folder: Path, path: str) -> OpenedFile | None:
    try:
        target = resolve(folder, path, must_write=False)
        if not _is_user_file(target.relative_to(folder).parts):
            return None
        with open_file(folder, target) as file:
            opened = os.fdopen(os.dup(file.fileno()), "rb")
    except (ToolError, OSError):
        return None
    start = opened.read(_BEGINNING)
    kind, sound = find_picture_type(start), find_sound_type(start)
    opened.seek(0)
    return OpenedFile(target.name, os.fstat(opened.fileno()).st_size, kind, opened, sound)


def find_sound_type(start: bytes) -> str:
    """Return the type of a sound that browsers play, by its first bytes; "" for anything else."""
    if start[:4] == b"RIFF" and start[8:12] == b"WAVE":
        return "audio/wav"
    if start[4:8] == b"ftyp":
        return "audio/mp4"
    return next((kind for beginning, kind in _SOUNDS.items() if start.startswith(beginning)), "")


def _is_user_file(parts: tuple[str, ...]) -> bool:
    """Return whether a path is a file of the people, and not the bot's memory or skills."""
    if len(parts) == 2 and parts[0] == PICTURES:
        return _KEPT.fullmatch(parts[1]) is not None
    if parts[:1] == (SESSIONS,):  # exported transcripts
        return parts[-1] in (WHOLE, TERSE, READABLE) or parts[-1].startswith(ANSWER)
    return len(parts) > 1 and parts[0] == WRITABLE


def save_spoken(folder: Path, turn: int, sound: bytes, form: str) -> Path:
    """Store the spoken answer of a turn, in this form ("opus", "mp3"), in the folder of its
    conversation. Raises OSError."""
    file = folder / f"{ANSWER}{turn}.{'ogg' if form == 'opus' else form}"
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(file, sound)
    return file.absolute()


def list_spoken(folder: Path) -> dict[int, str]:
    """Return the files with spoken answers of a conversation, by turn."""
    with suppress(OSError):  # nothing was written yet
        found = (_SPOKEN.fullmatch(path.name) for path in folder.iterdir())
        return {int(match[1]): match[0] for match in found if match}
    return {}
