"""A strict fake model for tests: it gives the answers of a script and nothing else."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from inspect import isawaitable

from agent.models.base import Model, ModelError, ModelReply, ModelRequest, OnDelta, Usage
from memory.messages import ToolCall

Fixed = str | tuple[ToolCall, ...] | ModelReply | ModelError
"""Text, tool calls, a whole reply, or an error to raise."""

Decide = Callable[[ModelRequest], Fixed | Awaitable[Fixed]]
"""An answer made from the request; it may wait, to hold a turn open."""

Count = Callable[[ModelRequest, str], Usage | None]
"""The usage to report for a request and the text that answers it."""


def estimated_usage(request: ModelRequest, text: str) -> Usage:
    """Count four characters of JSON as a token; nothing is cached."""
    sent = json.dumps([[dict(m) for m in request.messages], [dict(t) for t in request.tools]])
    return Usage(prompt=len(sent) // 4, completion=len(text) // 4 + 1)


class ScriptedModel(Model):
    """A model that answers in the order of the script; if the script is one function, it answers
    every request.

    A request beyond the script raises AssertionError, and so does `close` while answers are left.
    `requests` are all requests.
    """

    def __init__(
        self,
        script: Iterable[Fixed | Decide] | Decide,
        *,
        name: str = "scripted",
        window: int = 128_000,
        takes_tools: bool = True,
        sees: bool = True,
        usage: Count = estimated_usage,
    ) -> None:
        self.requests: list[ModelRequest] = []
        self._always = script if callable(script) else None
        self._answers = deque(() if callable(script) else script)
        self._name = name
        self._window = window
        self._takes_tools = takes_tools
        self._sees = sees
        self._usage = usage

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> int:
        return self._window

    @property
    def takes_tools(self) -> bool:
        return self._takes_tools

    @property
    def sees(self) -> bool:
        return self._sees

    @property
    def is_free(self) -> bool:
        return False

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        self.requests.append(request)
        answer = self._next(request)
        decided = answer(request) if callable(answer) else answer
        fixed = await decided if isawaitable(decided) else decided
        if isinstance(fixed, ModelError):
            raise fixed
        reply = self._as_reply(fixed, request)
        for piece in _pieces(reply.text):
            on_delta(piece)
        return reply

    def assert_done(self) -> None:
        """Raise AssertionError while answers are left."""
        assert not self._answers, f"{self._name} was not asked for: {list(self._answers)!r}"

    async def close(self) -> None:
        self.assert_done()

    def _next(self, request: ModelRequest) -> Fixed | Decide:
        if self._always is not None:
            return self._always
        assert self._answers, f"{self._name} has no answer left for: {request!r}"
        return self._answers.popleft()

    def _as_reply(
        self, answer: str | tuple[ToolCall, ...] | ModelReply, request: ModelRequest
    ) -> ModelReply:
        match answer:
            case ModelReply():
                return answer
            case str():
                return ModelReply(answer, (), "complete", self._name, self._usage(request, answer))
            case _:
                said = "".join(call.name + call.arguments for call in answer)
                usage = self._usage(request, said)
                return ModelReply("", answer, "tools", self._name, usage)


def _pieces(text: str) -> Iterator[str]:
    """Return the text in pieces of seven characters, without regard to words or tags."""
    return (text[start : start + 7] for start in range(0, len(text), 7))
