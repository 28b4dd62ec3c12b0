"""A request in the shape of OpenAI's chat-completions protocol, with a provider's variations. Pure:
the same request gives the same bytes, so that a sent request can be reproduced."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from agent.models.base import ModelRequest
from agent.models.brain import Provider
from agent.models.chat_thoughts import TEXT, UNRECORDED, restore_thoughts
from agent.models.endpoint import Endpoint
from agent.models.history import (
    CALL_IDS,
    EMPTY,
    EVERYWHERE,
    OWN,
    THOUGHTS,
    alternate,
    inspect,
    read_history,
)
from memory.messages import RequestExtras

Json = dict[str, Any]

_LONGEST_ID = 40
_PLAIN = 2  # fields of a message: `role` and `content`
_LETTERS = string.ascii_letters + string.digits


def to_neutral(endpoint: Endpoint, provider: Provider, request: ModelRequest) -> Json:
    """Return the body of a request in the shape that all providers accept."""
    body = wire_body(endpoint.model, request)
    if provider.call_ids:
        body[CALL_IDS] = provider.call_ids
    if provider.thoughts:
        body[THOUGHTS] = provider.thoughts
    if provider.empty_content:
        body[EMPTY] = True
    if provider.cache_key == "body" and request.affinity:
        body["prompt_cache_key"] = request.affinity
    return provider.trim(body)


def wire_body(model: str, request: ModelRequest) -> dict[str, Any]:
    """Return the JSON of a streaming request; unrequested fields are omitted."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body |= {"tools": list(request.tools), "tool_choice": request.tool_choice}
    if request.max_tokens:
        body["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.schema is not None:
        format_ = {"name": "answer", "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": format_}
    wanted = {**(request.parameters or {})}
    if not request.tools or request.tool_choice == "none":  # they concern tools, and are refused
        wanted = {name: value for name, value in wanted.items() if name not in _ABOUT_TOOLS}
    return body | wanted


_ABOUT_TOOLS = ("tool_choice", "parallel_tool_calls")


_SUBSTITUTES = {"max_tokens": "max_completion_tokens"}
"""The names that OpenAI's reasoning models require for a parameter that they refuse."""


def without(body: Mapping[str, Any], unwanted: frozenset[str]) -> dict[str, Any]:
    """Return the request without refused parameters, or with them under the required name."""
    kept = {name: value for name, value in body.items() if name not in unwanted}
    renamed = {
        other: body[name]
        for name, other in _SUBSTITUTES.items()
        if name in unwanted and name in body and other not in unwanted
    }
    return kept | renamed


def to_body(neutral: Mapping[str, Any], beside: RequestExtras) -> Mapping[str, Any]:
    """Return the body to be sent: its history keeps the rules of the protocol, ids of calls have
    the provider's length, and the thoughts in `beside` are added if the provider requires them."""
    length, field = neutral.get(CALL_IDS, 0), neutral.get(THOUGHTS)
    dialogue, beside = read_history(neutral, beside)
    messages: Iterable[Mapping[str, Any]] = dialogue
    if field:
        is_everywhere = bool(neutral.get(EVERYWHERE))
        messages = [_with_thoughts(one, field, beside, is_everywhere) for one in messages]
    messages = alternate([*messages])
    if neutral.get(EMPTY):
        messages = [one if one.get("content") else {**one, "content": ""} for one in messages]
    messages = [_with_ids(one, length) if len(one) > _PLAIN else one for one in messages]
    messages = inspect("chat", messages)
    body = {name: value for name, value in neutral.items() if name not in _OWN}
    return body | {"messages": messages}


_OWN = frozenset(OWN) - {"messages", "tools"}


def _with_thoughts(
    message: Mapping[str, Any], field: str, beside: RequestExtras, is_everywhere: bool
) -> Mapping[str, Any]:
    if not (calls := message.get("tool_calls")):
        is_answer = is_everywhere and message["role"] == "assistant"
        return {**message, TEXT: UNRECORDED} if is_answer else message
    first = calls[0]["id"]
    return restore_thoughts(
        message, field, beside.thoughts.get(first, ""), beside.reasoning.get(first, "")
    )


def _with_ids(message: Mapping[str, Any], length: int) -> Mapping[str, Any]:
    if calls := message.get("tool_calls"):
        if all(fit_id(call["id"], length) == call["id"] for call in calls):
            return message
        own = [{**call, "id": fit_id(call["id"], length)} for call in calls]
        return {**message, "tool_calls": own}
    if "tool_call_id" in message:
        own_id = fit_id(message["tool_call_id"], length)
        return message if own_id == message["tool_call_id"] else {**message, "tool_call_id": own_id}
    return message


def fit_id(call: str, length: int) -> str:
    """Return an id of exactly this many letters and digits, or, with 0, of at most 40 characters,
    which is OpenAI's limit."""
    if not length:
        return call if len(call) <= _LONGEST_ID else shorten_id(call, _LONGEST_ID)
    return shorten_id(call, length)


def shorten_id(call: str, length: int) -> str:
    """Return an id of this many letters and digits; a valid one stays unchanged."""
    if re.fullmatch(f"[a-zA-Z0-9]{{{length}}}", call):
        return call
    number, letters = int.from_bytes(sha256(call.encode()).digest(), "big"), ""
    for _ in range(length):
        number, rest = divmod(number, len(_LETTERS))
        letters += _LETTERS[rest]
    return letters
