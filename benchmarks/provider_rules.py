"""The rules that providers of chat completions impose on a request: each a small function, with the
public report or document that describes it. Written independently of the rules of the product.

A rule yields the provider's error message for each breach, in the provider's words. `Signed` are
thoughts that contain the name of their model, as the scripted models of `provider_answers` sign
them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from openai.types.chat.completion_create_params import CompletionCreateParamsBase

Json = dict[str, Any]
Check = Callable[["Asked"], Iterator[str]]

REFUSED_PICTURE = "UkVGVVNFRA=="
"""A mark in base64 ("REFUSED") in a picture that no provider can read."""
NONCE = re.compile(r"#\d+#")
"""The number in each call, in the thoughts before it and in its result, and nowhere else."""
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


@dataclass(frozen=True)
class Asked:
    """A request: the JSON, its bytes, and the requested model."""

    body: Json
    raw: bytes
    model: str

    @property
    def messages(self) -> list[Json]:
        found: list[Json] = self.body.get("messages") or []
        return found


@dataclass(frozen=True)
class Rule:
    """A demand of a provider, and its source.

    `teaches`: whether a refusal teaches something that could not be known before. once: it may
    happen once for a model (and for the part of the complaint that `lesson` names); less: it may
    happen again, as long as each request is smaller. "": never. A rule that `is_silent` refuses
    nothing: the model is misled, and answers.
    """

    name: str
    source: str
    breaches: Check
    teaches: Literal["", "once", "less"] = ""
    status: int = 400
    is_silent: bool = False


def sign(model: str, text: str) -> str:
    """Return the signature of a model for a thought."""
    return hashlib.sha256(f"{model}|{text}".encode()).hexdigest()[:32]


def _calls(message: Mapping[str, Any]) -> list[Json]:
    found: list[Json] = message.get("tool_calls") or []
    return found


def _every_call(asked: Asked) -> Iterator[tuple[int, int, Json]]:
    for number, message in enumerate(asked.messages):
        for place, call in enumerate(_calls(message)):
            yield number, place, call


def _parts(message: Mapping[str, Any]) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def text_of(content: object) -> str:
    """Return the text of a message's content, or of its parts."""
    parts = content if isinstance(content, list) else []
    return content if isinstance(content, str) else "".join(str(p.get("text", "")) for p in parts)


# --- of all providers ---

_KNOWN = {*CompletionCreateParamsBase.__annotations__, "stream"}
_BY_ROLE = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "refusal", "tool_calls"},
    "tool": {"role", "content", "tool_call_id", "name"},
}


def parameters(asked: Asked) -> Iterator[str]:
    for name in sorted(asked.body.keys() - _KNOWN):
        yield f"Unrecognized request argument supplied: {name}"
    if not asked.messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
    if "tool_choice" in asked.body and not asked.body.get("tools"):
        yield "'tool_choice' is only allowed when 'tools' are specified."


def fields(*own: str) -> Check:
    """Return a rule that accepts these fields of a message besides the protocol's own."""

    def check(asked: Asked) -> Iterator[str]:
        for number, message in enumerate(asked.messages):
            known = _BY_ROLE.get(message.get("role", ""))
            if known is None:
                yield f"Invalid value: {message.get('role')!r}."
            elif unknown := message.keys() - known - {*own}:
                yield f"Unknown parameter: 'messages[{number}].{min(unknown)}'."
            for call in _calls(message):
                if unknown := call.keys() - {"id", "type", "function"} - {*own}:
                    yield f"Unknown parameter: 'messages[{number}].tool_calls[0].{min(unknown)}'."

    return check


def tools(asked: Asked) -> Iterator[str]:
    offered = asked.body.get("tools")
    if offered is None:
        return
    names = [tool["function"]["name"] for tool in offered]
    if not names:
        yield "Invalid 'tools': empty array. Expected an array with minimum length 1."
    if len({*names}) < len(names):
        yield "Tool names must be unique."
    for name in names:
        if not _NAME.fullmatch(name):
            yield f"Invalid 'tools[0].function.name': {name!r} does not match pattern."


