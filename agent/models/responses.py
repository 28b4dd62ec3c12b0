"""Requests of OpenAI's Responses API, made from those of chat completions, and its streamed
answers. The same request gives the same bytes. Nothing is stored there (`store: false`): what was
said goes along, and so do the model's encrypted thoughts, before the calls that they led to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from agent.models.answer import Answer
from agent.models.base import ModelReply, ModelRequest, read_finish
from agent.models.brain import Provider
from agent.models.endpoint import RESPONSES, Endpoint
from agent.models.history import NOTHING, OWN, inspect, read_history
from agent.models.openai_request import shorten_id
from agent.models.partial_calls import LONGEST_NAME, MOST_CALLS
from agent.models.shapes import (
    as_list,
    as_mapping,
    count,
    get_string,
    join_halves,
    read_json,
    read_usage,
)
from memory.messages import RequestExtras, ToolCall

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


LONGEST_ID = 64
"""Characters of a call's id."""
Json = dict[str, Any]

_UNSEEN = "(a picture that is at no address)"
LEAST = 16
"""The minimum limit of an answer in tokens."""


def to_neutral(endpoint: Endpoint, provider: Provider, request: ModelRequest) -> Json:
    """Return the body of a streaming request with messages and tools still in the shape of chat
    completions; unrequested fields are omitted."""
    wanted = dict(request.parameters or {})
    body: Json = {
        "protocol": RESPONSES,  # as long as it is in the other shape
        "model": endpoint.model,
        "messages": list(request.messages),
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    if request.tools:
        body["tools"] = list(request.tools)
        body["tool_choice"] = _tool_choice(request, wanted.get("tool_choice"))
        if wanted.get("parallel_tool_calls") is False:
            body["parallel_tool_calls"] = False
    if request.max_tokens:
        body["max_output_tokens"] = max(LEAST, request.max_tokens)
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if thinks := endpoint.effort or wanted.get("reasoning_effort"):
        body["reasoning"] = {"effort": thinks}
    if form := _format(request):
        body["text"] = {"format": form}
    if provider.cache_key and request.affinity:
        body["prompt_cache_key"] = request.affinity
    return provider.trim(body)


def _tool_choice(request: ModelRequest, wanted: object) -> object:
    match wanted:
        case {"function": {"name": str(name)}} if request.tool_choice == "auto":
            return {"type": "function", "name": name}
        case "required" | "none" if request.tool_choice == "auto":
            return wanted
    return request.tool_choice


def _format(request: ModelRequest) -> Json:
    match (request.parameters or {}).get("response_format"):
        case {"type": "json_schema", "json_schema": dict(given)}:
            return {"type": "json_schema", **given}
        case {"type": "json_object"}:
            return {"type": "json_object"}
    if request.schema is None:
        return {}
    return {"type": "json_schema", "name": "answer", "schema": dict(request.schema)}


def without(body: Mapping[str, Any], unwanted: frozenset[str]) -> Json:
    """Return the request without refused parameters."""
    return {name: value for name, value in body.items() if name not in unwanted}


def to_body(neutral: Mapping[str, Any], beside: RequestExtras) -> Json:
    """Return the body of a request. `neutral` has the messages and the tools in the other shape,
    the rest in the API's; `beside` is the data that that shape has no place for."""
    body = {name: value for name, value in neutral.items() if name not in OWN}
    said, beside = read_history(neutral, beside)
    body["input"] = _to_input(said, beside)
    if tools := neutral.get("tools"):
        body["tools"] = [_to_tool(tool) for tool in tools]
    return inspect("responses", body)


def _to_input(messages: Sequence[Mapping[str, Any]], beside: RequestExtras) -> list[Json]:
    """Return the items: at least one, and none twice. A thought repeated by a branch or an import
    stays only at its first place."""
    seen: set[str] = set()
    items: list[Json] = []
    for item in _to_items(messages, beside):
        if item.get("id", "") not in seen:
            items.append(item)
        seen.update(filter(None, [item.get("id")]))
    return items or [{"role": "user", "content": NOTHING}]


def _to_items(messages: Sequence[Mapping[str, Any]], beside: RequestExtras) -> Iterator[Json]:
    for one in messages:
        match one["role"]:
            case "assistant":
                yield from _assistant(one, beside)
            case "tool":
                call = _to_id(one["tool_call_id"])
                output = _to_content(one["content"], "input")
                yield {"type": "function_call_output", "call_id": call, "output": output}
            case "user":
                content = _to_content(one["content"], "input")
                is_blank = not (content.strip() if isinstance(content, str) else content)
                yield {"role": "user", "content": NOTHING if is_blank else content}
            case role:
                if (text := _text_of(one["content"])).strip():
                    yield {"role": role, "content": text}


def _assistant(one: Mapping[str, Any], beside: RequestExtras) -> Iterator[Json]:
    calls = {call["id"]: _to_call(call) for call in one.get("tool_calls") or ()}
    content = one.get("content") or ""
    content = _text_of(content)
    thoughts = beside.thoughts.get(next(iter(calls), ""), "")
    yield from _in_order(content, calls, read_layout(thoughts))


def _in_order(content: str, calls: Mapping[str, Json], layout: Iterable[Any]) -> Iterator[Json]:
    """Yield the items in their original order, by `read_layout`: a thought must
    directly precede its result. A call whose id was replaced, so that the layout does not name it,
    is the next one; text without a place comes at the end."""
    left = dict(calls)
    thought: list[Json] = []
    for item in layout:
        if isinstance(item, dict):
            thought.append(item)
        elif isinstance(item, int):
            piece, content = content[:item], content[item:]
            if piece.strip():
                yield from (*thought, _say(piece))
            thought = []
        else:
            if named := item if item in left else next(iter(left), ""):
                yield from (*thought, left.pop(named))
            thought = []
    if content.strip():
        yield _say(content)
    yield from left.values()


def _say(text: str) -> Json:
    return {"role": "assistant", "content": text}


def _to_call(call: Mapping[str, Any]) -> Json:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": _to_id(call["id"]),
        "name": function["name"],
        "arguments": function["arguments"],
    }


def _to_id(call: str) -> str:
    return call if len(call) <= LONGEST_ID else shorten_id(call, 40)


def _text_of(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return content if isinstance(content, str) else ""


def _to_content(content: object, kind: str) -> str | list[Json]:
    if not isinstance(content, list):
        return content if isinstance(content, str) else ""
    return [_to_part(part, kind) for part in content]


def _to_part(part: Mapping[str, Any], kind: str) -> Json:
    if part["type"] != "image_url":
        return {"type": f"{kind}_text", "text": str(part.get("text", ""))}
    url = part["image_url"]["url"]
    if not url.startswith(("data:image/", "http")):
        return {"type": f"{kind}_text", "text": _UNSEEN}
    return {"type": f"{kind}_image", "image_url": url, "detail": "auto"}


def _to_tool(tool: Mapping[str, Any]) -> Json:
    function = tool["function"]
    made: Json = {"type": "function", "name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    parameters = {"type": "object", "properties": {}, **function.get("parameters", {})}
    return made | {"parameters": parameters, "strict": False}
