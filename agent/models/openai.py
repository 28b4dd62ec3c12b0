"""Any model behind an OpenAI-compatible endpoint, by chat completions or the Responses API."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from agent.models import listed, openai_request, responses
from agent.models.answer import Answer
from agent.models.base import ModelError, ModelReply, ModelRequest, OnDelta
from agent.models.brain import Provider
from agent.models.endpoint import OPENAI_URL, RESPONSES, Endpoint
from agent.models.history import EVERYWHERE, THOUGHTS
from agent.models.learnt import ModelFacts
from agent.models.responses import ResponsesAnswer
from agent.models.served import EndpointModel, encode
from memory.messages import RequestExtras

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

__all__ = ["OPENAI_URL", "Endpoint", "OpenAIModel"]


class _Api(Protocol):
    """A module of an API of OpenAI, one of two: how a request is made, first in the shape that both
    share (`to_neutral`), and without parameters that were refused."""

    def to_neutral(
        self, endpoint: Endpoint, provider: Provider, request: ModelRequest
    ) -> dict[str, Any]: ...

    def to_body(self, neutral: Mapping[str, Any], beside: RequestExtras) -> Mapping[str, Any]: ...

    def without(self, body: Mapping[str, Any], unwanted: frozenset[str]) -> dict[str, Any]: ...


BY_CHAT: _Api = openai_request
BY_RESPONSES: _Api = responses


class OpenAIModel(EndpointModel):
    """A model asked by OpenAI's protocol: by chat completions, unless it is known or configured to
    need the Responses API."""

    caches_by_itself = True

    def __init__(
        self, endpoint: Endpoint, learnt: ModelFacts | None = None, *, by_responses: bool = False
    ) -> None:
        super().__init__(endpoint, learnt)
        self._is_responses = by_responses or self._known.wants_responses(endpoint.model)
        self._opened: _Api | None = None
        self._window = endpoint.window
        self._inquiries = 0 if self._window else listed.inquiries(endpoint)

    @property
    def _api(self) -> _Api:
        wants = self.learnt.facts.get("protocol") == RESPONSES
        return BY_RESPONSES if self._is_responses or wants else BY_CHAT

    @property
    def _field(self) -> str:
        """The field in which thoughts are sent back; "" for none."""
        learnt = str(self.learnt.facts.get("thoughts", ""))
        return {"none": "", "": self._known.thoughts}.get(learnt, learnt)

    @property
    def window(self) -> int:
        return self._window

    async def ready(self) -> None:
        """Ask the server for the window that it runs the model with, if it may know it."""
        if self._inquiries:
            self._inquiries -= 1
            try:
                self._window = await listed.ask_window(await self._connect(), self._endpoint)
            except ModelError as error:
                log.info("%s did not say its window: %s", self.name, error)
            if self._window:
                self._inquiries = 0
                self.revision += 1

    def _to_neutral(self, request: ModelRequest) -> dict[str, Any]:
        provider, api = replace(self._known, thoughts=self._field), self._api
        whole = api.to_neutral(self._endpoint, provider, request)
        if self.learnt.facts.get(EVERYWHERE) and THOUGHTS in whole:
            whole[EVERYWHERE] = True
        unwanted = self.learnt.unwanted
        return api.without(whole, unwanted) if unwanted else whole

    async def _stream_conversation(
        self, body: Mapping[str, Any], request: ModelRequest, on_delta: OnDelta
    ) -> ModelReply:
        api, name = self._api, self._known.cache_key
        if self._opened not in (None, api):
            await self.close()
        self._opened = api
        is_header = name not in ("", "body") and request.affinity and api is BY_CHAT
        headers = {name: request.affinity} if is_header else {}
        return await self._ask(
            Answer(self._field) if api is BY_CHAT else ResponsesAnswer(),
            lambda: encode(api.to_body(body, request.beside)),
            on_delta,
            request,
            headers,
            body,
        )

    def _open(self) -> SdkClient:
        from agent.models.openai_client import open_client  # noqa: PLC0415 - half a second

        return open_client(self._endpoint, by_responses=self._api is BY_RESPONSES)
