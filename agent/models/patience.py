"""The bound on a request that no turn waits for: a summary, or the memory that is distilled. A turn
has its own (`turn_timeout`), and so have lists of models, questions about windows, and voice."""

from __future__ import annotations

import asyncio

from agent.models.base import Model, ModelReply, ModelRequest, ModelSilent

LONGEST_WORK = 600.0
"""Seconds for one request, with all that is tried again and all fallbacks: a slow model on a small
machine writes a summary in some minutes."""


async def reply_in_time(model: Model, request: ModelRequest) -> ModelReply:
    """Ask a model for what nobody watches being written. Raises ModelError."""
    try:
        async with asyncio.timeout(LONGEST_WORK):
            return await model.reply(request, _discard)
    except TimeoutError:
        raise ModelSilent(f"{model.name} was not done within {LONGEST_WORK:g} seconds.") from None


def _discard(piece: str) -> None:
    """Nobody watches."""
