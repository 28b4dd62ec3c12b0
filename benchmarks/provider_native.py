"""The rules of Anthropic's Messages API and of OpenAI's Responses API, each with its source.

Rules of the tests' strict servers are reused; rules that only matter in a long conversation, or
between models, are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.provider_quirks import is_own
from benchmarks.provider_rules import (
    NONCE,
    REFUSED_PICTURE,
    Asked,
    Check,
    Json,
    Rule,
    is_object,
    sign,
)
from tests.fakes import anthropic_server, openai_responses

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_THOUGHTS = ("thinking", "redacted_thinking")


def known(check: Callable[[Json], str]) -> Check:
    """Return a rule that a server of the tests checks."""

    def breaches(asked: Asked) -> Iterator[str]:
        if complaint := check(asked.body):
            yield complaint

    return breaches


# --- Anthropic ---


def _blocks(asked: Asked) -> Iterator[tuple[int, int, Json]]:
    for number, message in enumerate(asked.messages):
        for place, block in enumerate(message["content"]):
            yield number, place, block


def claude_texts(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        if not message["content"]:
            yield f"messages.{number}: all messages must have non-empty content"
    for _, _, block in _blocks(asked):
        if block["type"] == "text" and not block["text"].strip():
            yield "messages: text content blocks must contain non-whitespace text"


def claude_ending(asked: Asked) -> Iterator[str]:
    last = asked.messages[-1]
    block = last["content"][-1]
    if last["role"] == "assistant" and block.get("text", "x") != block.get("text", "x").rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def claude_fields(asked: Asked) -> Iterator[str]:
    for number, place, block in _blocks(asked):
        where, kind = f"messages.{number}.content.{place}", block.get("type")
        if kind not in anthropic_server._BY[asked.messages[number]["role"]]:
            yield f"{where}: unexpected block type {kind!r}"
            continue
        allowed = {"type", *anthropic_server._FIELDS[kind]}
        allowed |= set() if kind in _THOUGHTS else {"cache_control"}
        if extra := block.keys() - allowed:
            yield f"{where}.{kind}.{min(extra)}: Extra inputs are not permitted"


def claude_signatures(asked: Asked) -> Iterator[str]:
    for number, place, block in _blocks(asked):
        if block["type"] == "thinking":
            is_good = block["signature"] == sign(asked.model, block["thinking"])
        elif block["type"] == "redacted_thinking":
            is_good = is_own(asked.model, block["data"])
        else:
            continue
        if not is_good:
            yield f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block"


def claude_loop(asked: Asked) -> Iterator[str]:
    """Yield a breach where, in a tool loop, this model's thought is not before its calls. A call of
    an answer that began with a thought has the thought's mark in its id."""
    messages = asked.messages
    if len(messages) < 2 or messages[-1]["role"] != "user":
        return
    if not any(block["type"] == "tool_result" for block in messages[-1]["content"]):
        return
    thinks = asked.body.get("thinking", {}).get("type") not in (None, "disabled")
    has_thought = False
    for block in messages[-2]["content"] if thinks else ():
        has_thought |= block["type"] in _THOUGHTS
        if f"_thought_{asked.model}" in block.get("id", "") and not has_thought:
            yield (
                f"messages.{len(messages) - 2}.content.0.type: Expected `thinking` or "
                f"`redacted_thinking`, but found `{block['type']}`. When `thinking` is enabled, a "
                "final `assistant` message must start with a thinking block."
            )


def claude_pictures(asked: Asked) -> Iterator[str]:
    for _, _, block in _blocks(asked):
        if block["type"] == "image" and REFUSED_PICTURE in str(block["source"]):
            yield f"Could not process image [{hash_of(block['source'])}]"


def claude_belongs(asked: Asked) -> Iterator[str]:
    asked_for = {b["id"]: str(b["input"]) for _, _, b in _blocks(asked) if b["type"] == "tool_use"}
    for _, _, block in _blocks(asked):
        if block["type"] == "tool_result":
            yield from strangers(str(block.get("content")), asked_for.get(block["tool_use_id"], ""))
    for message in asked.messages:
        blocks = message["content"]
        first = next((n for n, b in enumerate(blocks) if "thinking" in b), len(blocks))
        thought = "".join(str(b.get("thinking", "")) for b in blocks)
        # Content before the first thought belongs to a paused answer that is continued here.
        said = "".join(str(b.get("input", b.get("text", ""))) for b in blocks[first:])
        yield from strangers(thought, said)


def hash_of(part: object) -> str:
    return sign("picture", str(part))[:12]


def strangers(text: str, own: str) -> Iterator[str]:
    there, here = NONCE.findall(text.partition("<system-reminder>")[0]), NONCE.findall(own)
    if there and here and not {*there} & {*here}:
        yield f"{there[0]} stands with {here[0]}"


