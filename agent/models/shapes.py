"""The content of a chunk of chat completions, and the token usage, in all shapes of servers. Pure:
anything outside the protocol counts as absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

import orjson
from msgspec.structs import astuple

from agent.models.base import Usage

_THOUGHTS = ("reasoning_content", "reasoning", "thinking", "reasoning_text", "thinking_content")
_THOUGHT_PARTS = frozenset({"thinking", "reasoning", "thought", "redacted_thinking"})
_INNER = ("text", "content", "value", "thinking", "reasoning", "summary")
_DEEPEST = 4
_MOST_TOKENS = 10**9  # in one answer
_LONGEST = 24  # characters of a number
_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count")
_COMPLETION = ("completion_tokens", "output_tokens", "candidatesTokenCount", "generated_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_OUTPUT_DETAILS = ("completion_tokens_details", "output_tokens_details")
_CACHED = (
    *("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    *("cache_read_tokens", "cachedContentTokenCount", "cached_prompt_tokens"),
)
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_TOTAL = ("total_tokens", "totalTokenCount")
_REASONING = ("reasoning_tokens", "thoughtsTokenCount", "thinking_tokens")


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


def find_usage(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the usage report in a chunk: Moonshot has it in the choice, Groq in a field of its
    own."""
    if (one := chunk.get("usage")) and isinstance(one, dict):
        return one
    choices, own = chunk.get("choices"), chunk.get("x_groq")
    first = choices[0] if choices and isinstance(choices, list) else None
    for place in (own, first) if own else (first,):
        if isinstance(place, dict) and (one := place.get("usage")) and isinstance(one, dict):
            return one
    return {}


def read_usage(fields: Mapping[str, Any], before: Usage | None) -> Usage | None:
    """Return the token usage. A report never lowers an earlier one: zeros in a last chunk are
    ignored. xAI and Gemini omit thoughts from `completion_tokens`; these are in the total
    (sub2api#5771, vercel/ai#6082)."""
    if not fields:
        return before
    details, output_details = _inner(fields, _DETAILS), _inner(fields, _OUTPUT_DETAILS)
    prompt, completion = _any(_PROMPT, fields), _any(_COMPLETION, fields)
    cached, reasoning = _any(_CACHED, details, fields), _any(_REASONING, output_details, fields)
    total = _any(_TOTAL, fields)
    read = Usage(
        prompt=prompt,
        completion=with_thoughts(completion, prompt, cached, total, reasoning),
        cached=cached,
        written=_any(_WRITTEN, details, fields),
        reasoning=reasoning,
    )
    if before is None:
        return read
    return Usage(*(max(pair) for pair in zip(astuple(before), astuple(read), strict=True)))


def with_thoughts(completion: int, prompt: int, cached: int, total: int, reasoning: int = 0) -> int:
    """Return the tokens of an answer, including thoughts that are in the total alone. If cached
    tokens are counted beside the prompt, they are in the total, too, and are not thoughts. If the
    number of thoughts is known, they are added if the total confirms it, or if they can't be part
    of the completion; any other total is ignored."""
    rest = total - prompt
    if reasoning:
        is_beside = rest in (completion + reasoning, completion + reasoning + cached)
        return completion + reasoning if is_beside or reasoning > completion else completion
    if not prompt or rest - cached == completion:
        return completion
    return max(completion, rest)


def _inner(fields: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    for name in names:
        if isinstance(one := fields.get(name), dict):
            return one
    return {}


def _any(names: tuple[str, ...], *places: Mapping[str, Any]) -> int:
    """Return the first non-zero number of tokens in one of these fields. Impossible values (-1,
    true, 10**40) count as not reported."""
    for fields in places:
        for name in names:
            value = fields.get(name)
            value = value if type(value) is int or value is None else _to_number(value)
            if value and 0 < value <= _MOST_TOKENS:
                return value
    return 0


def _to_number(value: object) -> int:
    """Return a number that is written as a float or as text, as some providers do; 0 for other
    values."""
    if isinstance(value, str) and len(value) <= _LONGEST and value.isascii():
        try:
            value = float(value)
        except ValueError:
            return 0
    is_number = isinstance(value, float) and isfinite(value) and abs(value) <= _MOST_TOKENS
    return round(value) if is_number else 0  # type: ignore[call-overload]


def count(fields: Mapping[str, Any], key: str) -> int:
    """Return the number of tokens in a field; 0 if none is reported."""
    return _any((key,), fields)
