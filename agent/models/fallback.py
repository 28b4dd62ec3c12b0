"""Models that are asked in turn: if the first fails, the next one answers, and a failed one is not
asked for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agent.models.base import (
    AccountRefused,
    ContextOverflow,
    Model,
    ModelError,
    ModelRefused,
    ModelReply,
    ModelRequest,
    ModelUnreachable,
    ModelWrapper,
    OnDelta,
)
from agent.pictures import blind

OnFallback = Callable[[str, ModelError], None]
"""Called with the name of the model that answered instead of the first, and the first's error."""

FIRST_REST = 30.0
"""Seconds for which an unreachable model is not asked; doubled with each consecutive failure."""
LONGEST_REST = 600.0
"""Seconds; also for a refused key, account or name, which needs a person to fix it."""
RETRY_DELAY = 0.5
"""Seconds before one retry after a server error."""
LONGEST_WISH = 3_600.0
"""The maximum seconds of an endpoint's requested wait."""


def seconds_of_rest(error: ModelError, failures: int) -> float:
    """Return the seconds for which a model is not asked after this error, its `failures`-th in a
    row; 0 if the next request may succeed."""
    if isinstance(error, AccountRefused) or (
        isinstance(error, ModelRefused) and error.status == 404
    ):
        return LONGEST_REST
    if not isinstance(error, ModelUnreachable):
        return 0.0
    grown: float = min(LONGEST_REST, FIRST_REST * 2.0 ** min(failures - 1, 10))
    return min(LONGEST_WISH, max(grown, float(error.retry_after)))


class Cooldown(Struct, frozen=True):
    """The pause of a model until `until`, by the clock of its `Cooldowns`, after consecutive
    `failures`; `why` is the sentence of its last error."""

    why: str
    until: float
    failures: int


class Cooldowns:
    """The paused models, by name and provider. `clock` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[tuple[str, str], Cooldown] = {}

    def of(self, model: Model) -> Cooldown | None:
        """Return the pause of a model; None if it may be asked."""
        rest = self._known.get((model.name, model.provider))
        return rest if rest and rest.until > self._clock() else None

    def seconds_left(self, rest: Cooldown) -> float:
        return max(0.0, rest.until - self._clock())

    def fail(self, model: Model, error: ModelError) -> None:
        """Note that a model has failed."""
        place = (model.name, model.provider)
        before = self._known.get(place)
        failures = before.failures + 1 if before else 1
        if seconds := seconds_of_rest(error, failures):
            self._known[place] = Cooldown(str(error), self._clock() + seconds, failures)

    def recover(self, model: Model) -> None:
        """Note that a model has answered."""
        self._known.pop((model.name, model.provider), None)


class FallbackModel(ModelWrapper):
    """A chain of models; name and window are those of the first.

    Paused models are skipped, unless all are paused. An error that another model would cause as
    well is raised at once. If all fail, the error of the first one asked is raised, since it
    concerns the wanted model.
    """

    def __init__(
        self, models: Sequence[Model], on_fallback: OnFallback, rests: Cooldowns | None = None
    ) -> None:
        """Set the chain: `models` has at least one."""
        self.models = tuple(models)
        self.inner = self.models[0]
        self._on_fallback = on_fallback
        self._rests = rests or Cooldowns()

    @property
    def sees(self) -> bool:
        return any(model.sees for model in self.models)

    @property
    def is_free(self) -> bool:
        return all(model.is_free for model in self.models)

    @property
    def caches_by_itself(self) -> bool:
        return self.inner.caches_by_itself and self._rests.of(self.inner) is None

    @property
    def is_up(self) -> bool:
        return self._rests.of(self.inner) is None

    @property
    def counts(self) -> bool:
        return self.inner.counts and self._rests.of(self.inner) is None

    async def reply(self, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
        errors: list[ModelError] = []
        chain = [one for one in self.models if not self._rests.of(one)] or self.models
        for model in chain:
            is_fallback = model is not self.inner
            fit = replace(_fit_for(model, request), is_hasty=model is not chain[-1])
            fit = _as_fallback(model, fit) if is_fallback else fit
            try:
                reply = await _ask(model, fit, on_delta)
            except ModelError as error:
                self._rests.fail(model, error)
                errors.append(error)
                if isinstance(error, ContextOverflow):
                    error.is_of_fallback = is_fallback
                if not error.is_worth_another_model:
                    raise
            else:
                self._rests.recover(model)
                if errors:
                    self._on_fallback(model.name, errors[0])
                return replace(reply, by=model) if is_fallback else reply
        raise errors[0]

    async def close(self) -> None:
        for model in self.models:
            await model.close()


async def _ask(model: Model, request: ModelRequest, on_delta: OnDelta) -> ModelReply:
    """Ask; in a hasty request, retry once after a server error."""
    try:
        return await model.reply(request, on_delta)
    except ModelUnreachable as error:
        if not request.is_hasty or error.status < 500 or error.retry_after:
            raise
    await asyncio.sleep(RETRY_DELAY)
    return await model.reply(request, on_delta)


def _as_fallback(model: Model, request: ModelRequest) -> ModelRequest:
    """Return the request with lost answers attributed to this model."""
    return replace(request, on_lost=lambda lost: request.on_lost(replace(lost, by=model)))


def _fit_for(model: Model, request: ModelRequest) -> ModelRequest:
    """Return the request without tools for a model that takes none, and without pictures for one
    without vision."""
    if not model.takes_tools:
        request = replace(request, tools=(), tool_choice="auto")
    return request if model.sees else replace(request, messages=blind(request.messages))
