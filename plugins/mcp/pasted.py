"""Server settings in the JSON formats of other programs: Claude, Cursor, VS Code, Windsurf, Gemini,
Zed, OpenCode and similar ones. Pure functions.

All of these list servers in a group, each with a command or an address. The names of the group and
of the fields differ. Comments, trailing commas, code fences and surrounding prose are skipped.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

from msgspec import Struct

from memory.patterns import lazy
from plugins.mcp.settings import McpServer

_COMMANDS = ("command", "cmd")
_ADDRESSES = ("url", "serverUrl", "httpUrl", "server_url", "http_url", "endpoint", "uri")
_ENVIRONS = ("env", "environment", "envs")
_HEADERS = ("headers", "http_headers", "requestInit")
_KINDS = ("transport", "type", "transportType", "transport_type")
_OURS = frozenset(("about", "tools", "serves", "approve", "allow", "roots"))
_IDLE = frozenset(
    (
        "name",
        "enabled",
        "disabled",
        "description",
        "gallery",
        "version",
        "icon",
        "timeout",
        "source",
    )
)
"""Fields without an effect here."""
_HERE = frozenset(("workspaceFolder", "workspaceRoot", "workspace", "cwd", "projectRoot"))
_DEEPEST, _MOST_STARTS = 4, 50
# An unclosed text or comment extends to the end, so that nothing is scanned twice.
_STRING = r'"(?:[^"\\]|\\.)*+(?:"|\Z)'
_TOKENS = lazy(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)|[^\"/]+|.", re.DOTALL)
_PARTS = lazy(rf"({_STRING})", re.DOTALL)
_COMMA = lazy(r",(?=\s*+[}\]])")
_KEY_BEFORE = lazy(r'"((?:[^"\\]|\\.)+)"\s*:\s*$')
_VARIABLE = lazy(
    r"\$\{(?:env:|input:|env\.)?([A-Za-z_][\w.-]*)(?::-[^}]*)?\}|\$([A-Z][A-Z0-9_]+)\b"
)
_STRAIGHT = str.maketrans({"“": '"', "”": '"', "„": '"', "\xa0": " "})
_DECODER = json.JSONDecoder(strict=False)


class PastedServer(Struct, frozen=True):
    """A server that was read: its name there, its fields in the form of the settings, and the names
    of fields that can't be used."""

    name: str
    fields: Mapping[str, Any]
    unused: tuple[str, ...] = ()


def read_pasted(text: str) -> list[PastedServer]:
    """Return the servers in a text; none if it has none."""
    straight = text.translate(_STRAIGHT)
    for strip in (str, _strip_comments):
        for key, value in _objects(strip(straight)):
            if found := _find_servers(value, key):
                return [_read_server(name, one) for name, one in found]
    return []


def make_name(written: str) -> str:
    """Return a server's name in the form that the settings accept; "" if it has no usable
    characters."""
    last = written.strip().rstrip("/").rpartition("/")[2] or written
    name = re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-")
    if name and not name[0].isalpha():
        name = f"mcp-{name}"
    return name[:24].rstrip("-")


def _objects(text: str) -> Iterator[tuple[str, Any]]:
    """Yield possible JSON values in a text, each with the key before it."""
    starts = [found.start() for found in islice(re.finditer(r"\{", text), _MOST_STARTS)]
    for start in starts:
        try:
            value, _end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        before = _KEY_BEFORE.search(text[max(0, start - 300) : start])
        yield before[1] if before else "", value


def _strip_comments(text: str) -> str:
    """Return JSON without comments and trailing commas."""
    kept = (
        "" if one.startswith(("//", "/*")) else one
        for one in (found[0] for found in _TOKENS.finditer(text))
    )
    parts = _PARTS.split("".join(kept))
    return "".join(one if one.startswith('"') else _COMMA.sub("", one) for one in parts)


def _find_servers(value: Any, key: str, depth: int = 0) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the servers in a value named `key`, with their names."""
    if depth > _DEEPEST:
        return []
    if _is_server(value):
        name = value.get("name")
        return [(name if not key and isinstance(name, str) else key, value)]
    if isinstance(value, Mapping):
        named = [(str(name), one) for name, one in value.items()]
    else:
        named = [("", one) for one in value] if isinstance(value, list) else []
    servers = [(name, one) for name, one in named if _is_server(one)]
    if servers:
        return [pair for name, one in servers for pair in _find_servers(one, name)]
    inner = (_find_servers(one, name, depth + 1) for name, one in named)
    return next(filter(None, inner), [])


def _is_server(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    command = _first(value, _COMMANDS)
    has_command = isinstance(command, str | list) or (
        isinstance(command, Mapping) and isinstance(command.get("path"), str)
    )
    return has_command or bool(_find_address(value))


def _find_address(value: Mapping[str, Any]) -> str:
    found = (value.get(name) for name in _ADDRESSES)
    return next((one.strip() for one in found if isinstance(one, str) and one.strip()), "")


def _first(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if value.get(name)), None)


def _read_server(name: str, written: Mapping[str, Any]) -> PastedServer:
    """Return a server's fields in the form of the settings."""
    read: dict[str, Any] = {key: value for key, value in written.items() if key in _OURS}
    used = {*_COMMANDS, *_ADDRESSES, *_ENVIRONS, *_HEADERS, *_KINDS, "args", *_OURS, *_IDLE}
    command = _first(written, _COMMANDS)
    group = {**written, **command} if isinstance(command, Mapping) else written
    if url := _find_address(written):
        read["url"] = _fill(url)
        headers = _first(written, _HEADERS)
        if isinstance(headers, Mapping):
            inner = headers.get("headers")
            read["headers"] = _fill_all(inner if isinstance(inner, Mapping) else headers)
        if "sse" in str(_first(written, _KINDS) or "").lower():
            read["transport"] = "sse"
    else:
        words = _read_command(group)
        read |= {"command": words[0] if words else ""} | ({"args": words[1:]} if words[1:] else {})
        environ = _first(group, _ENVIRONS)
        if isinstance(environ, Mapping):
            read["env"] = _fill_all(environ)
    read = {key: value for key, value in read.items() if value != {}}
    unused = tuple(key for key in written if key not in used and key not in McpServer.model_fields)
    return PastedServer(name, read, unused)


def _read_command(group: Mapping[str, Any]) -> list[str]:
    """Return the words of a command, given as one word, a list, or a text."""
    command = group.get("path") if isinstance(group.get("command"), Mapping) else None
    command = command or _first(group, _COMMANDS)
    args = group.get("args")
    if isinstance(args, str):
        args = args.split()
    rest = [_fill(_as_text(one)) for one in args] if isinstance(args, list) else []
    if isinstance(command, list):
        return [_fill(_as_text(one)) for one in command] + rest
    words = [str(command).strip()]
    if not rest and " " in words[0] and not words[0].startswith(("/", ".", "~")):
        with suppress(ValueError):
            words = shlex.split(words[0])
    words = [_fill(one) for one in words] + rest
    if words[0].lower() in ("cmd", "cmd.exe") and words[1:2] and words[1].lower() == "/c":
        return words[2:]  # the way in which Windows finds a program
    return words


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _fill_all(group: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): _fill(_as_text(value)) for name, value in group.items()}


def _fill(text: str) -> str:
    """Return a text with variables in our syntax: as secrets, or the working folder."""

    def fill(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name in _HERE:
            return "."
        if name.lower() in ("home", "userhome"):
            return found[0]
        return "{{secret." + re.sub(r"\W", "_", name).upper() + "}}"

    return _VARIABLE.sub(fill, text)
