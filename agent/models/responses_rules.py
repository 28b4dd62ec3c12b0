"""The rules of OpenAI's Responses API for the body of a request, each with who says so.

`responses_request.to_body` makes no body that breaks one, whatever the history is; tests check each
request (`history.check_body`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agent.models.history import BodyRule, strict_object
from agent.models.responses_answer import THOUGHT
from memory.patterns import lazy

Body = Mapping[str, Any]
Item = Mapping[str, Any]

LONGEST_ID = 64
"""Characters of a call's id."""
CALL, OUTPUT = "function_call", "function_call_output"
_NAME = lazy(r"[a-zA-Z0-9_-]{1,64}")
_SPEAKERS = ("user", "assistant", "system", "developer")
_PARTS = ("input_text", "input_image")


def _items(body: Body, kind: str) -> Iterator[tuple[int, Item]]:
    """Return the items of a kind, and their places."""
    own = enumerate(body["input"])
    return ((number, item) for number, item in own if item.get("type", "message") == kind)


def _input(body: Body) -> Iterator[str]:
    if not body["input"]:
        yield "there is nothing in it"
    for number, item in enumerate(body["input"]):
        kind = item.get("type", "message")
        if kind not in ("message", CALL, OUTPUT, THOUGHT):
            yield f"item {number} is a {kind}"
        if kind == "message" and item.get("role") not in _SPEAKERS:
            yield f"item {number} is of {item.get('role')}"


def _contents(body: Body) -> Iterator[str]:
    for number, item in _items(body, "message"):
        content = item["content"]
        if not (content.strip() if isinstance(content, str) else content):
            yield f"item {number} says nothing"
        if item["role"] == "assistant" and not isinstance(content, str):
            yield f"item {number} is an answer in parts"
        kinds = {part["type"] for part in content} if isinstance(content, list) else set()
        if kinds.difference(_PARTS):
            yield f"item {number} has {sorted(kinds)}"
        if item["role"] in ("system", "developer") and "input_image" in kinds:
            yield f"item {number} shows a picture to nobody"


def _images(body: Body) -> Iterator[str]:
    for number, item in enumerate(body["input"]):
        content = item.get("content", item.get("output"))
        for part in content if isinstance(content, list) else ():
            url = part.get("image_url", "")
            if part["type"] == "input_image" and not url.startswith(("data:image/", "http")):
                yield f"item {number} has a picture at no address"


def _ids(body: Body) -> Iterator[str]:
    seen: set[str] = set()
    for number, item in enumerate(body["input"]):
        if "id" not in item:
            continue
        if item["id"] in seen or not item["id"]:
            yield f"item {number} has the id {item['id']!r}"
        seen.add(item["id"])


def _call_ids(body: Body) -> Iterator[str]:
    seen: set[str] = set()
    for number, item in _items(body, CALL):
        own = item["call_id"]
        if own in seen or not 0 < len(own) <= LONGEST_ID:
            yield f"item {number} has the call_id {own!r}"
        seen.add(own)


def _pairs(body: Body) -> Iterator[str]:
    waiting: list[str] = []
    for number, item in enumerate(body["input"]):
        kind = item.get("type")
        if kind == CALL:
            waiting.append(item["call_id"])
        elif kind == OUTPUT and item["call_id"] in waiting:
            waiting.remove(item["call_id"])
        elif kind == OUTPUT:
            yield f"item {number} is an output of {item['call_id']!r}, which was not called"
    if waiting:
        yield f"no output of {waiting}"


def _names(body: Body) -> Iterator[str]:
    for number, item in _items(body, CALL):
        if not _NAME.fullmatch(item["name"]):
            yield f"item {number} names the tool {item['name']!r}"


def _arguments(body: Body) -> Iterator[str]:
    for number, item in _items(body, CALL):
        if strict_object(item["arguments"]) != item["arguments"]:
            yield f"item {number} has the arguments {item['arguments'][:80]!r}"


def _thoughts(body: Body) -> Iterator[str]:
    items = body["input"]
    for number, item in _items(body, THOUGHT):
        if not item.get("encrypted_content"):
            yield f"item {number} can't be read there, since nothing is stored"
        rest = (one for one in items[number + 1 :] if one.get("type") != THOUGHT)
        led_to: Item = next(rest, {})
        if led_to.get("role") != "assistant" and led_to.get("type") != CALL:
            yield f"item {number} is a thought that led to nothing"


def _choice(body: Body) -> Iterator[str]:
    if "tool_choice" in body and not body.get("tools"):
        yield "there is a choice of tools, and no tools"


_DOCS = "platform.openai.com/docs"
RULES = (
    BodyRule("input", f"{_DOCS}/api-reference/responses/create: items of known kinds", _input),
    BodyRule("empty contents", "strict servers: content must not be empty", _contents),
    BodyRule("pictures", f"{_DOCS}/guides/images: an address, or data in base64", _images),
    BodyRule("ids of items", "API: Duplicate item found with id", _ids),
    BodyRule(
        "ids of calls",
        "API: no duplicates (open-webui#28570); string too long, expected at most 64",
        _call_ids,
    ),
    BodyRule(
        "calls and outputs",
        "API: No tool output found for function call; No tool call found for function call output",
        _pairs,
    ),
    BodyRule("names of tools", "API: ^[a-zA-Z0-9_-]{1,64}$ (vercel/ai#17769)", _names),
    BodyRule("arguments", "RFC 8259; strict servers parse them (mastra#15717)", _arguments),
    BodyRule(
        "thoughts",
        "API: reasoning was provided without its required following item; Items are not persisted "
        "when `store` is false",
        _thoughts,
    ),
    BodyRule("choice of tools", "API: 'tool_choice' is only allowed with tools", _choice),
)
"""The rules of the Responses API, as its documentation and its refusals have them."""
