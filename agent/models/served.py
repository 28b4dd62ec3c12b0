"""A model behind an endpoint, whatever its protocol: one connection, an answer that streams, and
what is known of one that came to nothing."""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import orjson
from msgspec.structs import replace

from agent.models import failures
from agent.models.answer import MOST_CHARACTERS, Answer
from agent.models.base import (
    Model,
    ModelAnswerBroken,
    ModelAnswerTooLong,
    ModelCall,
    ModelError,
    ModelReply,
    ModelRequest,
    OnCalled,
    OnDelta,
    uncalled,
)
from agent.models.endpoint import Endpoint
from agent.models.listed import ListedModel, read_list
from agent.models.providers import find_provider
from agent.models.tags import lift_calls

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

Encode = Callable[[], bytes]
NO_HEADERS: Mapping[str, str] = {}


class EndpointModel(Model):
    """A model asked through an official SDK, which is loaded at the first request. `on_called`
    hears how each request ended."""

    LIST = "/models"
    """Where the endpoint lists its models."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._known = find_provider(endpoint.provider, endpoint.base_url, endpoint.quirks)
        self._client: SdkClient | None = None
        self._opening = asyncio.Lock()
        self.on_called: OnCalled = uncalled

    @property
    def name(self) -> str:
        return self._endpoint.model

    @property
    def window(self) -> int:
        return self._endpoint.window

    @property
    def provider(self) -> str:
        return self._endpoint.provider or self._endpoint.base_url

    @property
    def takes_tools(self) -> bool:
        return self._endpoint.takes_tools and self._known.takes_tools

    @property
    def sees(self) -> bool:
        return self._known.sees  # until it refuses them: no package knows

    @property
    def is_free(self) -> bool:
        return self._endpoint.is_free

    async def first_listed_model(self) -> str | None:
        """The first model that the endpoint lists; None where it lists none, or fails."""
        try:
            return next((one.name for one in await self.list_models()), None)
        except ModelError:
            return None

    async def list_models(self) -> list[ListedModel]:
        """All models that the endpoint lists and that one can talk to. Raises ModelError."""
        provider = self._known
        if not provider.lists:
            raise failures.unlisted(self._endpoint)
        client = await self._connect()
        return read_list(await client.fetch(self.LIST), provider)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def _adapt(self, request: ModelRequest) -> ModelRequest:
        """The request as the endpoint wants its requests."""
        return request.within(self._endpoint.temperature, self._endpoint.max_tokens)

    @abstractmethod
    def _open(self) -> SdkClient:
        """Import the SDK and make its client, in a thread. Raises ModelRefused."""

    async def _ask(
        self,
        answer: Answer,
        encode: Encode,
        on_delta: OnDelta,
        request: ModelRequest,
        headers: Mapping[str, str] = NO_HEADERS,
    ) -> ModelReply:
        """Send what `encode` makes, which is called once, and let the answer stream."""
        begun = time.monotonic()
        first: list[float] = []
        error, is_stopped = None, False
        try:
            return await self._stream(answer, encode, on_delta, request, headers, first)
        except asyncio.CancelledError:
            is_stopped = True
            raise
        except ModelError as failure:
            error = failure
            raise
        finally:
            waited = first[0] - begun if first else None
            lasted = time.monotonic() - begun
            self.on_called(ModelCall(self.name, self.provider, lasted, waited, error, is_stopped))

    async def _stream(
        self,
        answer: Answer,
        encode: Encode,
        on_delta: OnDelta,
        request: ModelRequest,
        headers: Mapping[str, str],
        first: list[float],
    ) -> ModelReply:
        """The same; `first` is told when the answer began."""
        client = await self._connect()
        try:
            options: dict[str, Any] = {"headers": headers} if headers else {}
            if request.is_hasty:
                options["max_retries"] = 0
            async with aclosing(client.chunks(encode, lambda: answer.size, options)) as chunks:
                await _take_in(chunks, answer, on_delta, request.on_thought, first)
            may_be_empty = request.parameters is not None or answer.is_paused
            reply = finish_reply(self._endpoint, answer, may_be_empty)
            return _with_lifted(reply, request) if answer.THINKS_ALOUD else reply
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

    async def _connect(self) -> SdkClient:
        async with self._opening:
            if self._client is None:
                self._client = await asyncio.to_thread(self._open)
            return self._client


async def _take_in(
    chunks: AsyncIterator[Iterable[object]],
    answer: Answer,
    on_delta: OnDelta,
    on_thought: OnDelta,
    first: list[float],
) -> None:
    async for came in chunks:
        text: list[str] = []  # what came together is told at once
        try:
            for chunk in came:
                piece = answer.add(chunk)
                if not first and (piece or answer.has_begun):
                    first.append(time.monotonic())
                if answer.thought:
                    _tell(text, on_delta)
                    on_thought(answer.thought)
                if piece:
                    text.append(piece)
                if answer.is_full:
                    return
        finally:  # also what came before an error
            _tell(text, on_delta)


def _tell(text: list[str], on_delta: OnDelta) -> None:
    if text:
        on_delta("".join(text))
        text.clear()


def _with_lifted(reply: ModelReply, request: ModelRequest) -> ModelReply:
    """Return a reply whose calls are calls, where the server left them in the text."""
    if reply.tool_calls or reply.finish != "complete" or request.tool_choice == "none":
        return reply
    text, calls = lift_calls(reply.text, [tool["function"]["name"] for tool in request.tools])
    return replace(reply, text=text, tool_calls=calls, finish="tools") if calls else reply


def encode(body: Mapping[str, Any]) -> bytes:
    """A request's bytes. Raises ValueError."""
    return orjson.dumps(body, default=dict)


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
