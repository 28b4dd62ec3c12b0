"""Asks a model to distil the daily memory: the port that `memory` declares."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from msgspec import Struct

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    Model,
    ModelError,
    ModelReply,
    ModelRequest,
    Usage,
)
from agent.models.catalogue import price_reply
from agent.models.patience import reply_in_time
from memory.keys import ConversationKey
from memory.long_term.asking import DistillRequest, NotAskedError

log = logging.getLogger(__name__)


class ModelDistiller(Struct, frozen=True):
    """`model_of` gives the model of a name ("": the one that writes summaries) in a conversation,
    `window_of` its window in tokens, `count` says how many tokens a text has for the model of a
    name. `on_refused` hears of a refused key or account."""

    model_of: Callable[[ConversationKey, str], Model]
    window_of: Callable[[ConversationKey, str], int]
    count: Callable[[str, str], int]
    on_refused: Callable[[str], None] = lambda sentence: None

    def window(self, key: ConversationKey, model: str) -> int:
        """The window of that model, in tokens."""
        return self.window_of(key, model)

    async def ask(self, request: DistillRequest) -> tuple[str, str]:
        """The answer, and the name of the model that gave it. Raises NotAskedError."""
        model = self.model_of(request.key, request.model)
        paid: list[ModelReply] = []
        try:
            await model.ready()
            paid.append(await reply_in_time(model, _wire(request, paid.append)))
            return paid[-1].text, paid[-1].model
        except ContextOverflow as error:
            half = self.window_of(request.key, request.model) // 2
            raise NotAskedError(str(error), error.window or half) from error
        except ModelError as error:
            log.warning("the memory could not be distilled: %s", error)
            if isinstance(error, AccountRefused):
                self.on_refused(str(error))
            raise NotAskedError(str(error)) from error
        finally:
            for reply in paid:
                usage = reply.usage or Usage(0, 0)
                if not reply.is_counted:
                    usage = usage.filled(await self._estimate(model, request, reply))
                request.on_spent(price_reply("memory", model, reply, usage))

    async def _estimate(self, model: Model, request: DistillRequest, reply: ModelReply) -> Usage:
        """Estimate, by the meter, the usage that the provider did not report."""
        prompt = f"{request.task}\n{request.text}"
        return Usage(
            await asyncio.to_thread(self.count, prompt, model.name),
            await asyncio.to_thread(self.count, reply.written, model.name),
        )


def _wire(request: DistillRequest, on_lost: Callable[[ModelReply], None]) -> ModelRequest:
    return ModelRequest(
        messages=[
            {"role": "system", "content": request.task},
            {"role": "user", "content": request.text},
        ],
        max_tokens=request.max_tokens,
        is_once=True,
        on_lost=on_lost,
    )
