"""Slash commands and buttons on their way to an answer. Discord wants to hear within three seconds
that one was seen, and takes the answer to a command for fifteen minutes in a place of its own."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict

import discord

log = logging.getLogger(__name__)

_SOON = 1.5
"""Seconds after which a command that has no answer yet is shown to be thought about."""
_MOST = 1_000
_NOT_TAKEN = (50006, 50035)  # what it says is refused, wherever it is said
_PATIENCE = 10.0  # seconds; the SDK itself would wait as long as Discord says


class Interaction:
    """An interaction that can be answered once; what comes first, answer or sign, is first for
    Discord too."""

    def __init__(self, given: discord.Interaction) -> None:
        self._given, self._line = given, asyncio.Lock()

    async def acknowledge(self) -> None:
        """Let Discord know that it was seen, if it does not yet."""
        is_command = self._given.type is discord.InteractionType.application_command
        async with self._line, asyncio.timeout(_PATIENCE):
            if not self._given.response.is_done():
                await self._given.response.defer(thinking=is_command)

    async def answer(self, content: str, view: discord.ui.View | None) -> str:
        """Answer a command; return the message's id."""
        async with self._line, asyncio.timeout(_PATIENCE):
            if self._given.response.is_done():
                message = await self._given.edit_original_response(content=content, view=view)
                return str(message.id)
            shown = view or discord.utils.MISSING
            sent = await self._given.response.send_message(
                content, view=shown, suppress_embeds=True
            )
            return str(sent.message_id)


class Interactions:
    """The interactions that are not answered, by their ids."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Interaction] = OrderedDict()

    def add(self, given: discord.Interaction) -> None:
        self._open[str(given.id)] = Interaction(given)
        if len(self._open) > _MOST:
            self._open.popitem(last=False)

    async def follow(self, name: str, taking: asyncio.Task[None], *, is_command: bool) -> None:
        """See to it that Discord hears of one in time: of a button once it is on disk, of a command
        by its answer, if that comes soon. `taking` brings it to disk."""
        if is_command:
            await asyncio.sleep(_SOON)
        else:
            await asyncio.wait({taking}, timeout=_SOON)
        await self.acknowledge(name, is_over=not is_command)

    async def acknowledge(self, name: str, *, is_over: bool = False) -> None:
        found = self._open.pop(name, None) if is_over else self._open.get(name)
        if found is None:
            return
        try:
            await found.acknowledge()
        except (discord.DiscordException, OSError, TimeoutError) as error:
            log.info("Discord did not hear that %s was seen: %s", name, error)

    async def answer(self, name: str, content: str, view: discord.ui.View | None) -> str:
        """Answer a command where it was given; "" where that can't be done, or is none."""
        found = self._open.get(name)
        if found is None:
            return ""
        try:
            message = await found.answer(content, view)
        except (discord.HTTPException, discord.InteractionResponded, TimeoutError) as error:
            if getattr(error, "code", 0) in _NOT_TAKEN:
                raise
            log.info("the answer to %s goes as a message of its own: %s", name, error)
            message = ""
        self._open.pop(name, None)
        return message
