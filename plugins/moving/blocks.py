"""Content in blocks, as in Anthropic's API and other programs: texts, reasoning, tool calls and
their results."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from agent.models.shapes import as_list, as_mapping
from memory.messages import ToolCall
from plugins.moving.reading import MOST_PICTURE
from plugins.moving.source import ForeignMessage, SkippedItems, as_text

_KINDS = {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image"}
_DATA = re.compile(r"data:image/[\w.+-]+;base64,")


def read_blocks(
    role: str, content: object, at: datetime | None, skipped: SkippedItems
) -> list[ForeignMessage]:
    """Return the messages in such content: tool results first, since they answer earlier calls.
    Unreadable parts are counted."""
    blocks = [as_mapping(one) for one in as_list(content)]
    text = as_text(content) or join_texts(blocks)
    for kind in (as_text(one.get("type")) for one in blocks):
        if kind not in _KINDS:
            skipped.add_unread("content", kind)
    if role == "user":
        results = [
            _read_result(one, at, skipped) for one in blocks if one.get("type") == "tool_result"
        ]
        pictures = tuple(find_pictures(blocks))
        if text.strip() or pictures:
            return [*results, ForeignMessage("user", text, at, pictures=pictures)]
        return results
    if role != "assistant":
        skipped.add_unread("message", role)
        return []
    return [read_reply(text, blocks, at)]


def read_reply(
    text: str,
    blocks: Sequence[Mapping[str, Any]],
    at: datetime | None,
    call: str = "tool_use",
    arguments: str = "input",
) -> ForeignMessage:
    """Return what a model says in this text, with the thoughts and calls in blocks; `call` is the
    type of those there, and `arguments` their field of that."""
    thoughts = (as_text(one.get("thinking")) for one in blocks if one.get("type") == "thinking")
    calls = (
        ToolCall(
            as_text(one.get("id")),
            as_text(one.get("name")),
            json.dumps(as_mapping(one.get(arguments)), ensure_ascii=False),
        )
        for one in blocks
        if one.get("type") == call
    )
    reasoning = "\n\n".join(filter(None, thoughts))
    return ForeignMessage("assistant", text, at, reasoning=reasoning, calls=tuple(calls))


def join_texts(blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return the text blocks as one text."""
    texts = (as_text(one.get("text")) for one in blocks if one.get("type") == "text")
    return "\n\n".join(filter(None, texts))


def find_pictures(blocks: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the pictures contained in blocks, in the form that `decode_picture` reads."""
    found = []
    for one in (one for one in blocks if one.get("type") == "image"):
        source = as_mapping(one.get("source")) or one
        kind = as_text(source.get("media_type")) or as_text(source.get("mimeType"))
        found.append(f"data:{kind};base64,{as_text(source.get('data'))}")
    return found


def decode_picture(name: str) -> bytes | None:
    """Return the bytes of a picture in a data URL; None if it is not one, or too large."""
    if not (found := _DATA.match(name)):
        return None
    try:
        content = base64.b64decode(name[found.end() :], validate=False)
    except ValueError:
        return None
    return content if len(content) <= MOST_PICTURE else None


def count_returned_pictures(blocks: Iterable[Mapping[str, Any]], skipped: SkippedItems) -> None:
    """Count the pictures in a tool's result, which are not imported."""
    number = sum(one.get("type") == "image" for one in blocks)
    skipped.add(number, "picture that a tool returned", "pictures that tools returned")


def _read_result(
    block: Mapping[str, Any], at: datetime | None, skipped: SkippedItems
) -> ForeignMessage:
    content = block.get("content")
    parts = [as_mapping(one) for one in as_list(content)]
    count_returned_pictures(parts, skipped)
    return ForeignMessage(
        "tool",
        join_texts(parts) or as_text(content),
        at,
        call_id=as_text(block.get("tool_use_id")),
        tool="tool",
        is_error=block.get("is_error") is True,
    )
