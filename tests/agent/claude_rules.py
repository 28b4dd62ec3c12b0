"""The rules of Anthropic's Messages API for the body of a request, each with its source.

`anthropic_request.to_body` makes no body that breaks one, for any history.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.models.anthropic_answer import THOUGHTS
from agent.models.anthropic_request import IMAGES
from tests.agent.request_rules import Rule

Body = Mapping[str, Any]
Block = Mapping[str, Any]

MOST_MARKS = 4
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_KINDS: Mapping[str, frozenset[str]] = {
    "user": frozenset({"text", "image", "document", "tool_result"}),
    "assistant": frozenset({"text", "tool_use", *THOUGHTS}),
}
_SEALED = {"thinking": "signature", "redacted_thinking": "data"}
"""The field without which a thought is refused."""


def _blocks(body: Body) -> Iterator[tuple[str, str, Block]]:
    """Yield the path, the role and the block for each block of the messages."""
    for number, message in enumerate(body["messages"]):
        for place, block in enumerate(message["content"]):
            yield f"messages.{number}.content.{place}", message["role"], block


def _inner(block: Block) -> list[Block]:
    """Return the blocks in the result of a tool."""
    content = block.get("content") if block["type"] == "tool_result" else None
    return content if isinstance(content, list) else []


def _of(body: Body, kind: str) -> Iterator[tuple[str, Block]]:
    """Yield the blocks of a kind, including those in tool results."""
    for where, _, block in _blocks(body):
        yield from ((where, one) for one in (block, *_inner(block)) if one["type"] == kind)


def _roles(body: Body) -> Iterator[str]:
    roles = [message["role"] for message in body["messages"]]
    if not roles or roles[0] != "user":
        yield f"the first message is of {roles[0] if roles else 'nobody'}"
    for number, (one, other) in enumerate(itertools.pairwise(roles)):
        if one == other:
            yield f"messages {number} and {number + 1} are both of {one}"


def _kinds(body: Body) -> Iterator[str]:
    for where, role, block in _blocks(body):
        if block["type"] not in _KINDS.get(role, ()):
            yield f"{where} is a {block['type']} of {role}"


def _pairs(body: Body) -> Iterator[str]:
    waiting: list[str] = []
    for number, message in enumerate([*body["messages"], {"role": "user", "content": []}]):
        blocks = message["content"]
        answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if sorted(answered) != sorted(waiting):
            yield f"message {number} has results of {answered}, and was to have those of {waiting}"
        is_result = [block["type"] == "tool_result" for block in blocks]
        if is_result != sorted(is_result, reverse=True):
            yield f"message {number} has something in front of a result"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]


def _ids(body: Body) -> Iterator[str]:
    seen: set[str] = set()
    for where, block in _of(body, "tool_use"):
        own = block["id"]
        if own in seen or not _ID.fullmatch(own):
            yield f"{where} has the id {own!r}"
        seen.add(own)


def _names(body: Body) -> Iterator[str]:
    for where, block in _of(body, "tool_use"):
        if not _NAME.fullmatch(block["name"]):
            yield f"{where} names the tool {block['name']!r}"


def _inputs(body: Body) -> Iterator[str]:
    uses = _of(body, "tool_use")
    return (f"{where} has no object" for where, use in uses if not isinstance(use["input"], dict))


def _offered(body: Body) -> Iterator[str]:
    kinds = {block["type"] for _, _, block in _blocks(body)}
    if kinds & {"tool_use", "tool_result"} and not body.get("tools"):
        yield "there are calls in the messages, and no tools"
    if "tool_choice" in body and not body.get("tools"):
        yield "there is a choice of tools, and no tools"


def _forced(body: Body) -> Iterator[str]:
    is_forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    if is_forced and body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        yield "a tool is forced while the model thinks"


def _texts(body: Body) -> Iterator[str]:
    for where, block in _of(body, "text"):
        if not block["text"].strip():
            yield f"{where} says nothing"
    for number, message in enumerate(body["messages"]):
        if not message["content"]:
            yield f"message {number} is empty"
    for number, block in enumerate(body.get("system", ())):
        if not block["text"].strip():
            yield f"system.{number} says nothing"


def _ending(body: Body) -> Iterator[str]:
    if not body["messages"] or body["messages"][-1]["role"] != "assistant":
        return
    last = body["messages"][-1]["content"][-1]
    if last["type"] == "text" and last["text"] != last["text"].rstrip():
        yield "it ends in blanks"


def _thoughts(body: Body) -> Iterator[str]:
    for where, _, block in _blocks(body):
        kind = block["type"]
        if kind not in THOUGHTS:
            continue
        if not block.get(_SEALED[kind]):
            yield f"{where} has no {_SEALED[kind]}"
        if extra := block.keys() - {"type", "thinking", "signature", "data"}:
            yield f"{where} has {min(extra)}"
    for number, message in enumerate(body["messages"]):
        kinds = [block["type"] for block in message["content"]]
        led_to = [place for place, kind in enumerate(kinds) if kind == "tool_use"]
        behind = kinds[led_to[-1] + 1 if led_to else len(kinds) - 1 :]
        if not {*THOUGHTS}.isdisjoint(behind):
            yield f"message {number} has a thought behind what it led to"


def _marks(body: Body) -> Iterator[str]:
    own = [block for _, _, block in _blocks(body)]
    inner = [one for block in own for one in _inner(block)]
    places = (*body.get("tools", ()), *body.get("system", ()), *own, *inner)
    marked = [block for block in places if "cache_control" in block]
    if len(marked) > MOST_MARKS:
        yield f"{len(marked)} blocks are marked"
    if any(block.get("type") in THOUGHTS for block in marked):
        yield "a thought is marked"


def _images(body: Body) -> Iterator[str]:
    for where, block in _of(body, "image"):
        source = block["source"]
        if source["type"] == "base64" and source["media_type"] not in IMAGES:
            yield f"{where} is {source['media_type']}"
        if source["type"] == "url" and not source["url"].startswith(("https://", "http://")):
            yield f"{where} is at no address"


_DOCS = "docs.claude.com/en"
RULES = (
    Rule("order of roles", f"{_DOCS}/api/messages: a user first, then by turns", _roles),
    Rule("kinds of blocks", f"{_DOCS}/api/messages: what each role may say", _kinds),
    Rule(
        "calls and results",
        f"{_DOCS}/agents-and-tools/tool-use/implement-tool-use: in the next message, results "
        "first (anthropics/claude-code#7929, #13460)",
        _pairs,
    ),
    Rule("ids of calls", "API: String should match pattern '^[a-zA-Z0-9_-]+$'; unique", _ids),
    Rule(
        "names of tools",
        f"{_DOCS}/agents-and-tools/tool-use/implement-tool-use: ^[a-zA-Z0-9_-]{{1,64}}$; newer "
        "models take 128 letters, which others don't",
        _names,
    ),
    Rule("arguments", "API: tool_use.input: Input should be a valid dictionary", _inputs),
    Rule(
        "calls without tools",
        "API: Requests which include `tool_use` or `tool_result` blocks must define tools",
        _offered,
    ),
    Rule(
        "forced tools",
        f"{_DOCS}/build-with-claude/extended-thinking: only auto and none with thinking",
        _forced,
    ),
    Rule("empty texts", "API: text content blocks must contain non-whitespace text", _texts),
    Rule(
        "blanks at the end",
        "API: final assistant content cannot end with trailing whitespace",
        _ending,
    ),
    Rule(
        "thoughts",
        f"{_DOCS}/build-with-claude/extended-thinking: signed, unmodified, before what they led "
        "to; the final block cannot be `thinking`",
        _thoughts,
    ),
    Rule(
        "marks of the cache",
        f"{_DOCS}/build-with-claude/prompt-caching: at most four, none on thoughts",
        _marks,
    ),
    Rule(
        "pictures",
        f"{_DOCS}/build-with-claude/vision: image/jpeg, image/png, image/gif, image/webp",
        _images,
    ),
)
"""The rules of the Messages API, from its documentation and its refusals."""
