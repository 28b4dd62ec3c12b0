"""Requests that no turn waits for: a summary, a title, or the distilled memory. They have their own
time limit, and their cost is booked whatever their result. A turn has its own limit
(`turn_timeout`), and so have lists of models, requests for windows, and voice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from agent.models.base import Model, ModelReply, ModelRequest, ModelSilent, Usage
from agent.models.catalogue import price_reply
from memory.keys import ConversationKey
from memory.ledger import Spent

LONGEST_WORK = 600.0
"""Seconds for one request, with all retries and fallbacks: a slow model on a small machine writes a
summary in some minutes."""


class WorkModels(Protocol):
    """The models for such work, by the settings of a conversation."""

    def summary_model(self, key: ConversationKey) -> Model: ...

    def summary_window(self, key: ConversationKey) -> int:
        """Return its window in tokens."""
        ...

    def summarizes_itself(self, key: ConversationKey) -> bool:
        """Return whether it is the model that answers in the conversation."""
        ...


class WorkWatch(Protocol):
    """The listener for failed background work."""

    def model_refused(self, sentence: str) -> None:
        """Note a refused key or account that is not reported in the chat."""
        ...

    def summary_failed(self) -> None:
        """Note a summary that no model has written."""
        ...


TokenCount = Callable[[str, str], int]
"""Returns the tokens of a text for a model's name."""
OnSpent = Callable[[Spent], None]


async def ask_for_work(
    model: Model,
    request: ModelRequest,
    purpose: str,
    count: TokenCount,
    on_spent: OnSpent,
    *,
    counted: int = 0,
) -> ModelReply:
    """Ask a model in the background. `on_spent` is called for each paid reply, also without a
    result. Unreported usage is counted: of all messages, or if all but the last have `counted`
    tokens, of the last one. Raises ModelError."""
    paid: list[ModelReply] = []
    try:
        paid.append(await _reply_in_time(model, replace(request, on_lost=paid.append)))
        return paid[-1]
    finally:
        for reply in paid:
            usage = reply.usage or Usage(0, 0)
            if not reply.is_counted:
                own = request.messages[-1:] if counted else request.messages
                asked = "\n".join(str(message["content"]) for message in own)
                prompt = counted + await asyncio.to_thread(count, asked, model.name)
                written = await asyncio.to_thread(count, reply.written, model.name)
                usage = usage.filled(Usage(prompt, written))
            on_spent(price_reply(purpose, model, reply, usage))


async def _reply_in_time(model: Model, request: ModelRequest) -> ModelReply:
    try:
        async with asyncio.timeout(LONGEST_WORK):
            return await model.reply(request, _discard)
    except TimeoutError:
        raise ModelSilent(f"{model.name} was not done within {LONGEST_WORK:g} seconds.") from None


def _discard(piece: str) -> None:
    """Ignore the piece."""
