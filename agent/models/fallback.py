"""A list of models that are asked in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.models.base import Model, ModelError, ModelReply, ModelRequest, OnDelta
from agent.pictures import blind

OnFallback = Callable[[str, ModelError], None]
"""Called with the name of the model that answered instead of the first, and the first's error."""


class FallbackModel(Model):
    """The first model that answers; name and window are those of the first of the list.

    An error that another model would give too is raised at once. When all fail, the first model's
    error is raised, since that is the one that was wanted.
    """

    def __init__(self, models: Sequence[Model], on_fallback: OnFallback) -> None:
        """`models` holds at least one."""
        self._models = tuple(models)
        self._on_fallback = on_fallback

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def window(self) -> int:
        return self._models[0].window

    @property
    def provider(self) -> str:
        return self._models[0].provider

    @property
    def takes_tools(self) -> bool:
        return self._models[0].takes_tools

    @property
    def sees(self) -> bool:
        return any(model.sees for model in self._models)

    @property
    def is_free(self) -> bool:
        return all(model.is_free for model in self._models)

    async def ready(self) -> None:
        await self._models[0].ready()

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        errors: list[ModelError] = []
        for model in self._models:
            try:
                reply = await model.reply(_fit_for(model, request), on_delta)
            except ModelError as error:
                errors.append(error)
                if not error.is_worth_another_model:
                    raise
            else:
                if errors:
                    self._on_fallback(model.name, errors[0])
                return reply
        raise errors[0]

    async def close(self) -> None:
        for model in self._models:
            await model.close()


def _fit_for(model: Model, request: ModelRequest) -> ModelRequest:
    """The request, without its tools for a model that takes none, and without its pictures for one
    that can't see them."""
    if not model.takes_tools:
        request = replace(request, tools=(), tool_choice="auto")
    return request if model.sees else replace(request, messages=blind(request.messages))
