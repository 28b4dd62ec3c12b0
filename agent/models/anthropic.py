"""Claude by Anthropic's own protocol, with prompt caching and kept thoughts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import astuple, replace

from agent.models.anthropic_answer import AnthropicAnswer, layout
from agent.models.anthropic_request import EFFORTS, to_body, to_neutral
from agent.models.base import (
    ModelError,
    ModelReply,
    ModelRequest,
    OnDelta,
    Usage,
)
from agent.models.served import EndpointModel, Trial, encode
from agent.models.shapes import count

if TYPE_CHECKING:
    from agent.models.sdk_client import SdkClient

log = logging.getLogger(__name__)

_MOST_PAUSES = 5
_PATIENCE = 5.0
"""Seconds for a count."""
_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking")
_LEAST_THOUGHT = 1_024


class AnthropicModel(EndpointModel):
    """A model asked by the Messages API."""

    LIST = "/v1/models"
    MESSAGES = "/v1/messages"
    counts = True

    async def count(self, request: ModelRequest) -> int:
        """Count a request by the API, which is free, but rate-limited separately."""
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

    def _to_neutral(self, request: ModelRequest) -> dict[str, Any]:
        """Return the request with the adaptations known for this model."""
        asked = self._known.trim(to_neutral(self.name, request, self._endpoint.effort))
        asked = {name: value for name, value in asked.items() if name not in self.learnt.unwanted}
        config = dict(asked.get("output_config", {}))
        effort = config.get("effort", "")
        if self.learnt.facts.get("effort") is False and effort:
            del config["effort"]
            asked["output_config"] = config
            if not config:
                del asked["output_config"]
        if self.learnt.facts.get("budget") and asked.get("thinking", {}).get("type") == "adaptive":
            budget = min(EFFORTS.get(effort, _LEAST_THOUGHT), asked["max_tokens"] - 1)
            del asked["thinking"]
            if budget >= _LEAST_THOUGHT:
                asked["thinking"] = {"type": "enabled", "budget_tokens": budget}
        return asked

    def _leave_out_thoughts(
        self, body: dict[str, Any], request: ModelRequest, trial: Trial
    ) -> bool:
        """Disable thinking in this request. Some models can't disable it."""
        if body.get("without_thoughts"):
            if not body.get("thinking"):
                return False
            trial.changes["thinking"] = None
            return True
        if not request.beside.thoughts:
            return False
        trial.changes |= {"thinking": {"type": "disabled"}, "without_thoughts": True}
        return True

    async def _stream_conversation(
        self,
        body: Mapping[str, Any],
        request: ModelRequest,
        on_delta: OnDelta,
    ) -> ModelReply:
        """Ask; send a paused answer back unchanged, to be continued."""
        body = {name: value for name, value in body.items() if value is not None}
        sent = to_body(body, request.beside)
        answer = AnthropicAnswer()
        reply = await self._ask(answer, _made(sent), on_delta, request, shown=body)
        content = answer.content
        for _ in range(_MOST_PAUSES):
            if not answer.is_paused or not content:
                break
            again = {**sent, "messages": [*sent["messages"], _as_unfinished(content)]}
            answer, before = AnthropicAnswer(), reply
            try:
                reply = _join(before, await self._ask(answer, _made(again), on_delta, request))
            except BaseException:  # it is paid, whatever interrupted the rest
                request.on_lost(before)
                raise
            content += answer.content
        finish = "complete" if answer.is_paused else reply.finish
        return replace(reply, finish=finish, thoughts=layout(content))

    def _open(self) -> SdkClient:
        from agent.models.anthropic_client import open_client  # noqa: PLC0415 - half a second

        return open_client(self._endpoint)


def _as_unfinished(content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return an answer to be continued; it may not end in blanks (opencode#1295)."""
    *before, last = content
    if last.get("type") == "text":
        last = {**last, "text": last["text"].rstrip()}
    blocks = [*before, last] if last.get("text", "-") else before
    return {"role": "assistant", "content": blocks}


def _made(sent: Mapping[str, Any]) -> Callable[[], bytes]:
    return lambda: encode(sent)


def _join(before: ModelReply, after: ModelReply) -> ModelReply:
    """Return a paused answer and its continuation as one."""
    counted = [reply.usage for reply in (before, after) if reply.usage]
    usage = Usage(*map(sum, zip(*map(astuple, counted), strict=True))) if counted else None
    return replace(
        after,
        text=before.text + after.text,
        tool_calls=before.tool_calls + after.tool_calls,
        reasoning=before.reasoning + after.reasoning,
        usage=usage,
    )
