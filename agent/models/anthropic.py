"""Claude by Anthropic's own protocol, in which what was said is cached and thoughts are kept."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple, replace

from agent.models.answer import count
from agent.models.anthropic_answer import AnthropicAnswer, layout
from agent.models.anthropic_request import EFFORTS, to_body, to_neutral
from agent.models.base import (
    ContextOverflow,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    OnDelta,
    Usage,
)
from agent.models.endpoint import Endpoint
from agent.models.openai import is_about_pictures
from agent.models.served import EndpointModel, encode
from agent.pictures import blind
from memory.messages import Beside

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

_MOST_PAUSES = 5
_PATIENCE = 5.0
"""Seconds for a count."""
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking")
_LEAST_ROOM = 1_024
"""Tokens below which an answer that must fit into what is left of the window is not asked for."""
_LONGEST = re.compile(r"max_tokens: \d+ > (\d{1,9})")
_LEAST_THOUGHT = 1_024


class AnthropicModel(EndpointModel):
    """A model asked by the Messages API."""

    LIST = "/v1/models"
    MESSAGES = "/v1/messages"

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._longest = 0  # the model's, once it was named
        self._wants_budget = False  # older models think by a number of tokens
        self._takes_effort = True

    @property
    def counts(self) -> bool:
        return True

    async def count(self, request: ModelRequest) -> int:
        """What the API counts of a request: that is free, but has a limit of its own."""
        adapted = self._adapt(request)
        body = to_body(to_neutral(self.name, adapted, self._endpoint.effort), request.beside)
        asked = {name: value for name, value in body.items() if name in _COUNTED}
        try:
            client = await self._connect()
            answer = await client.fetch(f"{self.MESSAGES}/count_tokens", asked, _PATIENCE)
        except ModelError as error:
            log.info("%s did not count a request: %s", self.name, error)
            return 0
        return count(answer, "input_tokens") if isinstance(answer, dict) else 0

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        """Answer, streaming. What a model wants to be asked otherwise is so from then on; pictures
        and thoughts that it does not take are left out of this request."""
        adapted = self._adapt(request)
        body = to_neutral(self.name, adapted, self._endpoint.effort)
        while True:
            asked = self._as_wanted(body)
            try:
                return await self._converse(asked, request, on_delta)
            except ContextOverflow as error:
                if not _LEAST_ROOM <= error.room < asked["max_tokens"]:
                    raise
                body = {**body, "max_tokens": error.room}
            except ModelRefused as error:
                said = str(error)
                if self._learns(asked, said):
                    continue
                if without := _without_thoughts(body, request.beside, said):
                    body = without
                elif is_about_pictures(asked, said):
                    body = {**body, "messages": blind(body["messages"])}
                else:
                    raise

    def _as_wanted(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The request as this model is known to want it."""
        asked = self._known.trim(body)
        if self._longest:
            asked["max_tokens"] = min(asked["max_tokens"], self._longest)
        config = dict(asked.get("output_config", {}))
        effort = config.get("effort", "")
        if not self._takes_effort and effort:
            del config["effort"]
            asked["output_config"] = config
            if not config:
                del asked["output_config"]
        if self._wants_budget and asked.get("thinking", {}).get("type") == "adaptive":
            budget = min(EFFORTS.get(effort, _LEAST_THOUGHT), asked["max_tokens"] - 1)
            del asked["thinking"]
            if budget >= _LEAST_THOUGHT:
                asked["thinking"] = {"type": "enabled", "budget_tokens": budget}
        return asked

    def _learns(self, asked: Mapping[str, Any], said: str) -> bool:
        """Whether a refusal says how the model wants to be asked, in something that was not known
        yet."""
        if found := _LONGEST.search(said):
            longest, self._longest = self._longest, int(found[1])
            return longest != self._longest
        if "adaptive" in said and asked.get("thinking", {}).get("type") == "adaptive":
            self._wants_budget = True
            return True
        if "effort" in said and "effort" in asked.get("output_config", {}):
            self._takes_effort = False
            return True
        return False

    async def _converse(
        self,
        body: Mapping[str, Any],
        request: ModelRequest,
        on_delta: OnDelta,
    ) -> ModelReply:
        """Ask; an answer that pauses is sent back as it is, and goes on."""
        sent = to_body(body, request.beside)

        def make() -> bytes:
            content = encode(sent)
            request.on_sent(body, content)
            return content

        answer = AnthropicAnswer()
        reply = await self._ask(answer, make, on_delta, request)
        content = answer.content
        for _ in range(_MOST_PAUSES):
            if not answer.is_paused or not content:
                break
            again = {**sent, "messages": [*sent["messages"], _as_said(content)]}
            answer, before = AnthropicAnswer(), reply
            try:
                reply = _join(before, await self._ask(answer, _made(again), on_delta, request))
            except BaseException:  # it is paid, whatever ends what should have followed
                request.on_lost(before)
                raise
            content += answer.content
        finish = "complete" if answer.is_paused else reply.finish
        return replace(reply, finish=finish, thoughts=layout(content))

    def _open(self) -> SdkClient:
        from agent.models.anthropic_client import open_client  # noqa: PLC0415 - half a second

        return open_client(self._endpoint)


def _as_said(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def _made(sent: Mapping[str, Any]) -> Callable[[], bytes]:
    return lambda: encode(sent)


def _join(before: ModelReply, after: ModelReply) -> ModelReply:
    """An answer that paused, and what followed it, as one."""
    counted = [reply.usage for reply in (before, after) if reply.usage]
    usage = Usage(*map(sum, zip(*map(astuple, counted), strict=True))) if counted else None
    return replace(
        after,
        text=before.text + after.text,
        tool_calls=before.tool_calls + after.tool_calls,
        reasoning=before.reasoning + after.reasoning,
        usage=usage,
    )


def _without_thoughts(body: Mapping[str, Any], beside: Beside, said: str) -> dict[str, Any] | None:
    """The request in which nobody has thought, after a refusal that may be about thoughts: they
    were another model's, or the server does not know them. None where it is about something else,
    or nothing is left to leave out. Some models can't be told not to think."""
    if "thinking" not in said and "signature" not in said:
        return None
    rest = {name: value for name, value in body.items() if name != "thinking"}
    if body.get("without_thoughts"):
        return rest if "thinking" in body else None
    if not beside.thoughts:
        return None
    return {**rest, "thinking": {"type": "disabled"}, "without_thoughts": True}
