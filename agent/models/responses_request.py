"""A request in the shape of OpenAI's Responses API, made from one in the shape of chat completions.
Pure: the same request gives the same bytes, so that what was sent can be made again.

Nothing is stored there (`store: false`): what was said goes along with each request, and so do the
model's thoughts, encrypted as they came, in front of the calls that they led to.

The rules of OpenAI's Responses API for the body of a request, each with who says so.

`responses_request.to_body` makes no body that breaks one, whatever the history is; tests check each
request (`history.check_body`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.models.base import ModelRequest
from agent.models.endpoint import RESPONSES, Endpoint
from agent.models.history import CALLS, NOTHING, BodyRule, check, check_body, strict_object
from agent.models.neutral import OWN, read_history
from agent.models.openai_request import shorten_id
from agent.models.providers import Provider
from agent.models.responses_answer import THOUGHT, read_layout
from memory.messages import RequestExtras
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


Json = dict[str, Any]

_UNSEEN = "(a picture that is at no address)"
LEAST = 16
"""Tokens that an answer must be allowed to have."""


def to_neutral(endpoint: Endpoint, provider: Provider, request: ModelRequest) -> Json:
    """Return the body of a streaming request before its messages and tools are in the API's shape;
    what is not asked for is not in it."""
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
    """Return the request without parameters that were refused."""
    return {name: value for name, value in body.items() if name not in unwanted}


def to_body(neutral: Mapping[str, Any], beside: RequestExtras) -> Json:
    """Return the body of a request. `neutral` has the messages and the tools in the other shape,
    all else as the API has it; `beside` is what that shape has no place for."""
    body = {name: value for name, value in neutral.items() if name not in OWN}
    said, beside = read_history(neutral, beside)
    messages = check([*said], CALLS)
    body["input"] = _to_input(messages, beside)
    if tools := neutral.get("tools"):
        body["tools"] = [_to_tool(tool) for tool in tools]
    return check_body(body, RULES)


def _to_input(messages: Sequence[Mapping[str, Any]], beside: RequestExtras) -> list[Json]:
    """Return the items, of which there must be one, and none twice: a thought that a branch or an
    import has brought along again stands where it came first."""
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
    """Yield the items in the order in which they came, by `responses_answer.layout`: a thought may
    stand only before what it led to. A call that the layout does not name, since its id came again
    and was replaced, is the next one; what it says nothing of stands at the end."""
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
    """Return the text of a content."""
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
