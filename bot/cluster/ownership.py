"""Who owns what: one process at a time has a slice, and every one gets its fair share.

The broker gives a queue to one consumer at a time, and does not say to whom. So each queue has a
token. Whoever holds it is the owner, and keeps it in hand without settling it: when he dies, or his
connection does, the broker puts it back at the head of the queue, and the next in line gets it
before anything else. What comes while somebody else still holds the token waits here. A second
token does no harm: the owner settles one of them.

Each name has two in line: who should own it, and who stands by. All processes say once a second
that they are there, and work out from that who should own what (`slices.allot`); an owner who
should not be one finishes what is under way and hands over.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from bot.cluster.base import Broker, BrokerError, Delivered, GiveBack, OwnerCall
from bot.cluster.slices import Allotment, allot
from memory.tasks import BackgroundTasks, cancel_and_wait

log = logging.getLogger(__name__)

BEAT = 1.0
"""Seconds between two signs of life."""
SILENCE = 4.0
"""Seconds without one, after which a process counts for nothing when shares are worked out. Nothing
is taken from it for that."""
RENEWAL = 600.0
"""Seconds after which a token is exchanged: RabbitMQ closes the channel of one who keeps anything
in hand for half an hour."""
COURTESY = 2.0
"""Seconds after the connection came back, for which only those stand in line who were owners."""
AGAIN = 1.0
"""Seconds after which what could not be taken over is tried again."""


class Keeper(Protocol):
    """Who works with what this process owns."""

    async def gain(self, name: str) -> None:
        """This process owns it from now on; or still does, if it did before the connection broke.
        Raises to have it offered again."""
        ...

    async def lose(self, name: str) -> None:
        """Finish what is under way, or cut it short: another process owns it when this returns."""
        ...

    async def handle(self, name: str, call: OwnerCall) -> None:
        """Answer a call; they begin in order and run side by side. Raises GiveBack where another
        process has to."""
        ...


@dataclass(slots=True)
class _Owned:
    """One name, as it stands with this process. `since` is when the token came (monotonic
    seconds); `is_sure` is not so from when the connection broke until the token is here again."""

    name: str
    token: Delivered | None = None
    since: float = 0.0
    is_mine: bool = False
    is_sure: bool = False
    is_consumed: bool = False
    waiting: deque[Delivered] = field(default_factory=deque)
    running: dict[str, tuple[asyncio.Task[None], Delivered]] = field(default_factory=dict)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Ownership:
    """What of `names` this process owns, among all that are members."""

    def __init__(self, broker: Broker, keeper: Keeper, names: Sequence[str]) -> None:
        self._broker, self._keeper, self._names = broker, keeper, tuple(names)
        self._owned = {name: _Owned(name) for name in names}
        self._seen: dict[str, float] = {}
        self._tasks = BackgroundTasks()
        self._is_leaving = False
        self._patient_until = 0.0
        self._shares = asyncio.Event()

    @property
    def held(self) -> list[str]:
        """What this process owns now."""
        return [one.name for one in self._owned.values() if one.is_mine]

    async def start(self) -> None:
        """Stand in line for what should be this process's."""
        await self._broker.declare(self._names)
        self.see(self._broker.me)
        self._tasks.start(self._share(), "share")
        self._tasks.start(self._renew(), "renew tokens")

    def see(self, process: str) -> None:
        """A process gave a sign of life."""
        is_new = process not in self.members
        self._seen[process] = time.monotonic()
        if is_new:
            self._shares.set()

    def unsee(self, process: str) -> None:
        """A process said that it leaves."""
        if self._seen.pop(process, None) is not None:
            self._shares.set()

    @property
    def members(self) -> list[str]:
        """Who gave a sign of life lately."""
        since = time.monotonic() - SILENCE
        return [one for one, at in self._seen.items() if at > since or one == self._broker.me]

    def disconnected(self) -> None:
        """The connection is gone, and with it all that was in hand. What this process owned it goes
        on with, until it learns that somebody else has it."""
        for one in self._owned.values():
            one.token, one.is_consumed, one.is_sure = None, False, False
            one.waiting.clear()

    async def reconnected(self) -> None:
        """Stand in line again, first of all for what was owned."""
        self._patient_until = time.monotonic() + COURTESY
        await self._broker.declare(self._names)
        for one in self._owned.values():
            if one.is_mine:
                await self._consume(one)
        self._shares.set()

    @property
    def is_polite(self) -> bool:
        """Whether others may not have had the time to come back: their connections broke with this
        process's."""
        return time.monotonic() < self._patient_until

    async def close(self) -> None:
        """Hand everything over."""
        self._is_leaving = True
        await self._tasks.close()
        await asyncio.gather(*map(self._release, self._owned.values()))

    async def abandon(self) -> None:
        """End what is under way: others own everything."""
        self._is_leaving = True
        await self._tasks.close()

    # --- what comes out of the queues ---------------------------------------------------------

    def take(self, name: str, delivered: Delivered) -> None:
        """Something came out of the queue of this name."""
        one = self._owned[name]
        if delivered.call is None:
            self._tasks.start(self._take_token(one, delivered), f"token of {name}")
        elif one.is_sure and not one.waiting:
            self._begin(one, delivered)
        else:
            one.waiting.append(delivered)

    async def _take_token(self, one: _Owned, token: Delivered) -> None:
        async with one.changing:
            if not one.is_consumed:
                await token.give_back()
                return
            spare, one.token, one.since = one.token, token, time.monotonic()
            if spare is not None:
                await spare.done()
            if one.is_sure:
                return
            try:
                await self._keeper.gain(one.name)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next in line may be able
                log.warning("%s can't be taken over now: %r", one.name, error)
                await self._pass_on(one, token)
                return
            one.is_mine = True
            if one.token is token:
                one.is_sure = True
                while one.waiting:
                    self._begin(one, one.waiting.popleft())

    async def _pass_on(self, one: _Owned, token: Delivered) -> None:
        """Let the next in line try it."""
        await asyncio.sleep(AGAIN)
        one.is_consumed, one.token = False, None
        await self._broker.leave(one.name)
        for delivered in (token, *one.waiting):
            await delivered.give_back()
        one.waiting.clear()

    def _begin(self, one: _Owned, delivered: Delivered) -> None:
        call = delivered.call
        assert call is not None, "tokens are taken otherwise"
        if call.id in one.running:  # it came once more, after the connection had broken
            one.running[call.id] = (one.running[call.id][0], delivered)
            return
        task = self._tasks.start(self._handle(one, call), f"call of {one.name}")
        one.running[call.id] = (task, delivered)

    async def _handle(self, one: _Owned, call: OwnerCall) -> None:
        is_done = True
        try:
            await self._keeper.handle(one.name, call)
        except GiveBack:
            is_done = False
        except Exception:
            log.exception("a call of %s failed", one.name)
        _, delivered = one.running.pop(call.id)
        await (delivered.done() if is_done else delivered.give_back())

    # --- shares -------------------------------------------------------------------------------

    async def _share(self) -> None:
        """Stand in line for what should be this process's, and hand over what should not."""
        while True:
            try:
                await self._move()
            except BrokerError as error:
                log.info("%s", error)
            except Exception:  # what fails now may not the next time, and nobody else shares
                log.exception("what is owned could not be shared")
            self._shares.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT):
                    await self._shares.wait()

    async def _move(self) -> None:
        places = allot(self._names, self.members)
        for name, place in places.items():
            one = self._owned[name]
            if self._belongs_here(place) and (one.is_mine or not self.is_polite):
                await self._consume(one)
        wrong = [one for one in self._owned.values() if self._is_elsewhere(one, places[one.name])]
        await asyncio.gather(*(self._hand_over(one, places[one.name]) for one in wrong))

    def _belongs_here(self, place: Allotment) -> bool:
        return self._broker.me in (place.owner, place.standby)

    def _is_elsewhere(self, one: _Owned, place: Allotment) -> bool:
        """Whether this process should leave it to another: one that gave a sign of life since, so
        that nobody hands over to the dead."""
        if place.owner == self._broker.me:
            return False
        is_there = self._seen.get(place.owner, 0.0) > one.since + BEAT / 2
        is_owner_elsewhere = one.is_sure and is_there
        return is_owner_elsewhere or (
            one.is_consumed and not one.is_mine and not self._belongs_here(place)
        )

    async def _hand_over(self, one: _Owned, place: Allotment) -> None:
        log.info("%s goes to %s", one.name, place.owner)
        await self._release(one)
        if self._belongs_here(place):
            await self._consume(one)  # behind the one who is to own it

    async def _consume(self, one: _Owned) -> None:
        if not one.is_consumed and not self._is_leaving:
            one.is_consumed = True
            try:
                await self._broker.consume(one.name, self.take)
            except BaseException:
                one.is_consumed = False
                raise

    async def _release(self, one: _Owned) -> None:
        """Own it no more: what is under way is settled, all else goes back in order."""
        if one.is_consumed:
            one.is_consumed = False
            await self._broker.leave(one.name)
        async with one.changing:
            if one.is_mine:
                one.is_sure = False
                await self._keeper.lose(one.name)
                one.is_mine = False
            running = [*one.running.values()]
            one.running.clear()
            await cancel_and_wait(*(task for task, _ in running))
            back = [*([one.token] if one.token else ()), *(d for _, d in running), *one.waiting]
            one.token = None
            one.waiting.clear()
            for delivered in back:
                await delivered.give_back()

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL / 20)
            before = time.monotonic() - RENEWAL
            for one in self._owned.values():
                if one.token is not None and one.since < before and one.is_consumed:
                    one.since = time.monotonic()
                    try:
                        await self._broker.put_token(one.name)
                    except BrokerError as error:
                        log.info("%s", error)
