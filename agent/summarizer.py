"""Summaries by the model: the port that `memory` declares, with input of any length."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from agent.models.base import (
    AccountRefused,
    Model,
    ModelAnswerBroken,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    Usage,
)
from agent.models.catalogue import spent_on
from memory.context.summary import SummaryRequest, SummaryResult
from memory.keys import ConversationKey
from memory.record.ledger import Spent

log = logging.getLogger(__name__)

CHARACTERS = 3
"""Characters that a token is reckoned as where it matters that nothing overflows."""
LONGEST_TOKEN = 16
"""Characters a token above which a summary is longer than any that was asked for."""
LONGEST = 900.0
"""Seconds for one piece of a summary, whoever keeps the connection open."""


@dataclass(frozen=True, slots=True)
class ModelSummarizer:
    """Asks the model that is in force for the conversation; `window_of` is in tokens.

    `on_refused` hears of a refused key or account, of which nobody is told in the chat.
    `unstructured` are the names of models that refused a JSON Schema: they are asked in words.
    """

    model_of: Callable[[ConversationKey], Model]
    window_of: Callable[[ConversationKey], int]
    on_refused: Callable[[str], None] = lambda sentence: None
    unstructured: set[str] = field(default_factory=set)

    async def summarize(self, request: SummaryRequest) -> SummaryResult:
        """Summarise, piece by piece where the text is longer than the window: each piece's
        summary stands before the next piece."""
        model = self.model_of(request.key)
        room = self.window_of(request.key) - request.max_tokens
        size = max(500, (room * 3 // 4) * CHARACTERS - len(request.task))
        so_far = ""
        spent: list[Spent] = []
        for piece in pieces(request.text, size):
            try:
                async with asyncio.timeout(LONGEST):
                    reply = await self._asked(model, request, so_far, piece)
            except (ModelError, TimeoutError) as error:
                log.warning("a summary failed: %s", error or f"it took longer than {LONGEST:g} s")
                if isinstance(error, AccountRefused):
                    self.on_refused(str(error))
                return SummaryResult("", model.name, tuple(spent))
            so_far = reply.text.strip()[: request.max_tokens * LONGEST_TOKEN]
            spent.append(spent_on("summary", model, reply, reply.usage or Usage(0, 0)))
        return SummaryResult(so_far, spent[-1].model if spent else model.name, tuple(spent))

    async def _asked(
        self, model: Model, request: SummaryRequest, so_far: str, piece: str
    ) -> ModelReply:
        """One piece's summary; a model that can't keep to a schema is told of it in words."""
        if request.schema is not None and model.name not in self.unstructured:
            try:
                return await model.reply(_request(request, so_far, piece), _unseen)
            except (ModelRefused, ModelAnswerBroken) as error:
                log.info("%s is asked without a schema: %s", model.name, error)
        reply = await model.reply(_request(_in_words(request), so_far, piece), _unseen)
        if request.schema is not None:
            self.unstructured.add(model.name)
        return reply


def _unseen(piece: str) -> None:
    """Nobody watches a summary being written."""


def _in_words(request: SummaryRequest) -> SummaryRequest:
    """The same request, with the schema in the task."""
    if request.schema is None:
        return request
    wish = f"Answer with one JSON object that fits this JSON Schema: {json.dumps(request.schema)}"
    return replace(request, task=f"{request.task}\n\n{wish}", schema=None)


def pieces(text: str, size: int) -> list[str]:
    """The text in pieces of at most `size` characters, cut at line breaks where there are any."""
    found = []
    while len(text) > size:
        cut = text.rfind("\n", size // 2, size) + 1 or size
        found.append(text[:cut])
        text = text[cut:]
    return [*found, text] if text or not found else found


def _request(request: SummaryRequest, so_far: str, piece: str) -> ModelRequest:
    before = f"Summary of what came before:\n{so_far}\n\nWhat followed:\n" if so_far else ""
    return ModelRequest(
        messages=[
            {"role": "system", "content": request.task},
            {"role": "user", "content": f"{before}{piece}"},
        ],
        max_tokens=request.max_tokens,
        schema=request.schema,
    )
