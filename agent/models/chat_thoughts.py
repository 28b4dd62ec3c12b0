"""The thoughts that some endpoints of chat completions want back with a model's calls, though the
protocol has no place for them: each in a field of its own, just as it came, or the next request is
refused.

`Provider.thoughts` names the field: DeepSeek, Kimi and GLM want the thoughts themselves
(`reasoning_content`), OpenRouter a list of what the provider behind it has signed, and MiniMax one
of its thoughts (`reasoning_details`), and Gemini a signature with each call (`extra_content`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

Json = dict[str, Any]

TEXT, DETAILS, SIGNATURES = "reasoning_content", "reasoning_details", "extra_content"
UNRECORDED = "(not recorded)"
"""The text in place of thoughts of which nothing is known."""
_UNSIGNED: Json = {"google": {"thought_signature": "skip_thought_signature_validator"}}
"""The signature that Gemini takes for calls that another model has made."""
_UNTHOUGHT = " "
"""The text where nothing was thought, or by another model: Kimi and DeepSeek V4 refuse calls
without the field, and an empty one too."""
_WHOLE = "MiniMax"
"""The format of details whose text may come whole so far with each chunk, as the samples of its
documentation read it, and not in pieces."""
_GROWING = ("text", "summary", "data")
_MOST_DETAILS = 2_000


def add_details(details: list[Json], more: object) -> int:
    """Add a chunk's details to those that came before; return the number of characters by which
    they grew. What belongs together comes in pieces; what has an id of its own does not, whatever
    its index (Roo-Code#10694)."""
    size = 0
    for piece in more if isinstance(more, list) else ():
        if not isinstance(piece, dict) or len(details) >= _MOST_DETAILS:
            continue
        size += sum(len(value) for value in piece.values() if isinstance(value, str))
        last = details[-1] if details else {}
        if last and all(last.get(name) == piece.get(name) for name in ("type", "index", "id")):
            known = {name: value for name, value in piece.items() if value is not None}
            for name in _GROWING:
                text, before = known.get(name), last.get(name)
                if isinstance(text, str) and isinstance(before, str):
                    known[name] = text if _is_whole(piece, before, text) else before + text
            last.update(known)
        else:
            details.append(dict(piece))
    return size


def _is_whole(piece: Mapping[str, Any], before: str, text: str) -> bool:
    is_so_sent = str(piece.get("format")).startswith(_WHOLE)
    return is_so_sent and bool(before) and text != before and text.startswith(before)


def keep(field: str, text: str, details: Sequence[Json], signatures: Sequence[object]) -> str:
    """Return the thoughts that go back, as `Message.thoughts` has them: "" where there are none."""
    kept = {TEXT: text, DETAILS: list(details), SIGNATURES: list(signatures)}.get(field)
    if not kept or (field == SIGNATURES and not any(signatures)):
        return ""
    return orjson.dumps({field: kept}).decode()


def put_back(
    message: Mapping[str, Any], field: str, thoughts: str, reasoning: str
) -> Mapping[str, Any]:
    """Return a message that calls tools with what was kept of it; what another model's protocol
    kept says nothing here. Whoever wants the thoughts themselves is sent the `reasoning` that was
    shown, or a word in its place: an empty one counts as missing (Kimi K2: opencode#10996)."""
    kept = _read(thoughts).get(field)
    if field == TEXT:
        text = kept if isinstance(kept, str) and kept.strip() else reasoning
        return {**message, TEXT: text if text.strip() else UNRECORDED}
    if field == DETAILS:
        return {**message, DETAILS: kept} if isinstance(kept, list) else message
    signed = kept if isinstance(kept, list) else []
    calls = [dict(call) for call in message["tool_calls"]]
    for call, signature in zip(calls, signed or [_UNSIGNED], strict=False):
        if isinstance(signature, dict):
            call[SIGNATURES] = signature
    return {**message, "tool_calls": calls}


def _read(thoughts: str) -> Json:
    try:
        value = orjson.loads(thoughts) if thoughts else {}
    except ValueError:
        value = {}
    return value if isinstance(value, dict) else {}
