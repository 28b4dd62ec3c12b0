"""The values that channels keep over restarts, in the bot's database, and the channels' health."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import orjson
from msgspec import Struct

from channels.base import HEALTH, Channel, ChannelHealth, WithHealth
from memory.record import channel_state
from memory.record.database import DatabaseEngine
from memory.record.store import Store
from memory.record.tables import UNREADABLE


class StoredState(Struct, frozen=True):
    """The `ChannelState` of `channels/base`."""

    store: Store

    async def get(self, channel: str, name: str) -> str:
        return await self.store.read(lambda db: channel_state.find(db, channel, name))

    async def set(self, channel: str, name: str, text: str) -> None:
        await self.store.write(lambda db: channel_state.put(db, channel, name, text))


class ChannelWatch(Struct, frozen=True):
    """The channels as commands see them. For channels of another process the stored health is
    used."""

    state: StoredState
    channels: Mapping[str, Channel]

    async def status(self) -> dict[str, ChannelHealth]:
        found = {}
        for name, channel in self.channels.items():
            if isinstance(channel, WithHealth):
                health = channel.health
                if health.state == "starting":
                    health = load_health(await self.state.get(name, HEALTH)) or health
                found[name] = health
        return found


def read_health(engine: DatabaseEngine) -> dict[str, ChannelHealth]:
    """Return the last stored health of the channels; the bot may be running."""
    with engine.visit() as database:
        if "channel_state" not in database.get_tables():
            return {}
        kept = channel_state.list_named(database, HEALTH)
    return {name: health for name, text in kept if (health := load_health(text))}


def load_health(text: str) -> ChannelHealth | None:
    """Return a health as `channels/kit/messenger.py` has stored it."""
    try:
        whole = orjson.loads(text)
        since = datetime.fromisoformat(whole["since"])
        return ChannelHealth(whole["state"], since, str(whole["reason"]), int(whole["forged"]))
    except UNREADABLE:
        return None
