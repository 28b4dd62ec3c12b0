"""A single question, as a script asks it: one message in, one reply out, and the channel ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from channels.base import Activity, Bot, Done, TurnUsage
from channels.message import Inbound, Outbound

NAME = "ask"
_PATIENCE = 2.0  # seconds that the figures of a turn are waited for, behind its reply


class OneQuestion:
    """A channel of one message. `answer` is the reply to it, once there is one; `usage` is what its
    calls to models took, `cost` in US dollars (None: not known); `refused` are the permissions that
    its tools did not get; `is_cut_short` says that it was stopped before it was answered."""

    name = NAME

    def __init__(self, inbound: Inbound) -> None:
        self.inbound = inbound
        self.answer: Outbound | None = None
        self.usage = TurnUsage()
        self.cost: float | None = None
        self.refused: list[str] = []
        self.is_cut_short = False
        self._is_answered = asyncio.Event()
        self._bot: Bot | None = None

    async def listen(self, bot: Bot) -> None:
        """Ask, and return when it is answered. What is cut short is stopped: nobody waits for it
        any more."""
        self._bot = bot
        before = await self._spent(bot)
        try:
            with bot.watch(self.inbound.address) as activities:
                await bot.submit(self.inbound)
                await self._is_answered.wait()
                if self.answer and self.answer.turn:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_PATIENCE):
                            await self._find_usage(activities)
        except asyncio.CancelledError:
            self.is_cut_short = True
            await bot.command(self.inbound.address, "/stop")
            raise
        after = await self._spent(bot)
        self.cost = None if before is None or after is None else after - before

    async def send(self, outbound: Outbound) -> None:
        """Take the answer. A tool that asks for permission gets none, since nobody is there; and a
        reply to a script that is gone is read by nobody."""
        if outbound.reply_to == self.inbound.id:
            self.answer = outbound
            self._is_answered.set()
            return
        refusal = next((a for a in outbound.reply.actions if a.command.startswith("/deny ")), None)
        if refusal and self._bot and outbound.address == self.inbound.address:
            self.refused.append(outbound.reply.text.partition("\n\n")[0])
            await self._bot.command(outbound.address, refusal.command)

    async def _find_usage(self, activities: AsyncIterator[Activity]) -> None:
        async for activity in activities:
            if isinstance(activity, Done) and activity.reply_to == self.inbound.id:
                self.usage = activity.usage
                return

    async def _spent(self, bot: Bot) -> float | None:
        """Return the cost of the conversation, where all prices are known."""
        data = (await bot.command(self.inbound.address, "/context")).data or {}
        cost = data.get("cost")
        is_known = isinstance(cost, float | int) and not data.get("calls_of_unknown_price")
        return float(cost) if is_known and cost is not None else None
