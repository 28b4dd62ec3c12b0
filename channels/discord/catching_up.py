"""The messages that were written while the bot was away. Discord tells of them for some minutes
only, when a session is resumed; older ones have to be looked up, chat by chat."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Mapping
from datetime import timedelta

import discord
import orjson
from msgspec import Struct
from msgspec.structs import replace

from channels.base import ChannelState
from channels.kit.platform import IncomingMessage, Location

log = logging.getLogger(__name__)

_NAME = "read"
_MOST = 100
"""Chats that are looked at, those in which somebody wrote last."""
LONGEST_AWAY = timedelta(days=2)
"""The age beyond which a message is not answered any more."""


class LastRead(Struct, frozen=True):
    """The newest message of a chat that is on disk; `place` is where messages of it are."""

    place: Location
    message: int


class ReadMarks:
    """The marks of how far the messages of each channel of Discord's are read."""

    def __init__(self, state: ChannelState, channel: str, kept: Mapping[int, LastRead]) -> None:
        self._state, self._channel = state, channel
        self._kept = OrderedDict(kept)

    @classmethod
    async def load(cls, state: ChannelState, channel: str) -> ReadMarks:
        text = await state.get(channel, _NAME)
        try:
            kept = {
                int(number): LastRead(Location(chat, thread, is_group=is_group), int(message))
                for number, chat, thread, is_group, message in orjson.loads(text or "[]")
            }
        except (ValueError, TypeError):
            log.exception("what was read at Discord is not known any more")
            kept = {}
        return cls(state, channel, kept)

    def all(self) -> dict[int, LastRead]:
        return dict(self._kept)

    async def meet(self, heard: IncomingMessage, number: int) -> None:
        """Keep a chat before its first message is taken: whatever the bot does not come to is
        found there by the next process."""
        if heard.is_for_bot and number not in self._kept:
            self._put(heard, number, int(heard.place.message) - 1)
            await self._keep()

    async def note(self, heard: IncomingMessage, number: int) -> None:
        """Note that a message is on disk. Messages that a server's people write to each other are
        noted only where the bot was spoken to before, and kept with the next that is for it."""
        known = self._kept.get(number)
        if known is None and not heard.is_for_bot:
            return
        newest = max(int(heard.place.message), known.message if known else 0)
        self._put(heard, number, newest)
        if heard.is_for_bot:
            await self._keep()

    def _put(self, heard: IncomingMessage, number: int, newest: int) -> None:
        self._kept[number] = LastRead(replace(heard.place, message=""), newest)
        self._kept.move_to_end(number)
        if len(self._kept) > _MOST:
            self._kept.popitem(last=False)

    async def drop(self, number: int) -> None:
        """Forget a chat that is there no more."""
        if self._kept.pop(number, None):
            await self._keep()

    async def _keep(self) -> None:
        rows = [
            [str(number), one.place.chat, one.place.thread, one.place.is_group, str(one.message)]
            for number, one in self._kept.items()
        ]
        await self._state.set(self._channel, _NAME, orjson.dumps(rows).decode())


def since(last: int) -> discord.Object:
    """Return the message to begin to look after."""
    oldest = discord.utils.time_snowflake(discord.utils.utcnow() - LONGEST_AWAY)
    return discord.Object(max(last, oldest))
