"""Pictures that a command has made: found among the files of a chat, to be shown in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from heapq import nlargest
from pathlib import Path

from msgspec import Struct

from agent.pictures import find_picture_type
from agent.tools import ToolError
from agent.tools.allowance import refusal
from agent.tools.workspace import WRITABLE, files_below, open_file

MOST = 4
"""Pictures of one command that are shown, the newest."""
LARGEST = 5_000_000
"""Bytes of one."""
_ENDINGS = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_COARSE = 20_000_000  # nanoseconds by which the clock of files may be behind


class MadePicture(Struct, frozen=True):
    """A picture as it was when the command had ended; `path` is where it stands in `files/`."""

    path: str
    media_type: str
    content: bytes


def find_made(workspace: Path, since: int, megabytes: int) -> list[MadePicture]:
    """The pictures that were written since then (in nanoseconds since 1970), as many as may be
    shown and kept. What looks like one and is a link, or something else, is none."""
    newest = nlargest(MOST, _changed(workspace, since))
    made = [_read(workspace, path) for _, path in reversed(newest)]
    found = [picture for picture in made if picture is not None]
    return [] if refusal(workspace, megabytes, sum(len(p.content) for p in found)) else found


def _changed(workspace: Path, since: int) -> Iterator[tuple[int, Path]]:
    with suppress(OSError):
        for path in files_below(workspace, workspace / WRITABLE):
            if not path.name.lower().endswith(_ENDINGS):
                continue
            with suppress(OSError):  # it left while we walked
                state = path.stat(follow_symlinks=False)
                if state.st_ctime_ns >= since - _COARSE and 0 < state.st_size <= LARGEST:
                    yield state.st_ctime_ns, path


def _read(workspace: Path, path: Path) -> MadePicture | None:
    try:
        with open_file(workspace, path) as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(LARGEST + 1) if size <= LARGEST else b""
    except (ToolError, OSError):
        return None
    media_type = find_picture_type(content)
    if not media_type or len(content) > LARGEST:
        return None
    return MadePicture(path.relative_to(workspace).as_posix(), media_type, content)
