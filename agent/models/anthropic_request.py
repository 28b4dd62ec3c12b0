"""A request in the shape of Anthropic's Messages API, made from one in OpenAI's shape. Pure: the
same request gives the same bytes, so that a sent request can be reproduced.

The API differs as follows. The system prompt is beside the messages. Users and assistants
alternate, so consecutive messages of one role become one. The results of all calls of a step come
first in the message after it. Texts are not empty. Ids and names of calls use its letters. Thoughts
precede their calls, unchanged.

The prompt is cached up to at most four marks, for five minutes after each use:

1. the end of tools and system prompt, which no cut changes;
2. the end of the first message, which contains the summaries of removed turns;
3. the end of the previous request, which is read from the cache: by itself the API looks back only
   20 blocks, and a step of many calls is longer;
4. the end of this request, which the next one reads.

A mark on a cached prefix is free; new text costs a quarter more once, and a tenth from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from agent.models.anthropic_answer import THOUGHTS, read_layout
from agent.models.base import ModelRequest
from agent.models.endpoint import ANTHROPIC
from agent.models.history import OWN, inspect, read_history
from agent.models.shapes import as_mapping, read_json
from memory.messages import RequestExtras, mark_text
from memory.patterns import lazy

Json = dict[str, Any]

CACHED: Json = {"type": "ephemeral"}
"""A cache mark, valid for five minutes from each use."""
LONGEST_REPLY = 32_000
"""The maximum tokens of an answer if nothing else is set: the API requires a number, and all of its
newer models can write this many."""
IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""The kinds of pictures that the API accepts."""
EFFORTS = {"low": 2_048, "medium": 8_192, "high": 16_384, "xhigh": 24_576, "max": 30_000}
"""The efforts of thinking, with the tokens for models that take a number."""
_SPOKEN = lazy(r"[^a-zA-Z0-9_-]")
_LONGEST = 64
_NOTHING = "(nothing was said)"
_UNSEEN = "(a picture of a kind that can't be shown)"
_DATA_URL = lazy(r"data:([\w.+/-]{1,100});base64,")


def to_neutral(model: str, request: ModelRequest, effort: str = "") -> Json:
    """Return the body of a streaming request with messages and tools still in OpenAI's shape;
    unrequested fields are omitted. `effort` is the thinking effort ("": the model's default). The
    API no longer has a temperature."""
    wanted = dict(request.parameters or {})
    body: Json = {
        "protocol": ANTHROPIC,  # as long as it is in OpenAI's shape
        "model": model,
        "max_tokens": request.max_tokens or LONGEST_REPLY,
        "stream": True,
        "messages": list(request.messages),
    }
    if request.tools:
        body["tools"] = list(request.tools)
        body |= _tool_choice(request, wanted)
    if effort and body.get("tool_choice", {}).get("type") not in ("any", "tool"):
        body["thinking"] = {"type": "adaptive"}  # refused with a forced tool
    body |= _output_config(request, effort or wanted.get("reasoning_effort"))
    if stops := _stops(wanted.get("stop")):
        body["stop_sequences"] = stops
    if request.is_once:
        body["is_once"] = True
    return body


def _tool_choice(request: ModelRequest, wanted: Mapping[str, Any]) -> Json:
    choice: Json = {"type": "auto"}
    match wanted.get("tool_choice"):
        case "required":
            choice = {"type": "any"}
        case {"function": {"name": str(name)}}:
            choice = {"type": "tool", "name": name}
        case "none":
            choice = {"type": "none"}
    if request.tool_choice == "none":
        choice = {"type": "none"}
    elif wanted.get("parallel_tool_calls") is False:
        choice["disable_parallel_tool_use"] = True
    return {} if choice == {"type": "auto"} else {"tool_choice": choice}


def _output_config(request: ModelRequest, effort: object) -> Json:
    config: Json = {}
    if effort in EFFORTS:
        config["effort"] = effort
    schema = request.schema
    match (request.parameters or {}).get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(given)}}:
            schema = given
    if schema is not None:
        config["format"] = {"type": "json_schema", "schema": dict(schema)}
    return {"output_config": config} if config else {}


