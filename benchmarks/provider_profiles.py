"""Ten providers as they behave in reality: their rules, the form of their thoughts, and their
refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from benchmarks import provider_native, provider_quirks
from benchmarks.provider_answers import Thoughts
from benchmarks.provider_rules import COMMON, Rule, fields

Json = dict[str, Any]
Protocol = Literal["chat", "responses", "messages"]


@dataclass(frozen=True)
class Profile:
    """A provider. `provider` is the name in the bot's settings ("": unknown to the bot); `models`
    are two of its models; `brain` is further configuration of them."""

    name: str
    provider: str
    models: tuple[str, str]
    rules: tuple[Rule, ...]
    thoughts: Thoughts = ""
    protocol: Protocol = "chat"
    brain: Json = field(default_factory=dict)
    say_refusal: Callable[[str, int], Json | list[Json] | str] = lambda words, status: _openai(
        words
    )
    calls_tools: bool = True

    def agents(self, base_url: str) -> list[Json]:
        """Return an agent of the bot's configuration for each of the models."""
        config = {"base_url": f"{base_url}/{self.name}/v1", "api_key": "{{secret.BENCH_API_KEY}}"}
        return [
            {
                "id": f"{self.name}-{number}",
                "brain": {
                    "provider": self.provider,
                    "model": model,
                    "config": config,
                    **self.brain,
                },
            }
            for number, model in enumerate(self.models)
        ]


def _openai(words: str) -> Json:
    return {"error": {"message": words, "type": "invalid_request_error", "param": None}}


def _mistral(words: str, status: int) -> Json:
    if status == 422:
        place = words.rpartition(": ")[2].split(".")
        return {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": place,
                        "msg": "Extra inputs are not permitted",
                    }
                ]
            },
            "type": "invalid_request_error",
        }
    kind = "invalid_request_message_order"
    return {"object": "error", "message": words, "type": kind, "param": None, "code": "3230"}


def _gemini(words: str, status: int) -> list[Json]:
    return [{"error": {"code": status, "message": words, "status": "INVALID_ARGUMENT"}}]


def _openrouter(words: str, status: int) -> Json:
    raw = json.dumps({"type": "error", "error": {"message": words}})
    metadata = {"raw": raw, "provider_name": "Anthropic", "is_byok": False}
    return {"error": {"message": "Provider returned error", "code": status, "metadata": metadata}}


def _vllm(words: str, status: int) -> Json:
    kind = "BadRequestError"
    return {"object": "error", "message": words, "type": kind, "param": None, "code": status}


def _groq(words: str, status: int) -> Json | str:
    if status == 413:
        title = "413 Request Entity Too Large"
        return f"<html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return {"error": {"message": words, "type": "invalid_request_error"}}


def _anthropic(words: str, status: int) -> Json:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": words}}


def _strict(*own: str) -> Rule:
    return Rule("fields", "OpenAI, API reference: unknown ones are refused", fields(*own))


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(
            "openai",
            "openai",
            ("gpt-5-mini", "gpt-4.1"),
            (*COMMON, _strict(), *provider_quirks.OPENAI),
            brain={"max_tokens": 2_000},
        ),
        Profile(
            "responses",
            "openai",
            ("gpt-5", "gpt-5.1"),
            provider_native.RESPONSES,
            thoughts="sealed",
            protocol="responses",
            brain={"backend": "openai_responses", "effort": "low"},
        ),
        Profile(
            "anthropic",
            "anthropic",
            ("claude-sonnet-4-5", "claude-opus-4-5"),
            provider_native.ANTHROPIC,
            thoughts="blocks",
            protocol="messages",
            brain={"effort": "medium", "max_tokens": 4_000},
            say_refusal=_anthropic,
        ),
        Profile(
            "mistral",
            "mistral",
            ("mistral-large-latest", "magistral-medium-latest"),
            (*COMMON, *provider_quirks.MISTRAL),
            thoughts="parts",
            brain={"max_tokens": 2_000},
            say_refusal=_mistral,
        ),
        Profile(
            "deepseek",
            "deepseek",
            ("deepseek-chat", "deepseek-reasoner"),
            (*COMMON, _strict("reasoning_content"), *provider_quirks.DEEPSEEK),
            thoughts="text",
        ),
        Profile(
            "moonshot",
            "",
            ("kimi-k2.6", "kimi-k2-thinking"),
            (*COMMON, _strict("reasoning_content"), *provider_quirks.MOONSHOT),
            thoughts="text",
        ),
        Profile(
            "gemini",
            "gemini",
            ("gemini-3-pro", "gemini-3-flash"),
            (*COMMON, _strict("extra_content"), *provider_quirks.GEMINI),
            thoughts="signatures",
            say_refusal=_gemini,
        ),
        Profile(
            "openrouter",
            "openrouter",
            ("anthropic/claude-sonnet-4.5", "z-ai/glm-4.6"),
            (*COMMON, *provider_quirks.OPENROUTER),
            thoughts="details",
            say_refusal=_openrouter,
        ),
        Profile(
            "vllm",
            "vllm",
            ("devstral-small-2", "ministral-3"),
            (*COMMON, *provider_quirks.VLLM),
            thoughts="tags",
            say_refusal=_vllm,
            calls_tools=False,
        ),
        Profile(
            "groq",
            "groq",
            ("openai/gpt-oss-120b", "qwen/qwen3-32b"),
            (*COMMON, *provider_quirks.GROQ),
            thoughts="text",
            brain={"max_tokens": 2_000, "context": {"max_tokens": 60_000}},
            say_refusal=_groq,
        ),
    )
}
