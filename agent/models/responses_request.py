"""A request in the shape of OpenAI's Responses API, made from one in the shape of chat completions.
Pure: the same request gives the same bytes, so that what was sent can be made again.

Nothing is stored there (`store: false`): what was said goes along with each request, and so do the
model's thoughts, encrypted as they came, in front of the calls that they led to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.models.base import ModelRequest
from agent.models.endpoint import RESPONSES, Endpoint
from agent.models.history import NOTHING, OWN, inspect, read_history
from agent.models.openai_request import shorten_id
from agent.models.providers import Provider
from agent.models.responses_answer import read_layout
from memory.messages import RequestExtras

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
    """Yield the items in their original order, by `responses_answer.layout`: a thought must
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
