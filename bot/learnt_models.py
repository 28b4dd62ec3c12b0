"""The stored facts about models that were learnt from refusals (`agent/models/learnt.py`)."""

from __future__ import annotations

import logging

from agent.models.learnt import LearntModels
from memory.record import learnt
from memory.record.store import Store, StoreError

log = logging.getLogger(__name__)


async def keep_learnt(models: LearntModels, store: Store) -> None:
    """Load the stored facts, and store those that are learnt from now on."""
    models.load(await store.read(learnt.read))

    async def keep(place: str, model: str, facts: str) -> None:
        try:
            await store.write(lambda db: learnt.put(db, place, model, facts), is_synced=False)
        except StoreError as error:
            log.warning("what was learnt about %s is not kept: %s", model, error)

    models.keep = keep
