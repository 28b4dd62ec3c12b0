"""The models that settings choose, for answers and for summaries, with their windows and the stored
facts that were learnt from refusals (`agent/models/learnt.py`)."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from agent.models.base import Model, Usage
from agent.models.brain import Brain
from agent.models.catalogue import cost_of, window_of
from agent.models.learnt import LearntModels
from agent.models.selection import ModelChoice
from bot.settings import Settings
from memory.record import bot_state
from memory.record.store import Store, StoreError


def choice_of(settings: Settings) -> ModelChoice:
    """Return the settings of the model that answers."""
    fallbacks, timeout = settings.fallback_models, settings.request_timeout
    return ModelChoice(settings.model, fallbacks, timeout, settings.brain)


def summary_choice_of(settings: Settings) -> ModelChoice:
    """Return the settings of the model that writes summaries: its own brain, or the model that
    answers. Its own brain uses the other's provider unless it names one."""
    own = settings.context.summary_brain
    if not own.model:
        return choice_of(settings)
    place = own if own.is_elsewhere else settings.brain
    brain = Brain(
        config=place.config,
        provider=place.provider,
        backend=place.backend,
        quirks=place.quirks,
        temperature=own.temperature,
        max_tokens=own.max_tokens,
    )
    choice = ModelChoice(own.model, (), settings.request_timeout, brain)
    return replace(choice, group="context.summary_brain") if own.is_elsewhere else choice


def window_in_force(settings: Settings, model: Model) -> int:
    """Return the context window in tokens: as set, as the model reports, as the catalogue knows, or
    0."""
    return settings.context.max_tokens or own_window(model)


def summary_window(settings: Settings, model: Model) -> int:
    """Return the context window in tokens of the model that writes summaries."""
    own = settings.context.summary_brain
    if not own.model:
        return window_in_force(settings, model)
    return own.context.max_tokens or own_window(model)


def own_window(model: Model) -> int:
    """Return the context window in tokens as the model reports, or as the catalogue knows for its
    provider; 0 if unknown."""
    return model.window or window_of(model.name, model.provider)


def price(model: str, provider: str) -> tuple[float, float] | None:
    """Return the US dollars for a million tokens that this model reads, and that it writes; None if
    unknown."""
    reads, writes = (
        cost_of(model, Usage(prompt, completion), provider)
        for prompt, completion in ((_THOUSANDS, 0), (0, _THOUSANDS))
    )
    if reads is None or writes is None:
        return None
    return reads / _THOUSANDS * 1e6, writes / _THOUSANDS * 1e6


_THOUSANDS = 10_000  # tokens: some prices rise with the size of a prompt


log = logging.getLogger(__name__)


async def keep_learnt(models: LearntModels, store: Store) -> None:
    """Load the stored facts, and store those that are learnt from now on."""
    models.load(await store.read(bot_state.read_facts))

    async def keep(place: str, model: str, facts: str) -> None:
        try:
            await store.write(
                lambda db: bot_state.put_facts(db, place, model, facts), is_synced=False
            )
        except StoreError as error:
            log.warning("what was learnt about %s is not kept: %s", model, error)

    models.keep = keep
