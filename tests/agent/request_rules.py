"""The rules of providers for requests, each with its source: for a history in OpenAI's form, and
for the body of a request to the Responses API (`claude_rules.py` has those for Anthropic). `demand`
makes each request of a test be checked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.models.history import INSPECTORS, Messages, strict_object
from agent.models.responses import LONGEST_ID, THOUGHT

Body = Mapping[str, Any]
Item = Mapping[str, Any]

CALL, OUTPUT = "function_call", "function_call_output"
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SPEAKERS = ("user", "assistant", "system", "developer")
_PARTS = ("input_text", "input_image")


class Rule(Struct, frozen=True):
    """A rule, its source, and a function that yields its violations."""

    name: str
    source: str
    breaches: Callable[[Any], Iterator[str]]


def find_faults(value: object, rules: Sequence[Rule]) -> list[str]:
    """Return a sentence for each violation of the rules."""
    return [f"{rule.name}: {what}" for rule in rules for what in rule.breaches(value)]


def check(value: object, rules: Sequence[Rule]) -> None:
    """Raise AssertionError if a rule is broken."""
    if faults := find_faults(value, rules):
        raise AssertionError(f"the request breaks rules of its protocol: {faults}")


def demand(what: str, rules: Sequence[Rule]) -> None:
    """Check each request from now on."""
    INSPECTORS[what] = lambda value: check(value, rules)


def _calls(messages: Messages) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        yield from message.get("tool_calls") or ()


def _call_names(messages: Messages) -> Iterator[str]:
    names = (str(call["function"]["name"]) for call in _calls(messages))
    return (f"{name!r} names a tool" for name in names if not _NAME.fullmatch(name))


def _arguments(messages: Messages) -> Iterator[str]:
    texts = (str(call["function"]["arguments"]) for call in _calls(messages))
    return (f"{text[:80]!r} is no object" for text in texts if strict_object(text) != text)


def _ids(messages: Messages) -> Iterator[str]:
    seen: set[str] = set()
    for call in _calls(messages):
        if call["id"] in seen or not call["id"]:
            yield f"{call['id']!r} comes again"
        seen.add(call["id"])


def _pairs(messages: Messages) -> Iterator[str]:
    waiting: list[str] = []
    for message in [*messages, {"role": "end"}]:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"a result of {message['tool_call_id']!r}, which was not called just before"
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield f"no result of {waiting}"
        waiting = [call["id"] for call in message.get("tool_calls") or ()]


def _order(messages: Messages) -> Iterator[str]:
    before = ""
    for number, message in enumerate(messages):
        role = message["role"]
        if role in ("system", "developer"):
            before = before and "system"  # only clients put one elsewhere
            continue
        if before not in _BEFORE.get(role, ()):
            yield f"message {number} is of {role} behind one of {before or 'nobody'}"
        before = role


_BEFORE = {
    "user": ("", "system", "assistant"),
    "assistant": ("system", "user", "tool"),
    "tool": ("assistant", "tool"),
}


def _contents(messages: Messages) -> Iterator[str]:
    for number, message in enumerate(messages):
        if is_empty(message) and not message.get("tool_calls"):
            yield f"message {number} is empty"


def is_empty(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return not content.strip() if isinstance(content, str) else not content


CALLS = (
    Rule("names of tools", "OpenAI: ^[a-zA-Z0-9_-]{1,64}$ (vercel/ai#17769)", _call_names),
    Rule("arguments", "RFC 8259; strict servers parse them (mastra#15717)", _arguments),
    Rule("ids of calls", "Responses API: no duplicates (open-webui#28570)", _ids),
    Rule("calls and results", "OpenAI and Anthropic: a result for each call, behind it", _pairs),
)
"""The rules that all protocols share."""
CHAT = (
    *CALLS,
    Rule(
        "order of roles",
        "Mistral: no user behind a tool (hermes-agent#20154, zed#31736); templates of Gemma, "
        "Devstral, Ministral alternate (mistral-vibe#255, #578)",
        _order,
    ),
    Rule("empty messages", "Moonshot, Anthropic: content must not be empty", _contents),
)
"""The rules of chat completions, from the strictest endpoints."""


def _items(body: Body, kind: str) -> Iterator[tuple[int, Item]]:
    """Return the items of a kind, with their places."""
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


def _contents_of_body(body: Body) -> Iterator[str]:
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


def _ids_of_body(body: Body) -> Iterator[str]:
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


def _pairs_of_body(body: Body) -> Iterator[str]:
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


def _arguments_of_body(body: Body) -> Iterator[str]:
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
    Rule("input", f"{_DOCS}/api-reference/responses/create: items of known kinds", _input),
    Rule("empty contents", "strict servers: content must not be empty", _contents_of_body),
    Rule("pictures", f"{_DOCS}/guides/images: an address, or data in base64", _images),
    Rule("ids of items", "API: Duplicate item found with id", _ids_of_body),
    Rule(
        "ids of calls",
        "API: no duplicates (open-webui#28570); string too long, expected at most 64",
        _call_ids,
    ),
    Rule(
        "calls and outputs",
        "API: No tool output found for function call; No tool call found for function call output",
        _pairs_of_body,
    ),
    Rule("names of tools", "API: ^[a-zA-Z0-9_-]{1,64}$ (vercel/ai#17769)", _names),
    Rule("arguments", "RFC 8259; strict servers parse them (mastra#15717)", _arguments_of_body),
    Rule(
        "thoughts",
        "API: reasoning was provided without its required following item; Items are not persisted "
        "when `store` is false",
        _thoughts,
    ),
    Rule("choice of tools", "API: 'tool_choice' is only allowed with tools", _choice),
)
"""The rules of the Responses API, from its documentation and its refusals."""
