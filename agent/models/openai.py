"""Any model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.models import listed
from agent.models.answer import Answer
from agent.models.base import ModelError, ModelRefused, ModelReply, ModelRequest, OnDelta
from agent.models.endpoint import OPENAI_URL, Endpoint
from agent.models.openai_request import CALL_IDS, to_body
from agent.models.providers import find_provider
from agent.models.served import EndpointModel, encode
from agent.pictures import blind, has_pictures

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

__all__ = ["OPENAI_URL", "Endpoint", "OpenAIModel"]


class OpenAIModel(EndpointModel):
    """A model asked by OpenAI's chat-completions protocol."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._provider = find_provider(endpoint.provider, endpoint.base_url)
        self._unwanted: frozenset[str] = frozenset()
        self._window = endpoint.window
        self._inquiries = 0 if self._window else listed.inquiries(endpoint)

    @property
    def window(self) -> int:
        return self._window

    async def ready(self) -> None:
        """Ask a server that may know which window it runs the model with."""
        if self._inquiries:
            self._inquiries -= 1
            try:
                self._window = await listed.ask_window(await self._connect(), self._endpoint)
            except ModelError as error:
                log.info("%s did not say its window: %s", self.name, error)
            if self._window:
                self._inquiries = 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming. A parameter that the endpoint refuses by name is left out for good;
        where it refuses pictures, words stand for them in this request."""
        whole = wire_body(self.name, adapt_request(request, self._endpoint))
        if self._provider.call_ids:
            whole[CALL_IDS] = self._provider.call_ids
        if self._provider.cache_key == "body" and request.affinity:
            whole["prompt_cache_key"] = request.affinity
        while True:
            body = without(whole, self._unwanted)
            try:
                return await self._send(body, on_delta, request)
            except ModelRefused as error:
                if refused := find_refused_parameter(body, str(error)):
                    self._unwanted |= {refused}
                elif is_about_pictures(body, str(error)):
                    whole = {**whole, "messages": blind(whole["messages"])}
                else:
                    raise

    async def _send(
        self, body: Mapping[str, Any], on_delta: OnDelta, request: ModelRequest
    ) -> ModelReply:
        def make() -> bytes:
            content = encode(to_body(body))
            request.on_sent(body, content)
            return content

        name = self._provider.cache_key
        is_header = name not in ("", "body") and request.affinity
        headers = {name: request.affinity} if is_header else {}
        return await self._ask(Answer(), make, on_delta, request, headers)

    def _open(self) -> SdkClient:
        from agent.models.openai_client import open_client  # noqa: PLC0415 - half a second

        return open_client(self._endpoint)


def adapt_request(request: ModelRequest, endpoint: Endpoint) -> ModelRequest:
    """The request as the endpoint wants its requests."""
    lengths = [length for length in (request.max_tokens, endpoint.max_tokens) if length]
    temperature = endpoint.temperature if request.temperature is None else request.temperature
    return replace(request, max_tokens=min(lengths, default=0), temperature=temperature)


def wire_body(model: str, request: ModelRequest) -> dict[str, Any]:
    """The JSON of a streaming request; what is not asked for is not in it."""
    body: dict[str, Any] = {
        "model": model,
        "messages": list(request.messages),
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body |= {"tools": list(request.tools), "tool_choice": request.tool_choice}
    if request.max_tokens:
        body["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.schema is not None:
        format_ = {"name": "answer", "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": format_}
    wanted = {**(request.parameters or {})}
    if not request.tools or request.tool_choice == "none":  # they are about tools, and refused
        wanted = {name: value for name, value in wanted.items() if name not in _ABOUT_TOOLS}
    return body | wanted


_ABOUT_TOOLS = ("tool_choice", "parallel_tool_calls")


# Parameters that some endpoints refuse, with the words by which they do, and what they want
# instead. OpenAI's reasoning models refuse the second and the third.
_REFUSALS = {
    "stream_options": "stream_options",
    "max_tokens": "max_completion_tokens",
    "temperature": "'temperature' does not support",
    "prompt_cache_key": "prompt_cache_key",
}
_SUBSTITUTES = {"max_tokens": "max_completion_tokens"}


def find_refused_parameter(body: Mapping[str, Any], complaint: str) -> str:
    """The parameter of a request that a refusal is about and that can be left out, or ""."""
    named = (name for name, words in _REFUSALS.items() if name in body and words in complaint)
    return next(named, "")


_PICTURES = re.compile(r"image|multi-?modal|vision|content\b.*\bstring", re.IGNORECASE)


def is_about_pictures(body: Mapping[str, Any], complaint: str) -> bool:
    """Whether a refusal may be about the pictures of a request: the model can't see, or can't read
    one of them, which would be in every later request too."""
    return has_pictures(body["messages"]) and _PICTURES.search(complaint) is not None


def without(body: Mapping[str, Any], unwanted: frozenset[str]) -> dict[str, Any]:
    """The request without parameters that were refused, or under the name that is wanted."""
    kept = {name: value for name, value in body.items() if name not in unwanted}
    renamed = {
        other: body[name]
        for name, other in _SUBSTITUTES.items()
        if name in unwanted and name in body
    }
    return kept | renamed
