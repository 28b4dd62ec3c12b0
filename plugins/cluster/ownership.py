"""Ownership: each slice has one owner at a time, and each process gets its fair share.

The broker gives a queue to one consumer at a time, and does not say to which. So each queue has a
token. Its holder is the owner, and keeps the token in hand without settling it. When the holder
dies or loses its connection, the broker requeues the token at the head, and the next consumer gets
it before anything else. Calls that arrive while another process still holds the token wait here. A
second token does no harm: the owner settles one of them.

Each name has two registered consumers: the intended owner and a standby. All processes send a
heartbeat once a second, and derive the intended owners from that (`slices.allot`). An owner that is
not the intended one finishes its running work and hands over.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from msgspec import Struct, field

from memory.tasks import BackgroundTasks, cancel_and_wait
from plugins.cluster.rabbit import Delivered, RabbitMQ
from plugins.cluster.wire import Allotment, BrokerError, OwnerCall, Requeue, allot

log = logging.getLogger(__name__)

BEAT = 1.0
"""Seconds between two heartbeats."""
SILENCE = 4.0
"""Seconds without a heartbeat, after which a process is ignored when shares are computed. Its items
are not taken away for that."""
RENEWAL = 600.0
"""Seconds after which a token is replaced: RabbitMQ closes the channel of a consumer that holds a
message for half an hour."""
COURTESY = 2.0
"""Seconds after a reconnection during which only previous owners register as consumers."""
AGAIN = 1.0
"""Seconds before a failed takeover is retried."""
LOST = 40.0
"""Seconds of waiting after which a token is checked for loss: longer than an orderly handover
takes."""


class Keeper(Protocol):
    """The interface for code that works with the items that this process owns."""

    async def gain(self, name: str) -> None:
        """Begin to own an item; or continue, after a reconnection. If it raises, the item is
        offered again."""
        ...

    async def finish(self, name: str, calls: Collection[asyncio.Task[None]]) -> None:
        """Let running work end, these calls first, within a time limit; then the remaining calls
        are cancelled."""
        ...

    async def lose(self, name: str) -> None:
        """Cancel the remaining work: another process owns the item when this returns."""
        ...

    async def list_orphans(
        self, names: Sequence[str], alive: Collection[str] | None = None
    ) -> list[str]:
        """Return the names that no live process owns. With `alive`, names owned by any process not
        in it count as unowned."""
        ...

    async def handle(self, name: str, call: OwnerCall) -> None:
        """Answer a call; calls start in order and run concurrently. Raises GiveBack if another
        process has to answer it."""
        ...


class _QueuePosition(Struct, eq=False):
    """A registration as consumer of a queue, since that time (monotonic seconds). Messages for a
    cancelled registration, or one of a broken connection, are not in hand."""

    since: float


class _Owned(Struct):
    """The state of a name in this process. `since` is when the token arrived (monotonic seconds);
    `is_sure` is False from the loss of the connection until the token is here again."""

    name: str
    token: Delivered | None = None
    since: float = 0.0
    is_mine: bool = False
    is_sure: bool = False
    place: _QueuePosition | None = None
    waiting: deque[Delivered] = field(default_factory=deque)
    running: dict[str, tuple[asyncio.Task[None], Delivered]] = field(default_factory=dict)
    changing: asyncio.Lock = field(default_factory=asyncio.Lock)


class Ownership:
    """The share of `names` that this process owns, among all members."""

    def __init__(
        self, broker: RabbitMQ, keeper: Keeper, names: Sequence[str], lost_after: float = LOST
    ) -> None:
        self._broker, self._keeper, self._names = broker, keeper, tuple(names)
        self._lost_after = lost_after
        self._loops: list[asyncio.Task[None]] = []
        self._moving: set[str] = set()
        self._owned = {name: _Owned(name) for name in names}
        self._seen: dict[str, float] = {}
        self._tasks = BackgroundTasks()
        self._is_leaving = False
        self._patient_until = 0.0
        self._shares = asyncio.Event()

    @property
    def held(self) -> list[str]:
        """The names that this process owns now."""
        return [one.name for one in self._owned.values() if one.is_mine]

    async def start(self) -> None:
        """Register as a consumer of the intended queues."""
        await self._broker.declare(self._names)
        # No token for an item that another process may hold: that process would be considered dead
        # by the recipient of a new one.
        orphans = await self._keeper.list_orphans(self._names)
        await asyncio.gather(*map(self._broker.put_token, orphans))
        self.record_heartbeat(self._broker.me)
        self._loops = [
            self._tasks.start(self._share(), "share"),
            self._tasks.start(self._renew(), "renew tokens"),
        ]

    def record_heartbeat(self, process: str) -> None:
        """Record a heartbeat of a process."""
        is_new = process not in self.members
        self._seen[process] = time.monotonic()
        if is_new:
            self._shares.set()

    def record_end(self, process: str) -> None:
        """Record that a process has announced its end."""
        if self._seen.pop(process, None) is not None:
            self._shares.set()

    @property
    def members(self) -> list[str]:
        """The processes with a recent heartbeat."""
        since = time.monotonic() - SILENCE
        return [one for one, at in self._seen.items() if at > since or one == self._broker.me]

    def disconnected(self) -> None:
        """Handle the loss of the connection and of all messages in hand. This process continues to
        work with its items until it learns that another one owns them."""
        self._patient_until = math.inf  # until it is back, and a little longer
        for one in self._owned.values():
            one.token, one.place, one.is_sure = None, None, False
            one.waiting.clear()

    async def reconnected(self) -> None:
        """Register as a consumer again, for the owned items first."""
        self._patient_until = time.monotonic() + COURTESY
        await self._broker.declare(self._names)
        mine = [one for one in self._owned.values() if self._is_kept(one)]
        for one in mine:
            await self._consume(one)
        await asyncio.gather(*(self._broker.put_token(one.name) for one in mine))
        self._shares.set()

    def _is_kept(self, one: _Owned) -> bool:
        """Return whether this process owns it, and is not about to hand it over."""
        is_changing = one.changing.locked() or one.name in self._moving
        return one.is_mine and not is_changing and not self._is_leaving

    @property
    def is_polite(self) -> bool:
        """Return whether others may still be reconnecting, since their connections broke with this
        one's."""
        return time.monotonic() < self._patient_until

    async def close(self) -> None:
        """Hand everything over."""
        self._is_leaving = True
        await cancel_and_wait(*self._loops)
        await asyncio.gather(*map(self._release, self._owned.values()))
        await self._tasks.stop()

    async def abandon(self) -> None:
        """Stop running work: others own everything."""
        self._is_leaving = True
        await self._tasks.stop()

    # --- messages from the queues -------------------------------------------------------------

    def _handle_message(self, place: _QueuePosition, name: str, delivered: Delivered) -> None:
        """Handle a message from the queue of this name."""
        one = self._owned[name]
        if one.place is not place:
            self._tasks.start(delivered.requeue())
        elif delivered.call is None:
            self._tasks.start(self._handle_token(one, place, delivered), f"token of {name}")
        elif one.is_sure and not one.waiting:
            self._begin(one, delivered)
        else:
            one.waiting.append(delivered)

    async def _handle_token(self, one: _Owned, place: _QueuePosition, token: Delivered) -> None:
        async with one.changing:
            if one.place is not place:
                await token.requeue()
                return
            spare, one.token, one.since = one.token, token, time.monotonic()
            if spare is not None:
                await spare.done()
            if one.is_sure:
                return
            try:
                await self._keeper.gain(one.name)
            except Exception as error:  # noqa: BLE001 - the next consumer may succeed
                log.warning("%s can't be taken over now: %r", one.name, error)
                await self._pass_to_next(one, place)
                return
            one.is_mine = True
            if one.place is place:
                one.is_sure = True
                while one.waiting:
                    self._begin(one, one.waiting.popleft())

    async def _pass_to_next(self, one: _Owned, place: _QueuePosition) -> None:
        """Pass the name on to the next consumer."""
        await asyncio.sleep(AGAIN)
        if one.place is place:
            await self._stop_consuming(one)
            await self._requeue_all(one)

    async def _stop_consuming(self, one: _Owned) -> None:
        """Cancel the registration. Messages that arrive until the broker knows are still in hand,
        so that they are requeued in order."""
        if (place := one.place) is not None:
            await self._broker.stop_consuming(one.name)
            if one.place is place:
                one.place = None

    async def _requeue_all(self, one: _Owned, calls: Sequence[Delivered] = ()) -> None:
        """Requeue the token, then the begun calls, then the waiting ones."""
        back = [*([one.token] if one.token else ()), *calls, *one.waiting]
        one.token = None
        one.waiting.clear()
        for delivered in back:
            await delivered.requeue()

    def _begin(self, one: _Owned, delivered: Delivered) -> None:
        call = delivered.call
        assert call is not None, "tokens are taken otherwise"
        if (running := one.running.get(call.id)) is not None:
            # It was delivered again, because this process's connection had broken, or the caller's,
            # which repeated it. In the second case both messages are in hand.
            one.running[call.id] = (running[0], delivered)
            self._tasks.start(running[1].done())
            return
        task = self._tasks.start(self._handle(one, call), f"call of {one.name}")
        one.running[call.id] = (task, delivered)

    async def _handle(self, one: _Owned, call: OwnerCall) -> None:
        is_done = True
        try:
            await self._keeper.handle(one.name, call)
        except Requeue:
            is_done = False
        except Exception:
            log.exception("a call of %s failed", one.name)
        _, delivered = one.running.pop(call.id)
        await (delivered.done() if is_done else delivered.requeue())

    async def _end_ownership(self, one: _Owned) -> None:
        """End the running work, and give up ownership. Errors do not keep another process from
        owning it: a process that takes over fences this one if it has not given up."""
        one.is_sure = False
        try:
            await self._keeper.finish(one.name, [task for task, _ in one.running.values()])
        except Exception:
            log.exception("what is under way in %s could not end", one.name)
        running = [*one.running.values()]
        one.running.clear()
        # Before it is given up, so that the next owner finds their writes.
        await cancel_and_wait(*(task for task, _ in running))
        try:
            await self._keeper.lose(one.name)
        except Exception as error:  # noqa: BLE001 - see above
            log.warning("%s could not be given up in good order: %r", one.name, error)
        one.is_mine = False
        await self._requeue_all(one, [delivered for _, delivered in running])

    # --- shares -------------------------------------------------------------------------------

    async def _share(self) -> None:
        """Register for the items that this process should own, and hand over the others."""
        while True:
            try:
                await self._move()
            except BrokerError as error:
                log.info("%s", error)
            except Exception:  # it may succeed next time, and no other code shares
                log.exception("what is owned could not be shared")
            self._shares.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT):
                    await self._shares.wait()

    async def _move(self) -> None:
        places = allot(self._names, self.members)
        if not places:  # no other process is there, and this one has announced its end
            return
        for name, place in places.items():
            one = self._owned[name]
            is_due = self._belongs_here(place) and not self.is_polite
            if is_due or self._is_kept(one):
                await self._consume(one)
        wrong = [
            one for one in self._owned.values() if self._belongs_elsewhere(one, places[one.name])
        ]
        for one in wrong:
            if one.name not in self._moving:
                self._moving.add(one.name)
                log.info("%s goes to %s", one.name, places[one.name].owner)
                self._tasks.start(self._transfer(one), f"hand {one.name} over")
        await self._replace_tokens(places)

    async def _replace_tokens(self, places: Mapping[str, Allotment]) -> None:
        """Publish a new token for items that this process should own and has long waited for, if no
        live process owns them: then the old token is lost."""
        before = time.monotonic() - self._lost_after
        names = [
            one.name
            for one in self._owned.values()
            if one.place is not None
            and not one.is_sure
            and one.place.since < before
            and places[one.name].owner == self._broker.me
        ]
        if not names:
            return
        for name in await self._keeper.list_orphans(names, self.members):
            log.warning("the token of %s is lost; here is another", name)
            if (place := self._owned[name].place) is not None:
                place.since = time.monotonic()
            await self._broker.put_token(name)

    def _belongs_here(self, place: Allotment) -> bool:
        return self._broker.me in (place.owner, place.standby)

    def _belongs_elsewhere(self, one: _Owned, place: Allotment) -> bool:
        """Return whether this process should hand it to another one, which must have sent a
        heartbeat since this process got it, so that nothing is handed to a dead process."""
        if place.owner == self._broker.me:
            return False
        is_there = self._seen.get(place.owner, 0.0) > one.since + BEAT / 2
        is_owner_elsewhere = one.is_sure and is_there
        is_in_line = one.place is not None and not one.is_mine
        return is_owner_elsewhere or (is_in_line and not self._belongs_here(place))

    async def _transfer(self, one: _Owned) -> None:
        """Hand it over. This may take time, and does not block the sharing of other items."""
        try:
            await self._release(one)
        finally:
            self._moving.discard(one.name)
            self._shares.set()  # this process may have to be its standby

    async def _consume(self, one: _Owned) -> None:
        if one.place is not None or self._is_leaving:
            return
        place = one.place = _QueuePosition(time.monotonic())
        try:
            await self._broker.consume(one.name, partial(self._handle_message, place))
        except BaseException:
            if one.place is place:  # and not one of a newer connection
                one.place = None
            raise

    async def _release(self, one: _Owned) -> None:
        """Give up an item: running work is settled, the rest is requeued in order."""
        await self._stop_consuming(one)
        async with one.changing:
            if one.is_mine:
                await self._end_ownership(one)
            else:
                await self._requeue_all(one)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(RENEWAL / 20)
            before = time.monotonic() - RENEWAL
            for one in self._owned.values():
                if one.is_sure and one.since < before and one.place is not None:
                    one.since = time.monotonic()
                    try:
                        await self._broker.put_token(one.name)
                    except BrokerError as error:
                        log.info("%s", error)
