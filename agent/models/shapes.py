"""The content of a chunk of chat completions, in all shapes of servers. Pure: anything outside the
protocol counts as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thinking_content")
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "thought", "redacted_thinking"})
_INNER = ("text", "content", "value", "thinking", "reasoning", "summary")
_DEEPEST = 4


def as_mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def read_json(text: str) -> object:
    """Return the value that a text of JSON is; None for what is none."""
    try:
        value: object = orjson.loads(text)
    except ValueError:
        return None
    return value


def get_string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def join_halves(text: str) -> str:
    """Return the text with separated surrogate halves joined, such as escapes in two chunks; a
    single half becomes U+FFFD, since it can be neither stored nor sent."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def unwrap(chunk: object) -> Mapping[str, Any]:
    """Return a chunk, which a gateway may have wrapped."""
    fields = as_mapping(chunk)
    if fields and "choices" not in fields:
        for name in ("data", "result", "response", "body"):
            if "choices" in as_mapping(fields.get(name)):
                return as_mapping(fields[name])
    return fields


def choices_of(chunk: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    choices = chunk.get("choices")
    return [as_mapping(one) for one in (choices if isinstance(choices, list) else [choices])]


def read_parts(content: object) -> tuple[str, str]:
    """Return the text and the thoughts of a content, which is a text, a part, or a list of parts
    (Mistral's thinking models: litellm#16272)."""
    if isinstance(content, str):
        return content, ""
    text: list[str] = []
    thoughts: list[str] = []
    for part in [content] if isinstance(content, dict) else as_list(content):
        kind = as_mapping(part).get("type")
        is_thought = kind in _THOUGHT_PARTS or "thinking" in as_mapping(part)
        (thoughts if is_thought else text).append(_text_of(part, is_thought))
    return "".join(text), "".join(thoughts)


def _text_of(part: object, is_thought: bool = False, depth: int = 0) -> str:
    if isinstance(part, str):
        return part
    if depth > _DEEPEST:
        return ""
    if isinstance(part, list):
        return "".join(_text_of(one, is_thought, depth + 1) for one in part)
    fields = as_mapping(part)
    names = _INNER if is_thought else _INNER[:3]
    found = next((fields[name] for name in names if fields.get(name)), "")
    return _text_of(found, is_thought, depth + 1) if found else ""


def read_thoughts(delta: Mapping[str, Any]) -> str:
    """Return the thoughts of a delta, from the first field that has any; some providers have them
    only in signed details."""
    found = (_text_of(delta[name], True) for name in _THOUGHTS if delta.get(name))
    return next(filter(None, found), "") or _text_of(delta.get("reasoning_details"), True)
