"""Summaries by the model: the port that `memory` declares, with input of any length."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from agent.models.base import Model, ModelError, ModelRequest, Usage
from agent.models.catalogue import spent_on
from memory.context.summary import SummaryRequest, SummaryResult
from memory.keys import ConversationKey
from memory.record.ledger import Spent

log = logging.getLogger(__name__)

CHARACTERS = 3
"""Characters that a token is reckoned as where it matters that nothing overflows."""


@dataclass(frozen=True, slots=True)
class ModelSummarizer:
    """Asks the model that is in force for the conversation; `window_of` is in tokens."""

    model_of: Callable[[ConversationKey], Model]
    window_of: Callable[[ConversationKey], int]

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
                reply = await model.reply(_request(request, so_far, piece), lambda _: None)
            except ModelError as error:
                log.warning("a summary failed: %s", error)
                return SummaryResult("", model.name, tuple(spent))
            so_far = reply.text.strip()
            spent.append(spent_on("summary", model, reply, reply.usage or Usage(0, 0)))
        return SummaryResult(so_far, spent[-1].model if spent else model.name, tuple(spent))


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
    )
