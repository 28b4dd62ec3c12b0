"""Which program wrote what lies at a path: as it was named, or as it looks."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path

from bot.moving.chatgpt import ChatGpt
from bot.moving.cowagent import CowAgent
from bot.moving.open_webui import OpenWebUi
from bot.moving.plain_arrival import PlainExport
from bot.moving.source import ForeignChat, ForeignSource, MovingError
from memory.record.store import StoreError

_OPENERS: Mapping[str, Callable[[Path], ForeignSource]] = {
    "chatgpt": ChatGpt,
    "open-webui": OpenWebUi,
    "cowagent": CowAgent,
    "parley": PlainExport,
}
_LOOKED_AT = 20  # conversations; who can read none of those does not know the others


def open_source(kind: str, path: Path, user: str, data: Path) -> ForeignSource:
    """What that program kept. Raises MovingError and StoreError."""
    if kind == "open-webui":
        return OpenWebUi(path, user)
    if user:
        raise MovingError(
            "--user is for open-webui alone, in whose database several people may have chats; "
            f"leave it out for {kind}."
        )
    return CowAgent(path, data / "skills") if kind == "cowagent" else _OPENERS[kind](path)


def suggest(kind: str, path: Path) -> str:
    """What to do where nothing could be read as one kind, and it looks like another; "" where it
    does not."""
    if _is_readable(kind, path):
        return ""
    other = next((one for one in _OPENERS if one != kind and _is_readable(one, path)), "")
    if not other:
        return ""
    command = f"python main.py import {other} {shlex.quote(str(path))}"
    return f"This looks like {_LOOKS[other]}; try: {command}"


_LOOKS = {
    "chatgpt": "a ChatGPT export",
    "open-webui": "chats of Open WebUI",
    "cowagent": "a workspace of CowAgent",
    "parley": "an export of Parley",
}


def _is_readable(kind: str, path: Path) -> bool:
    """Whether something at the beginning can be read as what that program keeps."""
    try:
        source = _OPENERS[kind](path)
        if isinstance(source, PlainExport):
            return bool(source.conversations()[0])
        if any(isinstance(one, ForeignChat) for one in islice(source.chats(), _LOOKED_AT)):
            return True
        own = source.belongings()
        return bool(own.memory or own.days or own.personas)
    except (MovingError, StoreError):
        return False
