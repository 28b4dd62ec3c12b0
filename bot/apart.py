"""Reading files for channels in a separate process, by the mechanism of the tools."""

from __future__ import annotations

from pathlib import Path

from agent.tools.apart import ReaderFailure
from agent.tools.apart import read_apart as read
from channels.base import UnreadableError


def read_apart(script: Path, content: bytes, *arguments: str) -> bytes:
    """Implement `Bot.read_apart`."""
    try:
        return read(script, content, *arguments)
    except ReaderFailure as error:
        raise UnreadableError(str(error), takes_too_much=error.takes_too_much) from None
