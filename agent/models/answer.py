"""A streamed answer, put together from the chunks of OpenAI's chat-completions protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from agent.models.base import ModelReply, Usage
from memory.messages import ToolCall

_MOST_TOKENS = 10**9  # in one answer


class Answer:
    """What has come so far.

    Chunks may have any shape: what is not of the protocol counts as absent. An answer that comes
    whole, from an endpoint that does not stream, is one chunk.
    """

    def __init__(self) -> None:
        self.finish = ""
        self._model = ""
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_Call] = []
        self._usage: Usage | None = None

    def add(self, chunk: object) -> str:
        """Take a chunk in; returns the text that it brought."""
        fields = _mapping(chunk)
        self._model = _string(fields, "model") or self._model
        self._usage = _usage(_mapping(fields.get("usage"))) or self._usage
        choice = _mapping(next(iter(_list(fields.get("choices"))), None))
        self.finish = _string(choice, "finish_reason") or self.finish
        return self._add_delta(_mapping(choice.get("delta") or choice.get("message")))

    def _add_delta(self, delta: Mapping[str, Any]) -> str:
        for part in _list(delta.get("tool_calls")):
            self._add_call(_mapping(part))
        self._reasoning.append(_string(delta, "reasoning_content") or _string(delta, "reasoning"))
        piece = _string(delta, "content") or _string(delta, "refusal")
        self._text.append(piece)
        return _whole(piece)

    def _add_call(self, part: Mapping[str, Any]) -> None:
        function = _mapping(part.get("function"))
        call = self._call_of(part, opens=bool(function.get("name")))
        call.id = call.id or _string(part, "id")
        call.name = call.name or _string(function, "name")
        call.arguments.append(_string(function, "arguments"))

    def _call_of(self, part: Mapping[str, Any], opens: bool) -> _Call:
        """The call that a part belongs to: by index, else a name opens one and the rest is of the
        last. Some endpoints give every call the index 0 and tell them apart by id alone."""
        index, own_id = part.get("index"), part.get("id")
        for call in reversed(self._calls):
            is_same = call.index == index if index is not None else not opens
            if is_same and not (opens and own_id and call.id and own_id != call.id):
                return call
        self._calls.append(_Call(index))
        return self._calls[-1]

    @property
    def text(self) -> str:
        return _whole("".join(self._text))

    @property
    def is_whole(self) -> bool:
        """Whether the end came: a finish reason, or the usage that follows it."""
        return bool(self.finish) or self._usage is not None

    def reply(self, model: str) -> ModelReply:
        """The answer as a value; `model` names it where the endpoint did not."""
        calls = tuple(call.finished() for call in self._calls if call.name)
        return ModelReply(
            text=self.text,
            tool_calls=calls,
            finish=self.finish or ("tool_calls" if calls else "stop"),
            model=self._model or model,
            usage=self._usage,
            reasoning=_whole("".join(self._reasoning)),
        )


class _Call:
    """A tool call that is still coming in."""

    def __init__(self, index: object) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def finished(self) -> ToolCall:
        arguments = _whole("".join(self.arguments))
        own_id = _whole(self.id) or f"call_{uuid4().hex[:16]}"
        return ToolCall(own_id, _whole(self.name), arguments)


def _whole(text: str) -> str:
    """The text with surrogates joined that came apart, as escapes in two chunks; half a character
    that is left over becomes U+FFFD, since it can be neither stored nor sent."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _usage(fields: Mapping[str, Any]) -> Usage | None:
    if not fields:
        return None
    details = _mapping(fields.get("prompt_tokens_details"))
    return Usage(
        prompt=_count(fields, "prompt_tokens"),
        completion=_count(fields, "completion_tokens"),
        cached=_count(details, "cached_tokens"),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _string(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _count(fields: Mapping[str, Any], key: str) -> int:
    """A number of tokens; what can't be one (-1, true, 10**40) counts as not reported."""
    value = fields.get(key)
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else 0
