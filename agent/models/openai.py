"""Any model behind an OpenAI-compatible endpoint, by chat completions or the Responses API."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from agent.models import listed, openai_request, responses_request
from agent.models.answer import Answer
from agent.models.base import (
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    OnDelta,
    WantsResponses,
)
from agent.models.endpoint import OPENAI_URL, Endpoint
from agent.models.providers import Provider
from agent.models.responses_answer import ResponsesAnswer
from agent.models.served import EndpointModel, encode
from agent.pictures import blind, has_pictures
from memory.messages import Beside

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

__all__ = ["OPENAI_URL", "Endpoint", "OpenAIModel"]


class _Api(Struct, frozen=True):
    """One of the two ways to ask: how a request is made of what is wanted, first in the shape that
    both have (`to_neutral`), and what of it was refused and may be left out."""

    answer: Callable[[Provider], Answer]
    to_neutral: Callable[[Endpoint, Provider, ModelRequest], Mapping[str, Any]]
    to_body: Callable[[Mapping[str, Any], Beside], Mapping[str, Any]]
    find_refused: Callable[[Mapping[str, Any], str], str]
    leave_out: Callable[[Mapping[str, Any], frozenset[str]], Mapping[str, Any]]


BY_CHAT = _Api(
    lambda provider: Answer(provider.thoughts),
    openai_request.to_neutral,
    openai_request.to_body,
    openai_request.find_refused_parameter,
    openai_request.without,
)
BY_RESPONSES = _Api(
    lambda provider: ResponsesAnswer(),
    responses_request.to_neutral,
    responses_request.to_body,
    responses_request.find_refused_parameter,
    responses_request.without,
)


class OpenAIModel(EndpointModel):
    """A model asked by OpenAI's protocol: by chat completions, unless it is known or said to want
    the Responses API."""

    def __init__(self, endpoint: Endpoint, *, by_responses: bool = False) -> None:
        super().__init__(endpoint)
        self._provider = self._known
        is_known = self._provider.wants_responses(endpoint.model)
        self._api = BY_RESPONSES if by_responses or is_known else BY_CHAT
        self._unwanted: frozenset[str] = frozenset()
        self._window = endpoint.window
        self._inquiries = 0 if self._window else listed.inquiries(endpoint)

    @property
    def window(self) -> int:
        return self._window

    @property
    def caches_by_itself(self) -> bool:
        return True

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
        """Answer, streaming. A parameter that the endpoint refuses by name is left out for good; so
        is chat completions where a model is served by the Responses API alone. Where it refuses
        pictures, words stand for them in this request, and thoughts stay here."""
        adapted = self._adapt(request)
        whole = self._api.to_neutral(self._endpoint, self._provider, adapted)
        while True:
            body = self._api.leave_out(whole, self._unwanted)
            try:
                return await self._send(body, on_delta, request)
            except WantsResponses:
                if self._api is BY_RESPONSES:
                    raise
                await self.close()
                self._api = BY_RESPONSES
                whole = self._api.to_neutral(self._endpoint, self._provider, adapted)
            except ModelRefused as error:
                said = str(error)
                if refused := self._api.find_refused(body, said):
                    self._unwanted |= {refused}
                elif unthought := _without_thoughts(whole, request.beside, said):
                    whole = unthought
                elif is_about_pictures(body, said):
                    whole = {**whole, "messages": blind(whole["messages"])}
                else:
                    raise

    async def _send(
        self, body: Mapping[str, Any], on_delta: OnDelta, request: ModelRequest
    ) -> ModelReply:
        def make() -> bytes:
            content = encode(self._api.to_body(body, request.beside))
            request.on_sent(body, content)
            return content

        name = self._provider.cache_key
        is_header = name not in ("", "body") and request.affinity and self._api is BY_CHAT
        headers = {name: request.affinity} if is_header else {}
        return await self._ask(self._api.answer(self._provider), make, on_delta, request, headers)

    def _open(self) -> SdkClient:
        from agent.models.openai_client import open_client  # noqa: PLC0415 - half a second

        return open_client(self._endpoint, by_responses=self._api is BY_RESPONSES)


_PICTURES = re.compile(r"image|multi-?modal|vision|content\b.*\bstring", re.IGNORECASE)


def is_about_pictures(body: Mapping[str, Any], complaint: str) -> bool:
    """Whether a refusal may be about the pictures of a request: the model can't see, or can't read
    one of them, which would be in every later request too."""
    return has_pictures(body["messages"]) and _PICTURES.search(complaint) is not None


def _without_thoughts(body: Mapping[str, Any], beside: Beside, said: str) -> dict[str, Any] | None:
    """The request in which nobody has thought, after a refusal that may be about thoughts: another
    key's or another model's can't be read. None where it is about something else, or has none."""
    is_theirs = "encrypted content" in said.lower() or "'reasoning'" in said
    if not is_theirs or not beside.thoughts or body.get("without_thoughts", True):
        return None
    return {**body, "without_thoughts": True}
