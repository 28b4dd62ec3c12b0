"""The tools of a server's list, in a form that any model accepts.

Servers are untrusted. Names are converted to the form that OpenAI's and Anthropic's protocols
accept, and are stable for the same tools. Descriptions and schemas are truncated. An invalid schema
becomes one that accepts anything, since the server validates its arguments itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from agent.tools.schema import shorten_schema
from memory.patterns import lazy

SEPARATOR = "__"
LIST_RESOURCES, READ_RESOURCE = "resources/list", "resources/read"
"""Our names for the access to a server's resources; no tool of a server has them."""
_OURS = {LIST_RESOURCES: "list_resources", READ_RESOURCE: "read_resource"}
MOST_TOOLS = 1_000
"""The maximum number of tools of a server."""
_LONGEST_NAME = 64
_LONGEST_RAW = 1_000  # characters of a server's name; a tool with a longer one is skipped
_LONGEST_DESCRIPTION = 2_000
_LONGEST_SCHEMA = 20_000
_DEEPEST = 12
_STRANGE = lazy(r"[^A-Za-z0-9_-]+")
_ANYTHING: Mapping[str, Any] = {"type": "object"}


class ListedTool(Struct, frozen=True):
    """A tool by its server's name, with its description for the model. `parameters` is a JSON
    Schema."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(_ANYTHING))

    def to_json(self) -> str:
        """Return the text for the model; it is deterministic."""
        data = {"description": self.description, "parameters": self.parameters}
        return json.dumps(data, ensure_ascii=False, sort_keys=True)

    @classmethod
    def from_json(cls, name: str, text: str) -> ListedTool:
        data = json.loads(text)
        return cls(name, data["description"], data["parameters"])


def read_tool(name: str, description: object, schema: object) -> ListedTool | None:
    """Return a tool from a server's list; None if its name can't be used."""
    if not name or len(name) > _LONGEST_RAW or not name.isprintable() or name in _OURS:
        return None
    line = " ".join(str(description or "").split())
    clean = "".join(c for c in line if c.isprintable()).encode("utf-8", "replace").decode()
    if len(clean) > _LONGEST_DESCRIPTION:
        clean = clean[: _LONGEST_DESCRIPTION - 1] + "…"
    return ListedTool(name, clean, _read_schema(schema))


def _read_schema(schema: object) -> Mapping[str, Any]:
    """Return a valid schema of arguments."""
    if not isinstance(schema, Mapping) or _is_too_deep(schema):
        return _ANYTHING
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return _ANYTHING
    kept = {str(name): one if isinstance(one, Mapping) else {} for name, one in properties.items()}
    read = {
        **{key: value for key, value in schema.items() if key not in ("$schema", "title")},
        "type": "object",
        "properties": {name: shorten_schema(_with_lists(one)) for name, one in kept.items()},
        "required": [name for name in required if isinstance(name, str) and name in kept],
    }
    try:
        text = json.dumps(read, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return _ANYTHING
    return read if len(text) <= _LONGEST_SCHEMA else _ANYTHING


def _with_lists(parameter: Mapping[str, Any]) -> dict[str, Any]:
    """Return a parameter whose `enum`, if there is one, is a list."""
    is_wrong = "enum" in parameter and not isinstance(parameter["enum"], list)
    return {key: value for key, value in parameter.items() if key != "enum" or not is_wrong}


def _is_too_deep(value: object) -> bool:
    layer: list[object] = [value]
    for _ in range(_DEEPEST):
        layer = [inner for one in layer for inner in _inside(one)]
        if len(layer) > _LONGEST_SCHEMA:
            return True
    return bool(layer)


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list) else ()


def name_for_model(server: str, tool: str) -> str:
    """Return the name of a tool in requests. If its own name is not allowed, a part of its digest
    makes the name unique."""
    if tool in _OURS:
        return f"{server}{SEPARATOR}{_OURS[tool]}"
    plain = f"{server}{SEPARATOR}{tool}"
    clean = _STRANGE.sub("_", plain)
    if clean == plain and len(plain) <= _LONGEST_NAME and tool not in _OURS.values():
        return plain
    digest = hashlib.sha256(tool.encode("utf-8", "replace")).hexdigest()[:8]
    return f"{clean[: _LONGEST_NAME - len(digest) - 1]}_{digest}"


def server_of(name: str) -> str:
    """Return the name of the server whose tool has this name; "" if it is no server's."""
    return name.partition(SEPARATOR)[0] if SEPARATOR in name else ""


def describe_difference(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Describe the changes of a server's tools, in a clause; "" if there are none. Both arguments
    are by tool name."""
    new = sorted(now.keys() - before.keys())
    removed = sorted(before.keys() - now.keys())
    changed = sorted(name for name in before.keys() & now.keys() if before[name] != now[name])
    parts = ((new, "new"), (changed, "changed"), (removed, "gone"))
    return "; ".join(f"{len(names)} {word}: {_shorten(names)}" for names, word in parts if names)


def _shorten(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(_STRANGE.sub("_", name)[:_LONGEST_NAME] for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown
