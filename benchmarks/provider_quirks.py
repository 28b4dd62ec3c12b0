"""The rules of single providers of chat completions, each with its source."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks.provider_rules import (
    Asked,
    Check,
    Json,
    Rule,
    ids,
    sign,
    system_first,
    text_of,
    unique_ids,
)

SKIPPED = "skip_thought_signature_validator"


def _calls(message: Mapping[str, Any]) -> list[Json]:
    found: list[Json] = message.get("tool_calls") or []
    return found


# --- Mistral ---


def mistral_order(asked: Asked) -> Iterator[str]:
    for before, message in itertools.pairwise(asked.messages):
        if (before["role"], message["role"]) in (("tool", "user"), ("user", "tool")):
            yield f"Unexpected role '{message['role']}' after role '{before['role']}'"
    last = asked.messages[-1]["role"]
    if last not in ("user", "tool"):
        yield (
            "Expected last role User or Tool (or Assistant with prefix True) for serving but got "
            f"{last}"
        )


def mistral_ids(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        for own in [call["id"] for call in _calls(message)]:
            if not re.fullmatch("[a-zA-Z0-9]{9}", own):
                yield f"Tool call id was {own} but must be a-z, A-Z, 0-9, with a length of 9."


_MISTRAL_REFUSES = ("max_completion_tokens", "metadata", "store", "prompt_cache_key")


def mistral_parameters(asked: Asked) -> Iterator[str]:
    for name in _MISTRAL_REFUSES:
        if name in asked.body:
            yield f"Extra inputs are not permitted: body.{name}"


def mistral_fields(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        if "reasoning_content" in message:
            yield f"Extra inputs are not permitted: body.messages.{number}.reasoning_content"


MISTRAL = (
    Rule("order of roles", "litellm#17761, zed#37021, rig#1130", mistral_order),
    Rule("ids of calls", "opencode#1680, gptel#1203", mistral_ids),
    Rule("own parameters", "eca#231, openclaude#739", mistral_parameters, "once", 422),
    Rule("reasoning not back", "crush#1590", mistral_fields, "once", 422),
)


# --- thoughts that are sent back as text ---


def deepseek_thoughts(asked: Asked) -> Iterator[str]:
    for message in asked.messages:
        if _calls(message) and "reasoning_content" not in message:
            yield "The `reasoning_content` in the thinking mode must be passed back to the API."


def moonshot_thoughts(asked: Asked) -> Iterator[str]:
    """Yield a complaint for a missing thought. An empty text counts as missing; a blank is enough
    (pi#4178)."""
    for number, message in enumerate(asked.messages):
        if _calls(message) and not message.get("reasoning_content"):
            yield (
                "thinking is enabled but reasoning_content is missing in assistant tool call "
                f"message at index {number}"
            )


def moonshot_contents(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        content = message.get("content")
        is_empty = not content if isinstance(content, list) else not (content or "").strip()
        if is_empty and not _calls(message) and message["role"] in ("user", "assistant"):
            yield (
                f"Invalid request: the message at position {number} with role "
                f"'{message['role']}' must not be empty"
            )
        for part in content if isinstance(content, list) else ():
            if part.get("type") == "text" and not part.get("text"):
                yield "Invalid request: text content is empty"


DEEPSEEK = (
    Rule("reasoning back", "opencode#24135, modelparams.dev#29", deepseek_thoughts, "once"),
    Rule("ids of calls", "camel#2215, langmanus#119: at most 40 characters", ids),
)
MOONSHOT = (
    Rule("reasoning back", "deer-flow#3043, pi#4178, FastGPT#6357", moonshot_thoughts, "once"),
    Rule("empty messages", "lobehub#8419, litellm#42186", moonshot_contents),
)


# --- thoughts that are signed ---


def gemini_signatures(asked: Asked) -> Iterator[str]:
    """Check the running turn only: the first call of each step has a signature of this model, or
    says that it has none."""
    questions = [n for n, message in enumerate(asked.messages) if message["role"] == "user"]
    for number, message in enumerate(asked.messages):
        for place, call in enumerate(_calls(message)):
            google = (call.get("extra_content") or {}).get("google") or {}
            signed = google.get("thought_signature", "")
            if not signed:
                if place == 0 and number > (questions[-1] if questions else -1):
                    yield (
                        "Function call is missing a thought_signature in functionCall parts. This "
                        f"is required for tools to work correctly, position {number}."
                    )
            elif signed != SKIPPED and not is_own(asked.model, signed):
                yield "Invalid thought signature."


def is_own(model: str, signed: str) -> bool:
    """Return True for a complete token that this model has made: a text, a dot, its signature."""
    text, dot, made = signed.rpartition(".")
    return bool(dot) and made == sign(model, text)


def gemini_order(asked: Asked) -> Iterator[str]:
    before = ""
    for message in asked.messages:
        if _calls(message) and before not in ("user", "tool"):
            yield (
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn."
            )
        before = message["role"]


GEMINI = (
    Rule("signatures", "ai.google.dev: thought-signatures; dify#29187, pi#1829", gemini_signatures),
    Rule("order of roles", "gemini-cli#11814, lobehub#10049", gemini_order),
)


def openrouter_details(asked: Asked) -> Iterator[str]:
    """Check that each detail is complete, and made by the requested model."""
    for number, message in enumerate(asked.messages):
        for place, detail in enumerate(message.get("reasoning_details") or ()):
            if detail.get("type") == "reasoning.encrypted":
                is_good = is_own(asked.model, str(detail.get("data")))
            else:
                is_good = detail.get("signature") == sign(asked.model, str(detail.get("text")))
            if not is_good:
                yield f"messages.{number}.content.{place}: Invalid `signature` in `thinking` block"


OPENROUTER = (
    Rule("signatures", "oh-my-pi#3399, Roo-Code#10694, UncommonRoute#19", openrouter_details),
)


# --- local servers, and gateways ---


def no_tools(asked: Asked) -> Iterator[str]:
    if asked.body.get("tools"):
        yield (
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        )


def alternation(asked: Asked) -> Iterator[str]:
    """Check Devstral's and Ministral's template, which ignores calls and results."""
    is_users = True
    for message in asked.messages[asked.messages[0]["role"] == "system" :]:
        if message["role"] == "tool" or _calls(message):
            continue
        if (message["role"] == "user") != is_users:
            yield (
                "After the optional system message, conversation roles must alternate user and "
                "assistant roles except for tool calls and results."
            )
            return
        is_users = not is_users


def window(tokens: int) -> Check:
    def check(asked: Asked) -> Iterator[str]:
        if (size := len(asked.raw) // 4) > tokens:
            yield (
                f"The decoder prompt (length {size}) is longer than the maximum model length of "
                f"{tokens}. Make sure that `max_model_len` is no smaller than the number of tokens."
            )

    return check


VLLM = (
    Rule("no tools", "vllm#9986, vllm#30613", no_tools, "once"),
    Rule("one system prompt", "llama.cpp#20733, Qwen3.8#244", system_first, "once"),
    Rule("alternation", "mini-swe-agent#759, llama.cpp#19851", alternation),
    Rule("ids of calls", "hermes-agent#111443: each once", unique_ids),
    Rule("window", "xorbitsai/inference#3785, deepagents#468", window(9_000), "less"),
)


def groq_fields(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        for name in ("reasoning_content", "reasoning_details", "reasoning"):
            if name in message:
                yield (
                    f"'messages.{number}' : for 'role:{message['role']}' the following must be "
                    f"satisfied[('messages.{number}' : property '{name}' is unsupported)]"
                )


def groq_parameters(asked: Asked) -> Iterator[str]:
    for name in ("stream_options", "prompt_cache_key", "store"):
        if name in asked.body:
            yield f"property '{name}' is unsupported"


def body_size(most: int) -> Check:
    def check(asked: Asked) -> Iterator[str]:
        if len(asked.raw) > most:
            yield "413 Request Entity Too Large"

    return check


GROQ = (
    Rule("reasoning not back", "jan#8136, hermes-agent#11089", groq_fields, "once"),
    Rule("own parameters", "fanenr/chatbot#21, musistudio/llms#64", groq_parameters, "once"),
    Rule("body", "gemini-cli#13776, gt_ai_gateway#18", body_size(70_000), "less", 413),
)


def openai_parameters(asked: Asked) -> Iterator[str]:
    if "max_tokens" in asked.body:
        yield (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead."
        )


def openai_text(asked: Asked) -> Iterator[str]:
    for number, message in enumerate(asked.messages):
        if message["role"] == "tool" and not isinstance(message.get("content"), str | list):
            yield f"Invalid type for 'messages[{number}].content': {text_of(None)!r}"


OPENAI = (
    Rule("own parameters", "opencode#37964, gollm#33", openai_parameters, "once"),
    Rule("ids of calls", "camel#2215, langmanus#119: at most 40 characters", ids),
    Rule("results", "OpenAI, API reference: tool messages", openai_text),
)
