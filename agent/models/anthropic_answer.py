"""A streamed answer, assembled from the events of Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import orjson
from msgspec.structs import replace

from agent.models.answer import Answer
from agent.models.base import ModelReply, Usage, read_finish
from agent.models.partial_calls import LONGEST_NAME
from agent.models.shapes import as_list, as_mapping, count, get_string, join_halves, read_json
from memory.messages import ToolCall

PAUSED = "pause_turn"
"""The stop reason of an answer that continues when it is sent back unchanged."""
MOST_BLOCKS = 2_000
"""The maximum number of blocks in one answer."""


class _PartialBlock:
    """A block that is still incomplete: its text, thoughts, or a call's arguments."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.fields = dict(fields)
        self.kind = get_string(fields, "type")
        self.body = StringIO()
        self.signature = StringIO()
        self.is_cut = False

    @property
    def text(self) -> str:
        return join_halves(self.body.getvalue())


class AnthropicAnswer(Answer):
    """The part of an answer received so far. Events may have any shape: anything outside the
    protocol counts as absent. `content` is the whole in blocks, to be sent back unchanged."""

    THINKS_ALOUD = False

    def __init__(self) -> None:
        super().__init__()
        self._blocks: dict[int, _PartialBlock] = {}
        self._counted: dict[str, int] = {}

    def add(self, chunk: object) -> str:
        """Add an event; return its text."""
        event = as_mapping(chunk)
        self.thought = ""
        match event.get("type"):
            case "message_start":
                message = as_mapping(event.get("message"))
                self._model = self._model or get_string(message, "model")[:LONGEST_NAME]
                self._count(as_mapping(message.get("usage")))
            case "content_block_start":
                return self._begin(event, as_mapping(event.get("content_block")))
            case "content_block_delta":
                return self._grow(event, as_mapping(event.get("delta")))
            case "message_delta":
                reason = get_string(as_mapping(event.get("delta")), "stop_reason")
                self.finish = reason or self.finish
                self._count(as_mapping(event.get("usage")))
            case "message":  # an endpoint that does not stream
                return self._add_whole(event)
        return ""

    def _add_whole(self, message: Mapping[str, Any]) -> str:
        self.add({"type": "message_start", "message": message})
        content = message.get("content")
        pieces = [
            self._begin({"index": index}, as_mapping(block))
            for index, block in enumerate(content if isinstance(content, list) else [])
        ]
        self.add({"type": "message_delta", "delta": message, "usage": message.get("usage")})
        return "".join(pieces)

    def _begin(self, event: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
        if len(self._blocks) >= MOST_BLOCKS:
            self.is_full = True
            return ""
        block = self._blocks[count(event, "index")] = _PartialBlock({})
        block.kind = get_string(fields, "type")
        for name in ("id", "name", "data"):
            if value := get_string(fields, name):
                block.fields[name] = self._clip(value)
                block.is_cut |= len(block.fields[name]) < len(value)
        if given := as_mapping(fields.get("input")):
            self._write(block, orjson.dumps(given).decode())
        if signature := get_string(fields, "signature"):
            block.signature.write(self._clip(signature))
        return self._write(block, get_string(fields, "thinking") or get_string(fields, "text"))

    def _grow(self, event: Mapping[str, Any], delta: Mapping[str, Any]) -> str:
        block = self._blocks.get(count(event, "index"))
        if block is None:
            return ""
        if signature := get_string(delta, "signature"):
            block.signature.write(kept := self._clip(signature))
            block.is_cut |= len(kept) < len(signature)
        names = ("text", "thinking", "partial_json")
        return self._write(block, next(filter(None, (get_string(delta, n) for n in names)), ""))

    def _write(self, block: _PartialBlock, piece: str) -> str:
        block.body.write(kept := self._clip(piece))
        block.is_cut |= len(kept) < len(piece)
        if block.kind == "thinking":
            self._reasoning.write(kept)
            self.thought = join_halves(kept)
        if block.kind != "text":
            return ""
        self._text.write(kept)
        return join_halves(kept)

    def _count(self, fields: Mapping[str, Any]) -> None:
        """Update the usage by counts, which are cumulative; an omitted count stays unchanged."""
        self._counted |= {name: count(fields, name) for name in _COUNTS if fields.get(name)}
        if not self._counted:
            return
        fresh, read, written, output = (self._counted.get(name, 0) for name in _COUNTS)
        self._usage = Usage(fresh + read + written, output, cached=read, written=written)

    @property
    def is_whole(self) -> bool:
        """Return whether the end has arrived: usage alone comes at the beginning already."""
        return self.is_full or bool(self.finish)

    @property
    def is_paused(self) -> bool:
        return self.finish == PAUSED

    @property
    def content(self) -> list[dict[str, Any]]:
        """The blocks in order, without truncated ones."""
        blocks = (_to_block(block) for _, block in sorted(self._blocks.items()) if not block.is_cut)
        return [block for block in blocks if block]

    def reply(self, model: str) -> ModelReply:
        uses = [b for _, b in sorted(self._blocks.items()) if b.kind == "tool_use" and not b.is_cut]
        calls = tuple(
            ToolCall(b.fields.get("id", ""), b.fields.get("name", ""), b.text) for b in uses
        )
        known = tuple(call for call in calls if call.id and call.name)
        reply = super().reply(model)
        finish = reply.finish if self.is_full else read_finish(self.finish, has_calls=bool(known))
        return replace(reply, tool_calls=known, finish=finish)


_COUNTS = (
    "input_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "output_tokens",
)


def _to_block(block: _PartialBlock) -> dict[str, Any]:
    match block.kind:
        case "text" if block.text.strip():
            return {"type": "text", "text": block.text}
        case "thinking" if signature := block.signature.getvalue():
            return {"type": "thinking", "thinking": block.text, "signature": signature}
        case "redacted_thinking" if data := block.fields.get("data"):
            return {"type": "redacted_thinking", "data": data}
        case "tool_use" if {"id", "name"} <= block.fields.keys():
            return {"type": "tool_use", **block.fields, "input": as_mapping(read_json(block.text))}
    return {}


def layout(content: list[dict[str, Any]]) -> str:
    """Return the model's thoughts as JSON, with their place in the answer: thoughts unchanged, a
    text as the number of its characters, a call as its id. "" without thoughts."""
    if not any(block["type"].endswith("thinking") for block in content):
        return ""
    items = [
        len(block["text"])
        if block["type"] == "text"
        else block["id"]
        if block["type"] == "tool_use"
        else block
        for block in content
    ]
    return orjson.dumps(items).decode()


def read_layout(thoughts: str) -> list[Any]:
    """Return the items that `layout` made; other items (an imported file may contain anything) are
    dropped."""
    return [item for item in as_list(read_json(thoughts)) if _is_item(item)]


def _is_item(item: object) -> bool:
    if isinstance(item, dict):
        fields = _SEALED.get(str(item.get("type")), {"type", ""})
        sealed = item.get("signature") or item.get("data")  # without one it is refused
        return item.keys() == fields and bool(sealed) and all(map(_is_text, item.values()))
    return type(item) is int or isinstance(item, str)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


THOUGHTS = ("thinking", "redacted_thinking")
_SEALED = {
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
"""The fields of a thought when it is sent back."""
