"""A channel that runs on a gateway, as a worker knows it."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from channels.base import Bot
from channels.message import Outbound


class Face(Struct):
    """A channel that is elsewhere: the gateways that have it send."""

    name: str
    has_fields: bool = False
    sound: str = ""

    async def listen(self, bot: Bot) -> None:
        """Nothing comes in here."""
        await asyncio.Event().wait()

    async def send(self, outbound: Outbound) -> None:
        """Never asked: what goes out is handed to the gateways."""
        raise NotImplementedError
