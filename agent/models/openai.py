"""Any model behind an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent.models import failures, ollama
from agent.models.answer import MOST_CHARACTERS, Answer
from agent.models.base import (
    Model,
    ModelAnswerBroken,
    ModelAnswerTooLong,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    OnDelta,
)
from agent.models.endpoint import OPENAI_URL, Endpoint
from agent.pictures import blind, has_pictures

if TYPE_CHECKING:
    from agent.models.openai_client import Client

log = logging.getLogger(__name__)

__all__ = ["OPENAI_URL", "Endpoint", "OpenAIModel"]


class OpenAIModel(Model):
    """A model asked through the official SDK, which is loaded at the first request."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._client: Client | None = None
        self._opening = asyncio.Lock()
        self._unwanted: frozenset[str] = frozenset()
        self._window = endpoint.window
        self._inquiries = 0 if self._window else ollama.inquiries(endpoint)

    @property
    def name(self) -> str:
        return self._endpoint.model

    @property
    def window(self) -> int:
        return self._window

    @property
    def provider(self) -> str:
        return self._endpoint.provider or self._endpoint.base_url

    @property
    def takes_tools(self) -> bool:
        return self._endpoint.takes_tools

    @property
    def sees(self) -> bool:
        return True  # until it refuses them: no package knows

    @property
    def is_free(self) -> bool:
        return self._endpoint.is_free

    async def ready(self) -> None:
        """Ask a server that may be Ollama which window it runs the model with."""
        if self._inquiries:
            self._inquiries -= 1
            try:
                self._window = await ollama.window(await self._connect(), self._endpoint)
            except ModelError as error:
                log.info("%s did not say its window: %s", self.name, error)
            if self._window:
                self._inquiries = 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming. A parameter that the endpoint refuses by name is left out for good;
        where it refuses pictures, words stand for them in this request."""
        whole = wire_body(self.name, adapt_request(request, self._endpoint))
        while True:
            body = without(whole, self._unwanted)
            try:
                return await self._ask(body, on_delta, request)
            except ModelRefused as error:
                if refused := find_refused_parameter(body, str(error)):
                    self._unwanted |= {refused}
                elif is_about_pictures(body, str(error)):
                    whole = {**whole, "messages": blind(whole["messages"])}
                else:
                    raise

    async def first_listed_model(self) -> str | None:
        """The first model that the endpoint lists; None where it lists none, or fails."""
        try:
            return next(iter(await self.list_models()), None)
        except ModelError:
            return None

    async def list_models(self) -> list[str]:
        """The names of all models that the endpoint lists. Raises ModelError."""
        client = await self._connect()
        return names_in(await client.list_models())

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _ask(
        self, body: Mapping[str, Any], on_delta: OnDelta, request: ModelRequest
    ) -> ModelReply:
        client = await self._connect()
        answer = Answer()
        try:
            async with aclosing(
                client.chunks(body, lambda: answer.size, request.on_sent)
            ) as chunks:
                await _take_in(chunks, answer, on_delta, request.on_thought)
            return finish_reply(self._endpoint, answer, request.parameters is not None)
        except ModelAnswerTooLong:
            answer.is_full = True
            if not answer.text.strip():
                request.on_lost(answer.reply(self.name))
                raise
            return answer.reply(self.name)
        except asyncio.CancelledError:  # the endpoint has read the prompt, and may write on
            request.on_lost(answer.reply(self.name))
            raise
        except ModelError as error:
            if answer.has_begun:
                request.on_lost(answer.reply(self.name))
            if isinstance(error, ModelAnswerBroken):
                error.text = answer.text
            raise

    async def _connect(self) -> Client:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(_open_client, self._endpoint)
            return self._client


async def _take_in(
    chunks: AsyncIterator[object], answer: Answer, on_delta: OnDelta, on_thought: OnDelta
) -> None:
    async for chunk in chunks:
        piece = answer.add(chunk)
        if answer.thought:
            on_thought(answer.thought)
        if piece:
            on_delta(piece)
        if answer.is_full:
            break


def _open_client(endpoint: Endpoint) -> Client:
    from agent.models.openai_client import Client  # noqa: PLC0415 - half a second, not at start

    return Client(endpoint)


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


def finish_reply(endpoint: Endpoint, answer: Answer, may_be_empty: bool = False) -> ModelReply:
    """The reply of a stream that has ended; raises ModelAnswerBroken if it is none."""
    reply = answer.reply(endpoint.model)
    if answer.finish and may_be_empty:
        return reply
    if not reply.text.strip() and not reply.tool_calls:
        if answer.is_full:
            raise failures.too_much(endpoint, f"more than {MOST_CHARACTERS:,} characters at once")
        raise failures.empty_answer_error(endpoint, answer.finish)
    if not answer.is_whole:
        raise failures.broke_off(endpoint)
    return reply


LONGEST_NAME = 200
"""Characters of a model's name."""


def names_in(listing: object) -> list[str]:
    """The models' names in what `GET /models` answered; what is none is left out."""
    data = listing.get("data") if isinstance(listing, dict) else None
    entries = data if isinstance(data, list) else []
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return [name for name in names if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME]
