"""OpenAI's Responses API, as strict as the SDK's types and the API's own rules: the refusals of the
loopback server of `openai_server` there, and its answers."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from openai.types.responses import (
    EasyInputMessageParam,
    FunctionToolParam,
    ResponseFunctionToolCallParam,
    ResponseReasoningItemParam,
)
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_input_item_param import FunctionCallOutput

Json = dict[str, Any]

_ITEMS: dict[str, Any] = {
    "message": EasyInputMessageParam,
    "function_call": ResponseFunctionToolCallParam,
    "function_call_output": FunctionCallOutput,
    "reasoning": ResponseReasoningItemParam,
}
_KNOWN = {*ResponseCreateParamsBase.__annotations__, "stream"}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARTS = {"input_text": {"type", "text"}, "input_image": {"type", "image_url", "detail"}}


def seal(thought: str) -> str:
    """Return a thought encrypted by the API."""
    return "sealed-" + hashlib.sha256(thought.encode()).hexdigest()


def prompt_bytes(body: Json) -> bytes:
    """Return the prompt as cached: the tools, then the messages."""
    return json.dumps([*body.get("tools", ()), *body["input"]]).encode()


# --- what is refused ---


def refusal(body: Json) -> str:
    """Return the refusal of a request, or "" if it is accepted."""
    checks = (_bad_frame, _bad_tools, _bad_items, _bad_thoughts, _bad_pairs)
    return next((complaint for check in checks if (complaint := check(body))), "")


def _bad_frame(body: Json) -> str:
    if unknown := body.keys() - _KNOWN:
        return f"Unknown parameter: '{min(unknown)}'."
    if not body.get("model"):
        return "Missing required parameter: 'model'."
    if not body.get("input"):
        return "Missing required parameter: 'input'."
    if body.get("max_output_tokens", 16) < 16:
        return "Invalid 'max_output_tokens': integer below minimum value. Expected >= 16."
    return ""


def _bad_tools(body: Json) -> str:
    for number, tool in enumerate(body.get("tools", ())):
        if missing := FunctionToolParam.__required_keys__ - tool.keys():
            return f"Missing required parameter: 'tools[{number}].{min(missing)}'."
        if unknown := tool.keys() - {*FunctionToolParam.__annotations__}:
            return f"Unknown parameter: 'tools[{number}].{min(unknown)}'."
        if not _NAME.fullmatch(tool["name"]):
            return f"Invalid 'tools[{number}].name': string does not match pattern."
    return "'tool_choice' is only allowed with tools." * (
        "tool_choice" in body and not body.get("tools")
    )


def _bad_items(body: Json) -> str:
    for number, item in enumerate(body["input"]):
        known = _ITEMS.get(item.get("type", "message"))
        if known is None:
            return f"Invalid value: '{item['type']}' at 'input[{number}].type'."
        if missing := known.__required_keys__ - item.keys():
            return f"Missing required parameter: 'input[{number}].{min(missing)}'."
        if unknown := item.keys() - {*known.__annotations__}:
            return f"Unknown parameter: 'input[{number}].{min(unknown)}'."
        if complaint := _bad_content(item.get("content", item.get("output", "x")), number):
            return complaint
        if len(item.get("call_id", "")) > 64:
            return f"Invalid 'input[{number}].call_id': string too long."
        if not _NAME.fullmatch(item.get("name", "x")):
            return f"Invalid 'input[{number}].name': string does not match pattern."
    return ""


def _bad_content(content: object, number: int) -> str:
    parts = content if isinstance(content, list) else []
    for part in parts:
        if part.keys() - _PARTS.get(part.get("type"), set()):
            return f"Invalid value: '{part.get('type')}' at 'input[{number}].content'."
    return ""


def _bad_thoughts(body: Json) -> str:
    items = body["input"]
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        sealed = item.get("encrypted_content")
        if not sealed:
            return f"Item '{item['id']}' not found. Items are not persisted when `store` is false."
        if not re.fullmatch(r"sealed-[0-9a-f]{64}", sealed):
            return f"The encrypted content {sealed[:8]} could not be verified."
        after = items[number + 1 :]
        led_to: Json = next((one for one in after if one.get("type") != "reasoning"), {})
        if led_to.get("role") != "assistant" and led_to.get("type") != "function_call":
            return (
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item."
            )
    return ""


def _bad_pairs(body: Json) -> str:
    asked: list[str] = []
    answered: list[str] = []
    for item in body["input"]:
        if item.get("type") == "function_call":
            json.loads(item["arguments"])
            asked.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            if item["call_id"] not in asked:
                return (
                    f"No tool call found for function call output with call_id {item['call_id']}."
                )
            answered.append(item["call_id"])
    if open_calls := sorted({*asked} - {*answered}):
        return f"No tool output found for function call {open_calls[0]}."
    return "Duplicate item found with a call_id." * (len({*asked}) < len(asked))


# --- answers ---


def output_of(text: str, reasoning: str, calls: Sequence[Any]) -> list[Json]:
    """Return the items of an answer in their final form."""
    items: list[Json] = []
    if reasoning:
        items.append(
            {
                "id": f"rs_{len(items)}",
                "type": "reasoning",
                "summary": [],
                "encrypted_content": seal(reasoning),
            }
        )
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        base = {"id": f"msg_{len(items)}", "type": "message", "role": "assistant"}
        items.append({**base, "status": "completed", "content": [part]})
    for number, call in enumerate(calls):
        items.append(
            {
                "id": f"fc_{number}",
                "type": "function_call",
                "status": "completed",
                "call_id": call.id or f"call_{number}",
                "name": call.name,
                "arguments": call.arguments,
            }
        )
    return items


def usage_of(output: Sequence[Json], reasoning: str, counted: tuple[int, int]) -> Json:
    prompt, cached = counted
    said = len(json.dumps(output)) // 4 + 1
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": said,
        "output_tokens_details": {"reasoning_tokens": len(reasoning.encode()) // 4},
        "total_tokens": prompt + said,
    }


def response_of(model: str, output: Sequence[Json], usage: Json | None, finish: str) -> Json:
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    reason = reasons.get(finish)
    return {
        "id": "resp_1",
        "object": "response",
        "model": model,
        "status": "incomplete" if reason else "completed" if usage else "in_progress",
        "incomplete_details": {"reason": reason} if reason else None,
        "error": None,
        "output": list(output),
        "usage": usage,
    }


def events_of(output: Sequence[Json], reasoning: str, pieces: int) -> Iterator[Json]:
    """Yield the events of an answer, without those that frame it."""
    for index, item in enumerate(output):
        opened = {k: v for k, v in item.items() if k not in ("content", "encrypted_content")}
        if item["type"] == "function_call":
            opened["arguments"] = ""
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        place = {"item_id": item["id"], "output_index": index}
        if item["type"] == "message":
            for piece in _pieces(item["content"][0]["text"], pieces):
                yield {"type": "response.output_text.delta", **place, "delta": piece}
        elif item["type"] == "function_call":
            for piece in _pieces(item["arguments"], 3):
                delta = {"type": "response.function_call_arguments.delta", "delta": piece}
                yield {**delta, **place}
        else:
            for piece in _pieces(reasoning, 2):
                yield {"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}


def _pieces(text: str, count: int) -> Iterator[str]:
    size = max(1, -(-len(text) // count))
    return (text[start : start + size] for start in range(0, len(text), size))


def frame(events: Sequence[Json]) -> Iterator[bytes]:
    """Return events as sent."""
    for number, event in zip(itertools.count(), events):
        kind, data = event["type"], json.dumps({**event, "sequence_number": number})
        yield f"event: {kind}\ndata: {data}\n\n".encode()
