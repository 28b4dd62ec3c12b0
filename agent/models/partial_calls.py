"""Tool calls that come in pieces, put together however a server tells them apart. Pure.

Arguments become the JSON object that was meant (`repair`). Each shape was seen in public reports:
an object instead of its text (llama.cpp#20198), text in a fence or in a string, sent twice, an
empty object first, a brace too many, raw line ends in strings.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any
from uuid import uuid4

import orjson

from agent.models.history import strict_object
from agent.models.shapes import as_mapping, get_string, join_halves, read_json
from memory.messages import ToolCall
from memory.patterns import lazy

_FENCE = "```"
_REST = lazy(r"(?:[\s}\]]|<[|/]{1,2}[\w:]+\|?>)*")
"""Text that may follow arguments: brackets, and tokens that end a call."""
_COMMA = lazy(r'("(?:[^"\\]|\\.)*(?:"|\Z))|,(?=\s*[}\]])', re.DOTALL)
_LONGEST_LITERAL = 20_000
_DEEPEST = 3  # strings of JSON in strings of JSON


def to_text(value: object) -> str:
    """Return arguments as text: unchanged, or an object's JSON."""
    if isinstance(value, str):
        return value
    return orjson.dumps(value).decode() if isinstance(value, dict | list) else ""


def repair(text: str) -> str:
    """Return arguments as a JSON object if one can be recognised; otherwise the text unchanged,
    whose error is reported to the model."""
    if isinstance(read_json(text), dict):
        return text
    found = _find(text, 0)
    return text if found is None else orjson.dumps(found).decode()


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
    if all(one == filled[0] for one in filled[1:]):  # the same twice, or empty at first
        return filled[0] if filled else {}
    return None


def _objects(text: str) -> list[Any] | None:
    """Return the consecutive JSON values in a text, ignoring left-over brackets; None if there is
    other text."""
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
    """Return the object that a text is as a Python literal."""
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


MOST_CALLS = 1_000
"""The maximum number of calls in one answer; the setting `agent_max_calls` limits how many are
run."""
LONGEST_NAME = 200  # characters of a model's or a tool's name
_LONGEST_CHECKED = 20_000  # characters of arguments


class Piece:
    """The fields of a call in one part of a delta: `function` is OpenAI's place for the rest."""

    def __init__(self, part: Mapping[str, Any]) -> None:
        function = as_mapping(part.get("function")) or part
        self.name = get_string(function, "name")[:LONGEST_NAME]
        given = function.get("arguments")
        self.arguments = to_text(function.get("parameters") if given is None else given)
        own = part.get("id")
        self.id = str(own) if isinstance(own, int | str) and own != "" else ""
        index = part.get("index")
        if isinstance(index, str) and index.isdecimal() and len(index) < 6:
            index = int(index)
        self.index = index if index is None or isinstance(index, int | str) else repr(index)[:200]


def pieces_of(delta: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Return the parts of calls in a delta: a list, a single one, or one in OpenAI's older field
    (`function_call`)."""
    calls = delta.get("tool_calls")
    if isinstance(calls, dict):
        calls = [calls]
    if not calls and isinstance(legacy := delta.get("function_call"), dict):
        calls = [{"function": legacy}]
    return (part for part in calls or () if isinstance(part, dict)) if calls else iter(())


class PartialCall:
    """A tool call that is still incomplete."""

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments = StringIO()
        self.signature: Mapping[str, Any] | None = None
        self.is_cut = False

    def add_name(self, piece: str) -> None:
        """Add a piece of the name: some servers send it in pieces, some repeat it with each
        part."""
        if not self.name or not (self.arguments.tell() or self.name.endswith(piece)):
            self.name = (self.name + piece)[:LONGEST_NAME]

    def add_arguments(self, kept: str, *, is_again: bool) -> None:
        """Add a piece of the arguments; if the name is repeated, the piece may contain all earlier
        ones."""
        before = self.arguments.getvalue() if is_again else ""
        if len(before) > 1 and kept.startswith(before) and not self.is_complete:
            kept = kept[len(before) :]
        self.arguments.write(kept)

    @property
    def is_complete(self) -> bool:
        """Return whether the arguments are a complete object; very long ones are not checked again
        with each part."""
        if self.arguments.tell() > _LONGEST_CHECKED:
            return False
        text = self.arguments.getvalue()
        return text.rstrip().endswith("}") and strict_object(text) == text

    def to_call(self) -> ToolCall:
        arguments = repair(join_halves(self.arguments.getvalue()))
        own_id = join_halves(self.id) or f"call_{uuid4().hex[:16]}"
        return ToolCall(own_id, join_halves(self.name), arguments)


class PartialCalls:
    """The calls of an answer, in the order of their beginning."""

    def __init__(self) -> None:
        self.calls: list[PartialCall] = []
        self._latest: dict[object, PartialCall] = {}

    def find(self, piece: Piece) -> PartialCall | None:
        """Return the call that a piece belongs to: an existing or a new one; None beyond the
        limit."""
        if (known := self._known(piece)) is not None:
            return known
        if len(self.calls) >= MOST_CALLS:
            return None
        opened = self._latest[piece.index] = PartialCall()
        self.calls.append(opened)
        return opened

    def _known(self, piece: Piece) -> PartialCall | None:
        """Find the call by index, or else by id; a name opens a new one, and other pieces belong to
        the last. Some endpoints give every call the index 0 and distinguish them by id alone, or
        only by a name after complete arguments (vercel/ai#14277); some increase the index with each
        piece (agno#8879, dirac#215)."""
        last = self.calls[-1] if self.calls else None
        call = self._latest.get(piece.index) if piece.index is not None else None
        if call is None and piece.id:
            same = (one for one in reversed(self.calls) if one.id == piece.id)
            call = next((one for one in same if piece.name in ("", one.name)), None)
            if piece.index is not None and piece.name:
                return None  # one id for all calls (xinference)
        if call is None:
            return None if piece.name or (piece.id and piece.index is not None) else last
        if not piece.name:
            return last if self._is_of_last(piece, call) else call
        return None if _is_next(piece, call) else call

    def _is_of_last(self, piece: Piece, call: PartialCall) -> bool:
        """Return whether a piece without name or id belongs to the last call, and not to the one at
        its index."""
        last = self.calls[-1]
        return not piece.id and last is not call and call.is_complete and not last.is_complete


def _is_next(piece: Piece, call: PartialCall) -> bool:
    """Return whether a piece with a name opens another call than the one at its place."""
    if not call.name:
        return False
    if piece.id and call.id:
        is_repeated = piece.arguments == call.arguments.getvalue()  # a repetition of the whole call
        is_more = piece.index is None and call.is_complete and not is_repeated
        return is_more or piece.id != call.id
    return not piece.id and call.is_complete
