"""A request in OpenAI's protocol and its answer, as channel and bot hand them to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from channels.message import Problem


@dataclass(frozen=True, slots=True)
class Given:
    """A message as the client sent it: `wire` goes to the model as it stands; `text` and the number
    of `pictures` are what is counted of it."""

    role: Literal["system", "user", "assistant", "tool"]
    wire: Mapping[str, Any]
    text: str
    pictures: int = 0


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A request that stands by itself. `tools` are the client's, which it runs itself (None: the
    bot's own are offered; none: no tool is); `parameters` of the protocol are sent on as they
    stand. What `is_streamed` can't be taken back."""

    messages: Sequence[Given]
    tools: Sequence[Mapping[str, Any]] | None = None
    max_tokens: int = 0
    temperature: float | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_streamed: bool = False


@dataclass(frozen=True, slots=True)
class HandedCall:
    """A call of one of the client's tools; `arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Completed:
    """The answer as a whole. `finish` is the protocol's reason; tokens are those of all calls to
    models that it took, `cached` the part of `prompt` that came from a cache."""

    text: str
    finish: str
    calls: tuple[HandedCall, ...] = ()
    reasoning: str = ""
    prompt: int = 0
    cached: int = 0
    completion: int = 0


class NotCompleted(Exception):
    """There is no answer. The text is a sentence that says why; `retry_after` are the seconds after
    which it is worth to ask again (0: unknown)."""

    def __init__(self, problem: Problem, sentence: str, retry_after: int = 0) -> None:
        super().__init__(sentence)
        self.problem, self.retry_after = problem, retry_after
