"""Models connected to the strict servers of tests/fakes, for the tests of all protocols."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import pytest
from msgspec.structs import replace

from agent.models.anthropic import AnthropicModel
from agent.models.base import ModelError, ModelReply, ModelRequest, OnDelta
from agent.models.endpoint import Endpoint
from agent.models.openai import OpenAIModel
from agent.models.served import EndpointModel
from memory.messages import Message, RequestExtras
from tests.fakes.anthropic_server import AnthropicServer
from tests.fakes.openai_server import Answer, OpenAIServer

KEY = "sk-secret-0123456789"
TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Look.", "parameters": {"type": "object"}},
}
BARE_TOOL = {"type": "function", "function": {"name": "act", "parameters": {"type": "object"}}}
HELLO = ModelRequest([{"role": "user", "content": "Hello?"}])
HELLO_WITH_TOOL = ModelRequest(HELLO.messages, [TOOL])

Server = TypeVar("Server", OpenAIServer, AnthropicServer)


@dataclass(frozen=True)
class Protocol(Generic[Server]):
    """A model with a protocol, and a strict server for it."""

    model: Callable[[Endpoint], EndpointModel]
    server: Callable[..., Server]

    def at(self, url: str, **settings: Any) -> EndpointModel:
        """Return a model at an address, with these fields of its `Endpoint`."""
        usual: dict[str, Any] = {"model": "fake-model", "api_key": KEY, "max_retries": 0}
        return self.model(Endpoint(base_url=url, **(usual | settings)))


CHAT = Protocol(OpenAIModel, OpenAIServer)
RESPONSES = Protocol(partial(OpenAIModel, by_responses=True), OpenAIServer)
CLAUDE = Protocol(AnthropicModel, AnthropicServer)
PROTOCOLS: dict[str, Protocol[Any]] = {"chat": CHAT, "responses": RESPONSES, "claude": CLAUDE}


@asynccontextmanager
async def conversation(
    protocol: Protocol[Server], *script: Answer, **settings: Any
) -> AsyncIterator[tuple[Server, EndpointModel]]:
    """Run a server with a script, and a model connected to it."""
    async with protocol.server(script) as server:
        model = protocol.at(server.base_url, **settings)
        try:
            yield server, model
        finally:
            await model.close()


async def ask(
    model: EndpointModel, request: ModelRequest = HELLO, on_delta: OnDelta = lambda _: None
) -> ModelReply:
    return await model.reply(request, on_delta)


async def failure(model: EndpointModel, on_delta: OnDelta = lambda _: None) -> ModelError:
    """Return the error with which a request ends."""
    with pytest.raises(ModelError) as caught:
        await ask(model, on_delta=on_delta)
    return caught.value


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def after(
    request: ModelRequest,
    reply: ModelReply,
    thoughts: str | None = None,
    errors: frozenset[str] = frozenset(),
) -> ModelRequest:
    """Return the request of the next step, after all calls of a reply have returned "A moon.";
    `thoughts` are the reply's, unless given."""
    kept = reply.thoughts if thoughts is None else thoughts
    calls = reply.tool_calls
    results = [Message("tool", "A moon.", call_id=call.id, tool=call.name) for call in calls]
    added = [Message("assistant", reply.text, calls), *results]
    beside = RequestExtras(dict(request.beside.thoughts) | {calls[0].id: kept}, errors)
    messages = [*request.messages, *(one.to_wire() for one in added)]
    return replace(request, messages=messages, beside=beside)
