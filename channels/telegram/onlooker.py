"""Who watches conversations for Telegram: drafts appear in a chat while answers to it stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress

from telegram.error import TelegramError
from telegram.ext import ExtBot

from channels.base import Activity, Bot, Delta, Done, StepRestarted, ToolStarted, TurnStarted
from channels.message import Address
from channels.telegram.draft import Draft
from channels.telegram.incoming import place_of
from channels.telegram.pace import ONCE, Busy
from channels.telegram.rhythm import Rhythm


class Onlookers:
    """One for each conversation in which an answer is awaited."""

    def __init__(self, sdk: ExtBot[str], rhythm: Rhythm) -> None:
        self._sdk, self._rhythm = sdk, rhythm
        self._all: dict[tuple[str, str], _Onlooker] = {}

    def expect(self, bot: Bot, address: Address, message: str) -> bool:
        """An answer to this message is awaited from now on; False if it was already."""
        place = (address.chat, address.thread)
        if place not in self._all:
            self._all[place] = _Onlooker(bot, address, self._sdk, self._rhythm)
        return self._all[place].expect(message)

    async def settle(self, address: Address, message: str) -> int:
        """The answer is there: returns the message that shows its draft, 0 for none."""
        place = (address.chat, address.thread)
        onlooker = self._all.get(place)
        if onlooker is None:
            return 0
        shown = await onlooker.settle(message)
        if not onlooker.expected and self._all.get(place) is onlooker:
            del self._all[place]
            await onlooker.close()
        return shown

    async def close(self) -> None:
        """Take back the drafts of answers that are not finished; the next process writes them."""
        for onlooker in self._all.values():
            for message in tuple(onlooker.expected):
                if draft := await onlooker.settle(message):
                    with suppress(TelegramError, Busy):
                        chat = onlooker.address.chat
                        await self._sdk.delete_message(chat, draft, rate_limit_args=ONCE)
            await onlooker.close()


class _Onlooker:
    """Watches one conversation."""

    def __init__(self, bot: Bot, address: Address, sdk: ExtBot[str], rhythm: Rhythm) -> None:
        self.address, self.expected = address, set[str]()
        self._sdk, self._rhythm = sdk, rhythm
        self._drafts: dict[str, Draft] = {}
        self._current: Draft | None = None
        self._watch = ExitStack()
        happening = self._watch.enter_context(bot.watch(address))  # at once, to miss nothing
        self._task = asyncio.create_task(self._follow(happening))

    def expect(self, message: str) -> bool:
        is_new = message not in self.expected
        self.expected.add(message)
        return is_new

    async def settle(self, message: str) -> int:
        self.expected.discard(message)
        draft = self._drafts.pop(message, None)
        return await draft.end() if draft else 0

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._watch.close()

    async def _follow(self, happening: AsyncIterator[Activity]) -> None:
        async for activity in happening:
            match activity:
                case TurnStarted(reply_to) if reply_to in self.expected:
                    place = place_of(self.address, reply_to)
                    self._current = Draft(self._sdk, place, self._rhythm)
                    self._drafts[reply_to] = self._current
                case TurnStarted() | Done():
                    self._current = None
                case _ if self._current:
                    _tell(self._current, activity)


def _tell(draft: Draft, activity: Activity) -> None:
    match activity:
        case Delta(text):
            draft.add(text)
        case StepRestarted():
            draft.restart_step()
        case ToolStarted(name):
            draft.end_step(name)