ANTHROPIC = (
    Rule("parameters", "Anthropic, Messages API", known(anthropic_server._bad_frame)),
    Rule("thinking", "Anthropic, extended thinking", known(anthropic_server._bad_thinking)),
    Rule("tools", "Anthropic, Messages API: tools", known(anthropic_server._bad_tools)),
    Rule("order of roles", "Anthropic, Messages API", known(anthropic_server._bad_roles)),
    Rule("empty messages", "claude-code#4416", claude_texts),
    Rule("trailing blanks", "opencode#1295, langchain#35071", claude_ending),
    Rule("fields", "Anthropic, Messages API: content blocks", claude_fields),
    Rule("ids of calls", "Anthropic, Messages API: tool_use", known(anthropic_server._bad_ids)),
    Rule(
        "calls and results", "claude-code#8210, OpenHands#7512", known(anthropic_server._bad_pairs)
    ),
    Rule("marks", "Anthropic, prompt caching", known(anthropic_server._bad_marks)),
    Rule(
        "signatures", "anthropic-sdk-python#1598, opencode-antigravity-auth#70", claude_signatures
    ),
    Rule("thoughts first", "claude-code#63284, claude-code#13201", claude_loop),
    Rule("pictures", "Anthropic, vision", claude_pictures, "once"),
    Rule("right pairs", "oh-my-pi#2055, hermes-agent#111443", claude_belongs, is_silent=True),
)


# --- Responses ---


def _items(asked: Asked) -> list[Json]:
    items: list[Json] = asked.body.get("input") or []
    return items


def responses_ids(asked: Asked) -> Iterator[str]:
    calls = [item["call_id"] for item in _items(asked) if item.get("type") == "function_call"]
    for own in calls:
        if len(own) > 64:
            yield (
                "Invalid 'input[0].call_id': string too long. Expected a string with maximum "
                f"length 64, but got a string with length {len(own)} instead."
            )
    if len({*calls}) < len(calls):
        yield "Duplicate function call id"
    seen = [item["id"] for item in _items(asked) if "id" in item]
    if len({*seen}) < len(seen):
        doubled = next(one for one in seen if seen.count(one) > 1)
        yield f"Duplicate item found with id {doubled}. Remove duplicate items from your input."


def responses_arguments(asked: Asked) -> Iterator[str]:
    for number, item in enumerate(_items(asked)):
        if item.get("type") != "function_call":
            continue
        if not is_object(item["arguments"]):
            yield f"Invalid 'input[{number}].arguments': not a JSON object."
        if not _NAME.fullmatch(item["name"]):
            yield f"Invalid 'input[{number}].name': string does not match pattern."


def responses_pairs(asked: Asked) -> Iterator[str]:
    waiting: dict[str, None] = {}
    answered: set[str] = set()
    for item in _items(asked):
        if item.get("type") == "function_call":
            waiting[item["call_id"]] = None
        elif item.get("type") == "function_call_output":
            own = item["call_id"]
            if own not in waiting and own not in answered:
                yield f"No tool call found for function call output with call_id {own}."
            waiting.pop(own, None)
            answered.add(own)
    if waiting:
        yield f"No tool output found for function call {next(iter(waiting))}."


def responses_thoughts(asked: Asked) -> Iterator[str]:
    items = _items(asked)
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        after: Sequence[Mapping[str, Any]] = items[number + 1 :]
        led_to = next((one for one in after if one.get("type") != "reasoning"), {})
        if led_to.get("role") != "assistant" and led_to.get("type") != "function_call":
            yield (
                f"Item '{item['id']}' of type 'reasoning' was provided without its required "
                "following item."
            )


def responses_signatures(asked: Asked) -> Iterator[str]:
    for item in _items(asked):
        if item.get("type") == "reasoning" and not is_own(
            asked.model, str(item.get("encrypted_content"))
        ):
            yield (
                f"The encrypted content {str(item.get('encrypted_content'))[:4]}... could not be "
                "verified. Reason: Encrypted content could not be decrypted or parsed."
            )


def responses_pictures(asked: Asked) -> Iterator[str]:
    for item in _items(asked):
        content = item.get("content", item.get("output"))
        for part in content if isinstance(content, list) else ():
            if REFUSED_PICTURE in str(part.get("image_url")):
                yield f"The image data does not represent a valid image. [{hash_of(part)}]"


def responses_belongs(asked: Asked) -> Iterator[str]:
    calls = [item for item in _items(asked) if item.get("type") == "function_call"]
    asked_for = {item["call_id"]: item["arguments"] for item in calls}
    for item in _items(asked):
        if item.get("type") == "function_call_output":
            yield from strangers(str(item["output"]), asked_for.get(item["call_id"], ""))


RESPONSES = (
    Rule("parameters", "OpenAI, API reference: responses", known(openai_responses._bad_frame)),
    Rule("tools", "OpenAI, API reference: responses", known(openai_responses._bad_tools)),
    Rule("fields", "OpenAI, API reference: input items", known(openai_responses._bad_items)),
    Rule("ids of calls", "nanobot#1623, pi#9057, gpt-oss#309", responses_ids),
    Rule("arguments", "RFC 8259; mastra#15717", responses_arguments),
    Rule("calls and results", "OpenAI, guide to function calling", responses_pairs),
    Rule("thoughts first", "vercel/ai#7099, continue#8933", responses_thoughts),
    Rule("signatures", "codex#17541, codex-chatgpt-web#249", responses_signatures),
    Rule("pictures", "OpenAI, guide to images", responses_pictures, "once"),
    Rule("right pairs", "oh-my-pi#2055, hermes-agent#111443", responses_belongs, is_silent=True),
)
