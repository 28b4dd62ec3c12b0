"""The messages written while the bot was offline. Discord redelivers them only for some minutes,
when a session is resumed; older ones must be fetched, chat by chat."""

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
"""The maximum number of chats that are checked, those with the latest messages."""
LONGEST_AWAY = timedelta(days=2)
"""The maximum age of a message that is answered."""


class LastRead(Struct, frozen=True):
    """The newest stored message of a chat; `place` is the place of its messages."""

    place: Location
    message: int


class ReadMarks:
    """The position up to which each Discord channel is processed."""

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
        """Store a chat before its first message is processed: unprocessed messages are found there
        by the next process."""
        if heard.is_for_bot and number not in self._kept:
            self._put(heard, number, int(heard.place.message) - 1)
            await self._keep()

    async def note(self, heard: IncomingMessage, number: int) -> None:
        """Note that a message is on disk. Messages between people on a server are noted only where
        the bot was addressed before, and stored with the next one that is for it."""
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
        """Forget a chat that no longer exists."""
        if self._kept.pop(number, None):
            await self._keep()

    async def _keep(self) -> None:
        rows = [
            [str(number), one.place.chat, one.place.thread, one.place.is_group, str(one.message)]
            for number, one in self._kept.items()
        ]
        await self._state.set(self._channel, _NAME, orjson.dumps(rows).decode())


def since(last: int) -> discord.Object:
    """Return the message after which to start fetching."""
    oldest = discord.utils.time_snowflake(discord.utils.utcnow() - LONGEST_AWAY)
    return discord.Object(max(last, oldest))