def names(asked: Asked) -> Iterator[str]:
    for number, place, call in _every_call(asked):
        if not _NAME.fullmatch(call["function"]["name"]):
            yield (
                f"Invalid 'messages[{number}].tool_calls[{place}].function.name': string does not "
                "match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
            )


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def is_object(text: object) -> bool:
    """Return True if a text is a JSON object by RFC 8259."""
    try:
        value = json.loads(str(text), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return isinstance(text, str) and isinstance(value, dict)


def arguments(asked: Asked) -> Iterator[str]:
    for number, place, call in _every_call(asked):
        if not is_object(call["function"]["arguments"]):
            yield f"messages[{number}].tool_calls[{place}].function.arguments: not a JSON object."


def pairs(asked: Asked) -> Iterator[str]:
    waiting: list[str] = []
    for message in [*asked.messages, {"role": "end"}]:
        if message["role"] == "tool":
            if message.get("tool_call_id") not in waiting:
                yield (
                    "messages with role 'tool' must be a response to a preceeding message with "
                    "'tool_calls'."
                )
            else:
                waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            yield (
                "An assistant message with 'tool_calls' must be followed by tool messages "
                f"responding to each 'tool_call_id'. Without response: {', '.join(waiting)}"
            )
        waiting = [call["id"] for call in _calls(message)]


def ids(asked: Asked) -> Iterator[str]:
    for number, place, call in _every_call(asked):
        own = call.get("id", "")
        if not own or len(own) > 40:
            yield f"Invalid 'messages[{number}].tool_calls[{place}].id': string too long."


def unique_ids(asked: Asked) -> Iterator[str]:
    seen = [call["id"] for _, _, call in _every_call(asked)]
    if len({*seen}) < len(seen):
        yield "Duplicate tool call id in messages."


def contents(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        if message.get("content") is None and not _calls(message):
            yield "Invalid value for 'content': expected a string, got null."
        if isinstance(message.get("content"), list) and not message["content"]:
            yield f"Invalid 'messages[{number}].content': empty array."


def system_first(asked: Asked) -> Iterator[str]:
    roles = [message["role"] for message in asked.messages]
    if "system" in roles[1:]:
        yield "Jinja Exception: System message must be at the beginning."


def pictures(asked: Asked) -> Iterator[str]:
    """Yield complaints; a complaint about a picture ends with its hash, so that each is a separate
    lesson."""
    for number, message in enumerate(asked.messages):
        for part in _parts(message):
            if part.get("type") not in ("text", "image_url"):
                yield f"Invalid value: '{part.get('type')}' at 'messages[{number}].content'."
            elif REFUSED_PICTURE in str(part.get("image_url")):
                yield f"You uploaded an unsupported image. [{_hash(part)}]"


def _hash(part: object) -> str:
    return hashlib.sha256(repr(part).encode()).hexdigest()[:12]


def belongs(asked: Asked) -> Iterator[str]:
    """Check that results and thoughts are together with the calls that they belong to."""
    known: dict[str, str] = {}
    for message in asked.messages:
        for call in _calls(message):
            known[call["id"]] = str(call["function"]["arguments"])
            thought = str(message.get("reasoning_content", "")) + str(
                message.get("reasoning_details", "")
            )
            yield from _strangers(thought, "".join(str(c["function"]) for c in _calls(message)))
        if message["role"] == "tool":
            result = text_of(message.get("content")).partition("<system-reminder>")[0]
            yield from _strangers(result, known.get(message.get("tool_call_id", ""), ""))


def _strangers(text: str, own: str) -> Iterator[str]:
    there, here = NONCE.findall(text), NONCE.findall(own)
    if there and here and not {*there} & {*here}:
        yield f"{there[0]} stands with {here[0]}"


COMMON = (
    Rule("parameters", "OpenAI, API reference: chat completions", parameters),
    Rule("tools", "OpenAI, API reference: tools", tools),
    Rule("names of tools", "vercel/ai#17769, mastra#13632", names),
    Rule("arguments", "RFC 8259; mastra#15717", arguments),
    Rule("calls and results", "OpenAI, guide to function calling", pairs),
    Rule("content", "OpenAI, API reference: messages", contents),
    Rule("pictures", "OpenAI, guide to images: types that are taken", pictures, "once"),
    Rule("right pairs", "oh-my-pi#2055, hermes-agent#111443", belongs, is_silent=True),
)
"""The rules that all providers have."""