def _stops(stop: object) -> list[str]:
    given = [stop] if isinstance(stop, str) else stop if isinstance(stop, list) else []
    return [one for one in given if isinstance(one, str) and one.strip()]


def to_body(neutral: Mapping[str, Any], beside: RequestExtras) -> Json:
    """Return the body of a request. `neutral` has the messages and the tools in OpenAI's shape, the
    rest in the API's; `is_once` says that it will not be sent again, so that nothing is marked.
    `beside` is the data that OpenAI's shape has no place for."""
    history, beside = read_history(neutral, beside)
    system, dialogue = _split(history)
    messages = _to_messages(dialogue, beside)
    tools = [_to_tool(tool) for tool in neutral.get("tools", ())]
    body = {name: value for name, value in neutral.items() if name not in OWN}
    if system:
        body["system"] = system
    body["messages"] = messages
    if tools:
        body["tools"] = tools
    if not neutral.get("is_once"):
        _mark_prefix(system, tools)
        if "tool_choice" not in body:
            _mark_messages(system, messages)
    return inspect("anthropic", body)


def _split(messages: Sequence[Mapping[str, Any]]) -> tuple[list[Json], Sequence[Mapping[str, Any]]]:
    """Return the blocks of the system prompt, and the messages after it."""
    first = (n for n, one in enumerate(messages) if one["role"] not in ("system", "developer"))
    end = next(first, len(messages))
    blocks = [block for one in messages[:end] for block in _blocks(one["content"])]
    return [block for block in blocks if block["type"] == "text"], messages[end:]


def _mark_prefix(system: list[Json], tools: list[Json]) -> None:
    if system:
        system[0]["cache_control"] = CACHED
    elif tools:
        tools[-1]["cache_control"] = CACHED


def _mark_messages(system: list[Json], messages: list[Json]) -> None:
    front = system[-1] if system[1:] else messages[0]["content"][-1]
    answers = [n for n, message in enumerate(messages) if message["role"] == "assistant"]
    before = messages[answers[-1] - 1]["content"][-1] if answers else front
    for block in (front, before, messages[-1]["content"][-1]):
        if block["type"] not in THOUGHTS:
            block["cache_control"] = CACHED


# --- messages ---


def _to_messages(dialogue: Sequence[Mapping[str, Any]], beside: RequestExtras) -> list[Json]:
    ids = _Ids()
    messages: list[Json] = []
    for one in dialogue:
        role, blocks = _to_blocks(one, beside, ids)
        if not blocks:
            continue
        if messages and messages[-1]["role"] == role:
            if role == "user" or not any(block["type"] in THOUGHTS for block in blocks):
                messages[-1]["content"] += blocks
                continue
            # thoughts stay at their place: at the beginning of a message
            messages.append({"role": "user", "content": [_text(_NOTHING)]})
        messages.append({"role": role, "content": blocks})
    if not messages or messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [_text(_NOTHING)]})
    if messages[-1]["role"] == "assistant":
        _trim_end(messages[-1]["content"])
    return messages


def _to_blocks(one: Mapping[str, Any], beside: RequestExtras, ids: _Ids) -> tuple[str, list[Json]]:
    match one["role"]:
        case "assistant":
            return "assistant", _assistant(one, beside, ids)
        case "tool":
            call = one["tool_call_id"]
            block: Json = {"type": "tool_result", "tool_use_id": ids.answered(call)}
            if content := _blocks(one["content"]):
                block["content"] = content
            if call in beside.errors:
                block["is_error"] = True
            return "user", [block]
        case "user":
            return "user", _blocks(one["content"]) or [_text(_NOTHING)]
    words = "\n".join(block.get("text", "") for block in _blocks(one["content"]))
    return "user", [_text(mark_text(words, "system-reminder"))] if words else []


