"""A streamed answer, assembled from the events of OpenAI's Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.answer import Answer, count, read_usage
from agent.models.base import ModelReply, read_finish
from agent.models.partial_calls import LONGEST_NAME, MOST_CALLS
from agent.models.shapes import as_list, as_mapping, get_string, join_halves, read_json
from memory.messages import ToolCall

_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete")
THOUGHT = "reasoning"


class _PartialItem(Struct):
    """An item that is still incomplete: a text, a call, or an encrypted thought."""

    kind: str
    fields: dict[str, str] = field(default_factory=dict)
    body: StringIO = field(default_factory=StringIO)
    is_cut: bool = False

    @property
    def text(self) -> str:
        return join_halves(self.body.getvalue())


class ResponsesAnswer(Answer):
    """The part of an answer received so far. Events may have any shape: anything outside the
    protocol counts as absent."""

    THINKS_ALOUD = False

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, _PartialItem] = {}

    def add(self, chunk: object) -> str:
        """Add an event; return its text."""
        event = as_mapping(chunk)
        self.thought = ""
        kind = event.get("type")
        if kind in _TEXTS:
            return self._write(self._item(event, "message"), get_string(event, "delta"))
        if kind in _THOUGHTS:
            self._think(get_string(event, "delta"))
        elif kind == "response.function_call_arguments.delta":
            self._write(self._item(event, "function_call"), get_string(event, "delta"))
        elif kind == "response.output_item.added":
            self._begin(event, as_mapping(event.get("item")))
        elif kind == "response.output_item.done":
            return self._end(event, as_mapping(event.get("item")))
        elif kind == "response.created" or kind in _ENDS:
            self._note(as_mapping(event.get("response")), is_end=kind in _ENDS)
        elif event.get("object") == "response":  # an endpoint that does not stream
            return self._add_whole(event)
        return ""

    def _add_whole(self, response: Mapping[str, Any]) -> str:
        output = response.get("output")
        items = enumerate(output if isinstance(output, list) else [])
        said = [self._end({"output_index": place}, as_mapping(item)) for place, item in items]
        self._note(response, is_end=True)
        return "".join(said)

    def _note(self, response: Mapping[str, Any], *, is_end: bool) -> None:
        self._model = self._model or get_string(response, "model")[:LONGEST_NAME]
        if usage := as_mapping(response.get("usage")):
            self._usage = read_usage(usage, None)
        if is_end:
            reason = get_string(as_mapping(response.get("incomplete_details")), "reason")
            self.finish = reason or str(response.get("status") or "completed")

    def _item(self, event: Mapping[str, Any], kind: str) -> _PartialItem:
        place = count(event, "output_index")
        if place not in self._items:
            if len(self._items) >= MOST_CALLS:
                self.is_full = True
                return _PartialItem(kind)
            self._items[place] = _PartialItem(kind)
        return self._items[place]

    def _begin(self, event: Mapping[str, Any], fields: Mapping[str, Any]) -> _PartialItem:
        item = self._item(event, get_string(fields, "type"))
        for name in ("id", "call_id", "name"):
            if name not in item.fields and (value := get_string(fields, name)):
                item.fields[name] = self._clip(value[:LONGEST_NAME])
        return item

    def _end(self, event: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
        """Add a whole item, with its parts that did not stream; return its new text."""
        item = self._begin(event, fields)
        if item.kind == THOUGHT:
            sealed = get_string(fields, "encrypted_content")
            item.fields["encrypted_content"] = kept = self._clip(sealed)
            item.is_cut |= len(kept) < len(sealed)
        if item.body.tell():
            return ""
        if item.kind == "function_call":
            return self._write(item, get_string(fields, "arguments"))
        content = fields.get("content")
        parts = [as_mapping(part) for part in (content if isinstance(content, list) else [])]
        texts = (get_string(part, "text") or get_string(part, "refusal") for part in parts)
        return self._write(item, "".join(texts)) if item.kind == "message" else ""

    def _write(self, item: _PartialItem, piece: str) -> str:
        item.body.write(kept := self._clip(piece))
        item.is_cut |= len(kept) < len(piece)
        if item.kind != "message":
            return ""
        self._text.write(kept)
        return join_halves(kept)

    def _think(self, piece: str) -> None:
        self._reasoning.write(kept := self._clip(piece))
        self.thought = join_halves(kept)

    @property
    def is_whole(self) -> bool:
        return self.is_full or bool(self.finish)

    def reply(self, model: str) -> ModelReply:
        items = [item for _, item in sorted(self._items.items()) if not item.is_cut]
        calls = tuple(
            ToolCall(item.fields["call_id"], item.fields["name"], item.text or "{}")
            for item in items
            if item.kind == "function_call" and {"call_id", "name"} <= item.fields.keys()
        )
        reply = super().reply(model)
        finish = reply.finish if self.is_full else read_finish(self.finish, has_calls=bool(calls))
        return replace(
            reply,
            tool_calls=calls,
            finish=finish,
            thoughts=layout(items) if calls else "",
        )


def layout(items: list[_PartialItem]) -> str:
    """Return the model's thoughts as JSON, with their place in the answer: thoughts in the form to
    be sent back, a text as the number of its characters, a call as its id. "" without thoughts that
    can be sent back."""
    made: list[object] = []
    for item in items:
        if item.kind == THOUGHT:
            if sealed := item.fields.get("encrypted_content"):
                own = {"type": THOUGHT, "id": item.fields.get("id", ""), "summary": []}
                made.append({**own, "encrypted_content": sealed})
        elif item.kind == "message":
            made.append(len(item.text))
        elif call := item.fields.get("call_id"):
            made.append(call)
    return orjson.dumps(made).decode() if any(isinstance(one, dict) for one in made) else ""


def read_layout(thoughts: str) -> list[Any]:
    """Return the items that `layout` made; other items (another protocol's, or those of an imported
    file) are dropped."""
    items = as_list(read_json(thoughts))
    return [one for one in items if _is_thought(one) or type(one) is int or isinstance(one, str)]


def _is_thought(item: object) -> bool:
    return (
        isinstance(item, dict)
        and item.keys() == {"type", "id", "summary", "encrypted_content"}
        and item["type"] == THOUGHT
        and item["summary"] == []
        and all(isinstance(item[name], str) and item[name] for name in ("id", "encrypted_content"))
    )
