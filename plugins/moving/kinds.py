"""The program that wrote the files at a path: as named by the person, or as detected."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from memory.record.store import StoreError
from plugins.moving.chatgpt import ChatGpt
from plugins.moving.claude_code import ClaudeCode
from plugins.moving.cowagent import CowAgent
from plugins.moving.hermes import Hermes
from plugins.moving.open_webui import OpenWebUi
from plugins.moving.openclaw import OpenClaw
from plugins.moving.plain_importer import PlainExport
from plugins.moving.reading import Archive
from plugins.moving.source import ForeignChat, MovingError
from plugins.moving.workspace import ForeignSource

OPENERS: Mapping[str, type[ForeignSource]] = {
    "chatgpt": ChatGpt,
    "open-webui": OpenWebUi,
    "hermes": Hermes,
    "openclaw": OpenClaw,
    "claude-code": ClaudeCode,
    "cowagent": CowAgent,
    "parley": PlainExport,
}
_MOST_LOOKED_AT = 2_000  # values
_LOOKED_AT = 20  # conversations; a reader that fails for all of these fails for the others


def open_source(kind: str, path: Path, user: str, data: Path) -> ForeignSource:
    """Open another program's data. Raises MovingError and StoreError."""
    if kind == "open-webui":
        return OpenWebUi(path, user=user)
    if user:
        raise MovingError(
            "--user is for open-webui alone, in whose database several people may have chats; "
            f"leave it out for {kind}."
        )
    return OPENERS[kind](path, data / "skills")


def suggest(kind: str, path: Path) -> str:
    """Return advice after a failed import if the files look like another program's; ""
    otherwise."""
    if _has_chats(kind, path) or _has_profile(kind, path):
        return ""
    others = [one for one in OPENERS if one != kind]
    # Memory files have the same names in several programs; conversations differ.
    found = (one for has in (_has_chats, _has_profile) for one in others if has(one, path))
    if not (other := next(found, "")):
        return _name_unsupported(path)
    command = f"python main.py import {other} {shlex.quote(str(path))}"
    return f"This looks like {_LOOKS[other]}; try: {command}"


_LOOKS = {
    "chatgpt": "a ChatGPT export",
    "open-webui": "chats of Open WebUI",
    "cowagent": "a workspace of CowAgent",
    "hermes": "a folder of Hermes",
    "openclaw": "a folder of OpenClaw",
    "claude-code": "sessions of Claude Code",
    "parley": "an export of Parley",
}


_STRANGERS = {
    "Claude": "chat_messages",
    "DeepSeek": "fragments",
    "LibreChat": "conversationId",
    "Grok": "responses",
}
"""Other programs, each with a field name that occurs only in its exports."""


def _name_unsupported(path: Path) -> str:
    """Return a sentence that names the unsupported program; "" if it is unknown."""
    try:
        archive = Archive(path)
        names = [name for name in archive.names if name.endswith(".json")][:_LOOKED_AT]
        entries = [one for name in names for one in islice(archive.entries(name), _LOOKED_AT)]
    except MovingError:
        return ""
    found = next((who for who, sign in _STRANGERS.items() if _has_field(entries, sign)), "")
    return found and (
        f"This looks like an export of {found}, from which nothing can be imported; Parley imports "
        "from ChatGPT, Open WebUI, OpenClaw, Hermes, Claude Code and CowAgent."
    )


def _has_field(entries: list[Any], name: str) -> bool:
    """Return whether one of the entries has a field of this name, near its beginning."""
    waiting, looked = [*entries], 0
    while waiting and looked < _MOST_LOOKED_AT:
        looked += 1
        one = waiting.pop(0)
        if isinstance(one, dict):
            if name in one:
                return True
            waiting += list(one.values())[:_LOOKED_AT]
        elif isinstance(one, list):
            waiting += one[:_LOOKED_AT]
    return False


def _has_chats(kind: str, path: Path) -> bool:
    """Return whether one of the first conversations can be read in this program's format."""
    try:
        source = OPENERS[kind](path)
        if isinstance(source, PlainExport):
            return bool(source.conversations()[0])
        return any(isinstance(one, ForeignChat) for one in islice(source.chats(), _LOOKED_AT))
    except (MovingError, StoreError):
        return False


def _has_profile(kind: str, path: Path) -> bool:
    """Return whether a memory or a persona can be read in this program's format."""
    try:
        own = OPENERS[kind](path).read_profile()
        return bool(own.memory or own.days or own.personas)
    except (MovingError, StoreError):
        return False
