"""Summaries by the model: the port that `memory` declares, with input of any length."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    Model,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
    Usage,
)
from agent.models.catalogue import spent_on
from memory.context.summary import SummaryRequest, SummaryResult
from memory.keys import ConversationKey
from memory.record.ledger import Spent

log = logging.getLogger(__name__)

_FILLED = 0.9  # of the room for a piece: tokenizers differ, and the meter is one of them
_LEAST = 200  # tokens that a piece may have in any window
_AROUND = 50  # tokens of what stands around task and text

Part = tuple[int, str, int]
"""What is summarised: the index of the request's part that it belongs to, its text, its tokens."""


@dataclass(frozen=True, slots=True)
class ModelSummarizer:
    """Asks the model that is in force for the conversation; `window_of` is in tokens, and `count`
    says how many tokens a text has for the model of a name.

    `on_refused` hears of a refused key or account, of which nobody is told in the chat.
    `unstructured` are the names of models that refused a JSON Schema: they are asked in words.
    """

    model_of: Callable[[ConversationKey], Model]
    window_of: Callable[[ConversationKey], int]
    count: Callable[[str, str], int]
    on_refused: Callable[[str], None] = lambda sentence: None
    unstructured: set[str] = field(default_factory=set)

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        """Summarise, in one call where the window allows it; otherwise piece by piece: each piece's
        summary stands before the next piece."""
        model = self.model_of(request.key)
        await model.ready()
        work = _Work(self, model, request, self.window_of(request.key))
        try:
            text = await work.done()
        except ModelError as error:
            log.warning("a summary failed: %s", error)
            if isinstance(error, AccountRefused):
                self.on_refused(str(error))
            return SummaryResult("", model.name, tuple(work.spent))
        name = work.spent[-1].model if work.spent else model.name
        return SummaryResult(text, name, tuple(work.spent), frozenset(work.left_out))

    async def ask(self, model: Model, request: SummaryRequest) -> ModelReply:
        """One piece's summary; a model that can't keep to a schema is told of it in words, once."""
        if request.schema is not None and model.name not in self.unstructured:
            try:
                return await model.reply(_request(request), _unseen)
            except (ModelRefused, ModelAnswerBroken, ModelUnreachable) as error:
                is_hopeless = isinstance(error, ModelUnreachable) and error.status < 500
                if is_hopeless or isinstance(error, AccountRefused):
                    raise
                log.info("%s is asked without a schema: %s", model.name, error)
        reply = await model.reply(_request(_in_words(request)), _unseen)
        if request.schema is not None:
            self.unstructured.add(model.name)
        return reply


@dataclass(slots=True)
class _Work:
    """A summary in the making: what was spent on it, and what no model would take."""

    by: ModelSummarizer
    model: Model
    request: SummaryRequest
    window: int
    spent: list[Spent] = field(default_factory=list)
    left_out: set[int] = field(default_factory=set)

    async def done(self) -> str:
        """The summary. Raises ModelError."""
        so_far = self.request.prior
        task = await self._count(_in_words(self.request).task)
        parts = [
            (index, text, await self._count(text)) for index, text in enumerate(self.request.parts)
        ]
        while parts:
            taken = self.window - self.request.max_tokens - task - await self._count(so_far)
            piece, parts = _piece(parts, max(_LEAST, int((taken - _AROUND) * _FILLED)))
            try:
                so_far = await self._ask(so_far, piece)
            except ContextOverflow as error:
                if 0 < error.window < self.window:
                    self.window, parts = error.window, piece + parts
                    continue
                so_far = await self._with_less(so_far, piece, error)
        return so_far

    async def _with_less(self, so_far: str, piece: Sequence[Part], error: ContextOverflow) -> str:
        """The model says that a piece is too long: the oldest of it is left out, then more."""
        out = 1
        while out < len(piece):
            try:
                summary = await self._ask(so_far, piece[out:])
            except ContextOverflow:
                out *= 2
            else:
                self.left_out.update(index for index, _, _ in piece[:out])
                return summary
        raise error

    async def _ask(self, so_far: str, piece: Sequence[Part]) -> str:
        request = replace(self.request, prior=so_far, parts=tuple(text for _, text, _ in piece))
        reply = await self.by.ask(self.model, request)
        self.spent.append(spent_on("summary", self.model, reply, reply.usage or Usage(0, 0)))
        return reply.text.strip()

    async def _count(self, text: str) -> int:
        return await asyncio.to_thread(self.by.count, text, self.model.name)


def _piece(parts: Sequence[Part], room: int) -> tuple[list[Part], list[Part]]:
    """The first of these parts that hold at most so many tokens together, and the rest; a part that
    is longer by itself is divided."""
    (index, text, tokens), rest = parts[0], list(parts[1:])
    if tokens > room:
        end = max(1, len(text) * room // tokens)
        cut = text.rfind("\n", end // 2, end) + 1 or end
        more = (index, text[cut:], tokens - tokens * cut // len(text))
        return [(index, text[:cut], room)], [more, *rest]
    count, left = 0, room
    while count < len(parts) and parts[count][2] <= left:
        left -= parts[count][2]
        count += 1
    return list(parts[:count]), list(parts[count:])


def _unseen(piece: str) -> None:
    """Nobody watches a summary being written."""


def _in_words(request: SummaryRequest) -> SummaryRequest:
    """The same request, with the schema in the task."""
    if request.schema is None:
        return request
    wish = f"Answer with one JSON object that fits this JSON Schema: {json.dumps(request.schema)}"
    return replace(request, task=f"{request.task}\n\n{wish}", schema=None)


def _request(request: SummaryRequest) -> ModelRequest:
    return ModelRequest(
        messages=[
            {"role": "system", "content": request.task},
            {"role": "user", "content": request.text},
        ],
        max_tokens=request.max_tokens,
        schema=request.schema,
    )