def _assistant(one: Mapping[str, Any], beside: RequestExtras, ids: _Ids) -> list[Json]:
    calls = {call["id"]: _to_use(call, ids) for call in one.get("tool_calls") or ()}
    content = one.get("content") or ""
    if not isinstance(content, str):
        texts = [block for block in _blocks(content) if block["type"] == "text"]
        return [*texts, *calls.values()]
    thoughts = beside.thoughts.get(next(iter(calls), ""), "")
    return _without_idle(list(_in_order(content, calls, read_layout(thoughts))))


def _without_idle(blocks: list[Json]) -> list[Json]:
    """Return the blocks without thoughts after the last call: a message must not end with a
    thought."""
    uses = [place for place, block in enumerate(blocks) if block["type"] == "tool_use"]
    last = uses[-1] if uses else -1
    return [
        block for place, block in enumerate(blocks) if place < last or block["type"] not in THOUGHTS
    ]


def _in_order(content: str, calls: dict[str, Json], layout: Iterable[Any]) -> Iterator[Json]:
    """Yield the blocks in their original order, by `anthropic_answer.layout`; text without a place
    follows the last thought, or precedes the calls."""
    left = dict(calls)
    items = list(layout)
    last_text = max((n for n, item in enumerate(items) if isinstance(item, int)), default=-1)
    is_said = last_text >= 0
    for number, item in enumerate(items):
        if isinstance(item, dict):
            yield item
        elif isinstance(item, int):
            piece, content = (
                (content, "") if number == last_text else (content[:item], content[item:])
            )
            if piece.strip():
                yield _text(piece)
        else:
            if not is_said and content.strip():
                yield _text(content)
                content = ""
            if named := item if item in left else next(iter(left), ""):  # its id was replaced
                yield left.pop(named)
    if content.strip():
        yield _text(content)
    yield from left.values()


def _to_use(call: Mapping[str, Any], ids: _Ids) -> Json:
    function = call["function"]
    return {
        "type": "tool_use",
        "id": ids.asked(call["id"]),
        "name": function["name"],
        "input": dict(as_mapping(read_json(function["arguments"]))),
    }


class _Ids:
    """The ids of calls as the API accepts them: of its letters, and unique in a request."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._known: dict[str, str] = {}

    def asked(self, call: str) -> str:
        plain = base = _SPOKEN.sub("_", call)[:_LONGEST] or "call"
        number = 1
        while plain in self._taken:
            number += 1
            plain = f"{base[: _LONGEST - 8]}_{number}"
        self._taken.add(plain)
        self._known[call] = plain
        return plain

    def answered(self, call: str) -> str:
        return self._known.get(call) or _SPOKEN.sub("_", call)[:_LONGEST] or "call"


def _blocks(content: object) -> list[Json]:
    """Return a message's content as blocks, without blank texts."""
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    parts = content if isinstance(content, list) else []
    made = [_to_block(part) for part in parts]
    return [block for block in made if block["type"] != "text" or block["text"].strip()]


def _to_block(part: Mapping[str, Any]) -> Json:
    if part["type"] != "image_url":
        return _text(str(part.get("text", "")))
    url = part["image_url"]["url"]
    found = _DATA_URL.match(url)
    if (found[1] not in IMAGES) if found else not url.startswith(("https://", "http://")):
        return _text(_UNSEEN)
    if found:
        source = {"type": "base64", "media_type": found[1], "data": url[found.end() :]}
    else:
        source = {"type": "url", "url": url}
    return {"type": "image", "source": source}


def _text(words: str) -> Json:
    return {"type": "text", "text": words}


def _trim_end(blocks: list[Json]) -> None:
    """Trim the end of the text that an answer continues, which may not end in blanks."""
    if blocks[-1]["type"] == "text":
        blocks[-1]["text"] = blocks[-1]["text"].rstrip()


def _to_tool(tool: Mapping[str, Any]) -> Json:
    function = tool["function"]
    made: Json = {"name": function["name"]}
    if description := function.get("description"):
        made["description"] = description
    return made | {"input_schema": {"type": "object", **function.get("parameters", {})}}
