"""The arguments of a call as providers write them, made the JSON object that was meant. Pure.

Each shape was seen in public reports: an object instead of its text (llama.cpp#20198), text in a
fence or in a string, sent twice, an empty object first, a brace too many, raw line ends in strings.
"""

from __future__ import annotations

import ast
import json
import re
from typing import Any

import orjson

from memory.patterns import lazy

_FENCE = "```"
_REST = lazy(r"(?:[\s}\]]|<[|/]{1,2}[\w:]+\|?>)*")
"""Remains that may stand behind arguments: brackets, and tokens that end a call."""
_COMMA = lazy(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)
_LONGEST_LITERAL = 20_000
_DEEPEST = 3  # strings of JSON in strings of JSON


def to_text(value: object) -> str:
    """Return arguments as text: as they stand, or an object's JSON."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else ""


def repair(text: str) -> str:
    """Return arguments that are a JSON object where one can be made out, else the text as it is:
    the model is told what is wrong with it."""
    if _parse(text) is not None:
        return text
    found = _find(text, 0)
    return text if found is None else orjson.dumps(found).decode()


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _find(text: str, depth: int) -> dict[str, Any] | None:
    text = text.strip().lstrip("\ufeff")
    if text.startswith(_FENCE) and text.endswith(_FENCE) and len(text) >= 2 * len(_FENCE):
        inner = text[len(_FENCE) : -len(_FENCE)]
        text = (inner[4:] if inner[:4].lower() == "json" else inner).strip()
    if text in ("", "null", "None"):
        return {}
    objects = _objects(text) or _objects(_COMMA.sub(r"\1", text)) or _literal(text)
    if objects is None:
        return None
    if len(objects) == 1 and isinstance(objects[0], list) and len(objects[0]) == 1:
        objects = objects[0]
    if len(objects) == 1 and isinstance(objects[0], str) and depth < _DEEPEST:
        return _find(objects[0], depth + 1)
    named = [one for one in objects if isinstance(one, dict)]
    if len(named) < len(objects):
        return None
    filled = [one for one in named if one]
    if all(one == filled[0] for one in filled[1:]):  # the same twice, or nothing at first
        return filled[0] if filled else {}
    return None


def _objects(text: str) -> list[Any] | None:
    """Return the JSON values that follow each other in a text, but for brackets that are left over;
    None where something else stands there."""
    decoder = json.JSONDecoder(strict=False, parse_constant=_refuse)
    found: list[Any] = []
    place = 0
    while place < len(text):
        if found and _REST.fullmatch(text, place):
            break
        try:
            value, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            return None
        found.append(value)
        while place < len(text) and text[place].isspace():
            place += 1
    return found


def _literal(text: str) -> list[Any] | None:
    """Return the object that a text is in Python."""
    if not text.startswith("{") or len(text) > _LONGEST_LITERAL:
        return None
    try:
        value = ast.literal_eval(text)
        orjson.dumps(value)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return [value]


def _refuse(name: str) -> None:
    raise ValueError(name)
