"""The tokens that were used, as providers report them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec.structs import astuple

from agent.models.base import Usage

_MOST_TOKENS = 10**9  # in one answer
_LONGEST = 24  # characters of a number
_PROMPT = ("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_token_count")
_COMPLETION = ("completion_tokens", "output_tokens", "candidatesTokenCount", "generated_tokens")
_DETAILS = ("prompt_tokens_details", "input_tokens_details")
_SAID = ("completion_tokens_details", "output_tokens_details")
_CACHED = (
    *("cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    *("cache_read_tokens", "cachedContentTokenCount", "cached_prompt_tokens"),
)
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens")
_REASONING = ("reasoning_tokens", "thoughtsTokenCount", "thinking_tokens")


def find_usage(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the report in a chunk: Moonshot has it in the choice, Groq in a field of its own."""
    if (one := chunk.get("usage")) and isinstance(one, dict):
        return one
    choices, own = chunk.get("choices"), chunk.get("x_groq")
    first = choices[0] if choices and isinstance(choices, list) else None
    for place in (own, first) if own else (first,):
        if isinstance(place, dict) and (one := place.get("usage")) and isinstance(one, dict):
            return one
    return {}


def read_usage(fields: Mapping[str, Any], before: Usage | None) -> Usage | None:
    """Return what was used. A report never takes back what one before it said: zeros in a last
    chunk are none. What xAI and Gemini leave out of `completion_tokens`, which are thoughts, is in
    the total (sub2api#5771, vercel/ai#6082)."""
    if not fields:
        return before
    details, said = _inner(fields, _DETAILS), _inner(fields, _SAID)
    prompt, completion = _any(fields, _PROMPT), _any(fields, _COMPLETION)
    cached = _any(details, _CACHED) or _any(fields, _CACHED)
    reasoning = _any(said, _REASONING) or _any(fields, _REASONING)
    total = count(fields, "total_tokens") or count(fields, "totalTokenCount")
    read = Usage(
        prompt=prompt,
        completion=with_thoughts(completion, prompt, cached, total, reasoning),
        cached=cached,
        written=_any(details, _WRITTEN) or _any(fields, _WRITTEN),
        reasoning=reasoning,
    )
    if before is None:
        return read
    return Usage(*(max(pair) for pair in zip(astuple(before), astuple(read), strict=True)))


def with_thoughts(completion: int, prompt: int, cached: int, total: int, reasoning: int = 0) -> int:
    """Return the tokens of an answer with those thoughts that are in the total alone. Where what is
    cached is counted besides the prompt, it is in the total, too, and is none of them. Where the
    number of thoughts is known, they are added if the total says so, or if they can't be a part of
    what was said; no other total is believed."""
    rest = total - prompt
    if reasoning:
        is_beside = rest in (completion + reasoning, completion + reasoning + cached)
        return completion + reasoning if is_beside or reasoning > completion else completion
    if not prompt or rest - cached == completion:
        return completion
    return max(completion, rest)


def _inner(fields: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    found = (fields.get(name) for name in names)
    return next((one for one in found if isinstance(one, dict)), {})


def _any(fields: Mapping[str, Any], names: tuple[str, ...]) -> int:
    return next(filter(None, (count(fields, name) for name in names if name in fields)), 0)


def count(fields: Mapping[str, Any], key: str) -> int:
    """Return a number of tokens, which some write as a float or as text; what can't be one (-1,
    true, 10**40) counts as not reported."""
    value = fields.get(key)
    if isinstance(value, str) and len(value) <= _LONGEST and value.isascii():
        try:
            value = float(value)
        except ValueError:
            return 0
    if isinstance(value, float) and isfinite(value) and abs(value) <= _MOST_TOKENS:
        value = round(value)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
