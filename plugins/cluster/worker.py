"""A worker: it owns conversations, slice by slice, and runs their turns, commands and tools.

A channel's request arrives as a call to the owner of the conversation's slice. It is executed by
the same `RunningBot` as in a single process, so the state of a conversation is in one place.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from importlib import import_module

from msgspec import Struct, field

from agent.models import catalogue
from bot.app import App
from channels.base import Activity, KeyHolder
from channels.language import asked_in
from channels.message import Address, CompletionRequest, Reply
from memory.keys import Scope
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait, retrieve_error
from plugins.api import CommandError
from plugins.cluster import record, wire
from plugins.cluster.node import Node, NodeListener
from plugins.cluster.ownership import BEAT, LOST, Ownership
from plugins.cluster.record import NOBODY, FencedError
from plugins.cluster.wire import (
    SLICES,
    BrokerError,
    OwnerCall,
    Requeue,
    name_of_slice,
    number_of_slice,
    slice_of,
)

log = logging.getLogger(__name__)

GROUP = "workers"
WATCHED = 30.0
"""Seconds after which a watcher of a conversation must renew its request."""
REFRESH = 30.0
"""Seconds between two reloads of the other workers' spending."""
PATIENCE = 30.0
"""Seconds to wait for another owner's answer."""
INTERRUPTED = (
    "The bot was interrupted while it carried this out. Check whether it took effect (/context "
    "shows it), and send it again if not."
)
FAILED = "This failed inside the bot; the log has the details (`python main.py logs`)."
DATABASE_TIMEOUT = 20.0
"""Seconds to wait for a database that does not answer; then another worker may be able to reach it.
A database that restarts is back before."""
IN_USE = "it is still with another process"


class _Forwarding(Struct):
    """A gateway that shows a conversation; `until` in monotonic seconds."""

    task: asyncio.Task[None]
    until: float


class Worker(Struct, NodeListener):
    """Answers the calls of gateways, and keeps (`Keeper`) the slices that it owns."""

    app: App
    node: Node
    _watchers: dict[tuple[str, str], _Forwarding] = field(default_factory=dict)
    _streams: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _owned: set[int] = field(default_factory=set)
    _coming: dict[int, asyncio.Future[None]] = field(default_factory=dict)
    _gaining: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        names = [name_of_slice(number) for number in range(SLICES)]
        lost_after = LOST + self.app.config.shutdown_timeout
        self.node.ownerships[GROUP] = Ownership(self.node.broker, self, names, lost_after)
        self.node.listener = self
        self.app.conversations.is_ours = self._is_owned
        self.app.processes.owners = self
        self.app.bus.followers = lambda home: ()  # gateways know the watchers and their chats
        self.app.bus.keep_running()  # they may ask for a turn after it has begun

    def _is_owned(self, identity: str) -> bool:
        return slice_of(identity) in self._owned

    async def run(self) -> bool:
        """Work until a signal arrives. Return False if other processes considered this one dead, so
        that it has to restart."""
        stopping = self.node.stopping
        await self.node.join()
        await self.app.begin()
        await self._load()
        await self.node.start()
        warming = asyncio.create_task(self.app.warm_up())
        beside = [asyncio.create_task(work) for work in (self._refresh(), self._watch_database())]
        ways = [asyncio.create_task(one.wait()) for one in (stopping, self.node.fenced)]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        await cancel_and_wait(*ways, warming, *beside)
        if self.node.is_fenced:
            log.warning("other processes take over what this one did; it begins anew")
            await self.node.abandon()
            await self.app.abandon()
        else:
            await self.node.release_ownership()
            await self.app.close(self.node.leave)
        for watcher in self._watchers.values():
            watcher.task.cancel()
        return not self.node.is_fenced

    async def _load(self) -> None:
        """Load what the first turn would otherwise wait for, before any turn is taken over."""
        await self.app.conversations.services.meter.ready()
        await asyncio.to_thread(catalogue.load)
        await asyncio.to_thread(import_module, "agent.models.openai_client")

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH)
            with suppress(StoreError):
                await self.app.config.spending.load()
                await self.node.forget_silent()

    async def _watch_database(self) -> None:
        """Give up when the database no longer answers: this process alone may be separated from it,
        and the broker does not know."""
        while not self.node.is_fenced:
            await asyncio.sleep(BEAT)
            with suppress(StoreError):
                try:
                    async with asyncio.timeout(DATABASE_TIMEOUT):
                        await self.app.store.read(record.list_owners)
                except TimeoutError:
                    log.warning("the database has not answered for %.0f s", DATABASE_TIMEOUT)
                    self.node.declare_dead()

    # --- owned slices ------------------------------------------------------------------------

    async def gain(self, name: str) -> None:
        """Continue the previous owner's work from its inbox, as at a start. After the death of a
        worker many slices arrive at once; they are taken over together."""
        number = number_of_slice(name)
        gained = self._coming[number] = asyncio.get_running_loop().create_future()
        if not self._gaining.locked():
            self.node.tasks.start(self._gain_all(), "take over")
        await gained

    async def _gain_all(self) -> None:
        async with self._gaining:
            while self._coming:
                coming, self._coming = self._coming, {}
                taking = asyncio.create_task(self._gain(sorted(coming)))
                taking.add_done_callback(retrieve_error)  # also if nobody waits for it any longer
                await asyncio.wait((taking,))
                for gained in coming.values():
                    _complete(gained, taking)

    async def _gain(self, numbers: Sequence[int]) -> None:
        me, store = self.node.me, self.app.store
        names = {name_of_slice(number): number for number in numbers}
        ownership = self.node.ownerships[GROUP]
        if ownership.is_polite:
            others = {*ownership.members} - {me}
            owners = await store.read(record.list_owners)
            if any(row.name in names and row.process in others for row in owners):
                raise Requeue(IN_USE)
        before = await store.write(lambda db: [record.take(db, name, me) for name in names])
        for process in {row.process for row in before} - {NOBODY, me}:
            self.node.announce_fenced(process)
        new = {names[row.name] for row in before if row.process != me} | {*numbers} - self._owned
        await self.app.evict(_in_slices(new))  # the state from before others owned them
        self._owned |= new
        try:
            await self.app.load_conversations(_in_slices(new))
            self.node.announce_owned(new)
            for received in await self.app.delivery.list_unanswered(_in_slices(new)):
                self.app.bot.dispatch(received)
        except BaseException:
            self._owned -= new
            await self.app.evict(_in_slices(new))
            given = [name_of_slice(number) for number in new]  # excludes the slices owned before
            await store.write(lambda db: record.release_items(db, given, me))
            raise

    async def finish(self, name: str, calls: Collection[asyncio.Task[None]]) -> None:
        """Let running work end within the time limit; the next owner continues the rest."""
        if (number := number_of_slice(name)) in self._owned:
            await self.app.finish(_in_slices((number,)), calls)

    async def lose(self, name: str) -> None:
        number = number_of_slice(name)
        if number not in self._owned:
            return
        try:
            await self.app.cut_short(_in_slices((number,)))
            await self.app.evict(_in_slices((number,)))
            self.app.bus.forget(_in_slices((number,)))
            with suppress(FencedError):
                await self.app.store.write(
                    lambda db: record.release_items(db, [name], self.node.me)
                )
        finally:
            self._owned.discard(number)

    async def list_orphans(
        self, names: Sequence[str], alive: Collection[str] | None = None
    ) -> list[str]:
        return await self.node.list_orphans(names, alive)

    async def handle(self, name: str, call: OwnerCall) -> None:
        """Answer a call."""
        if self.node.is_fenced:
            raise Requeue
        try:
            part = wire.parse(call.body)
            asked_in.set(str(part.get("language", "")))
            if await self._has_moved(name, part):
                answer = wire.dump({"has_moved": True})
            else:
                answer = await self._calls[str(part["do"])](part, call)
        except FencedError:
            raise Requeue from None
        except Exception as error:
            if not isinstance(error, StoreError):
                log.exception("a call of %s failed", name)
            answer = wire.dump_error(error, FAILED)
        if self.node.is_fenced:  # meanwhile, so the result is invalid
            raise Requeue
        if answer:
            await call.answer(answer, True)

    async def _has_moved(self, name: str, part: dict[str, object]) -> bool:
        """Return whether the address of a call resolves to a conversation of another process:
        either the caller's links are outdated, or this process's."""
        place = part.get("address")
        if isinstance(inbound := part.get("inbound"), dict):
            place = inbound.get("address")
        if place is None:
            return False
        address, links = wire.build(Address, place), self.app.links
        await self.app.bot.commands.wait_for_switches(links.key_of(address).id)
        if self._is_served_here(name, links.key_of(address).id):
            return False
        await links.load()
        return not self._is_served_here(name, links.key_of(address).id)

    def _is_served_here(self, name: str, home: str) -> bool:
        return slice_of(home) == number_of_slice(name) or self._is_owned(home)

    @property
    def _calls(self) -> dict[str, Callable[..., Awaitable[bytes]]]:
        return {
            "submit": self._submit,
            "command": self._command,
            "transcript": self._transcript,
            "instruct": self._instruct,
            "begin_with": self._begin_with,
            "call_owner": self._call_owner,
            "complete": self._complete,
            "watch": self._watch,
        }

    async def _submit(self, part: dict[str, object], call: OwnerCall) -> bytes:
        inbound = await asyncio.to_thread(wire.unspool, self.app.config.data, part)
        if self.app.bot.must_wait(inbound):
            return wire.dump({"is_full": True})
        return wire.dump({"value": await self.app.bot.submit(inbound)})

    async def _command(self, part: dict[str, object], call: OwnerCall) -> bytes:
        if call.is_again:
            return wire.dump({"value": Reply(INTERRUPTED)})
        address = wire.build(Address, part["address"])
        return wire.dump({"value": await self.app.bot.command(address, str(part["line"]))})

    async def _transcript(self, part: dict[str, object], call: OwnerCall) -> bytes:
        address = wire.build(Address, part["address"])
        before, most = wire.build(int, part["before"]), wire.build(int, part["most"])
        return wire.dump({"value": await self.app.bot.transcript(address, before, most)})

    async def _instruct(self, part: dict[str, object], call: OwnerCall) -> bytes:
        address = wire.build(Address, part["address"])
        return wire.dump({"value": await self.app.bot.instruct(address, str(part["text"]))})

    async def _begin_with(self, part: dict[str, object], call: OwnerCall) -> bytes:
        address = wire.build(Address, part["address"])
        exchanges = wire.build(list[tuple[str, str]], part["exchanges"])
        return wire.dump({"value": await self.app.bot.begin_with(address, exchanges)})

    async def _call_owner(self, part: dict[str, object], call: OwnerCall) -> bytes:
        done = await self.app.features.calls[str(part["name"])](str(part["body"]).encode())
        return wire.dump({"value": done.decode()})

    def are_together(self, one: str, other: str) -> bool:
        """Return whether one process owns both identities (`bot.ports.Owners`)."""
        return slice_of(one) == slice_of(other)

    async def call_owner(self, identity: str, name: str, body: bytes) -> bytes | None:
        """Send a feature's call to the owner of an identity; return None if that is this process.
        Raises CommandError."""
        number = slice_of(identity)
        if number in self._owned:
            return None
        part = {"do": "call_owner", "name": name, "body": body.decode()}
        calling = self.node.broker.call(name_of_slice(number), wire.dump(part), PATIENCE)
        done = None
        try:
            async with aclosing(calling) as pieces:
                async for piece in pieces:
                    data = wire.parse(piece)
                    wire.raise_error(data)
                    done = str(data["value"]).encode()
        except (BrokerError, StoreError, wire.RemoteError) as error:
            raise CommandError(str(error)) from None
        return done

    # --- streams -----------------------------------------------------------------------------

    async def _complete(self, part: dict[str, object], call: OwnerCall) -> bytes:
        """Stream the pieces of an answer; the first one tells the caller where to cancel it. The
        call ends at once, so that the slice may move meanwhile."""
        holder = wire.build(KeyHolder, part["holder"])
        request = wire.build(CompletionRequest, part["request"])
        task = self.node.tasks.start(self._stream(holder, request, call), "completion")
        self._streams[call.id] = task
        task.add_done_callback(lambda task: self._streams.pop(call.id, None))
        return b""

    async def _stream(self, holder: KeyHolder, request: CompletionRequest, call: OwnerCall) -> None:
        try:
            await call.answer(wire.dump({"at": self.node.me, "stream": call.id}), False)
            async with aclosing(self.app.bot.complete(holder, request)) as events:
                async for event in events:
                    await call.answer(wire.dump(wire.dump_event(event)), False)
            await call.answer(b"{}", True)
        except Exception as error:  # noqa: BLE001 - the client gets it
            await call.answer(wire.dump_error(error, FAILED), True)

    async def _watch(self, part: dict[str, object], call: OwnerCall) -> bytes:
        """Forward the events of a conversation to a gateway, for a while."""
        home, gateway = str(part["home"]), str(part["gateway"])
        until = time.monotonic() + WATCHED
        if (known := self._watchers.get((home, gateway))) is not None:
            known.until = until
            return b"{}"
        events = self.app.bus.watch(home)
        watching = events.__enter__()
        missed = wire.merge(self.app.bus.so_far(home))

        def tell(event: Activity) -> None:
            data = {"home": home, **wire.dump_event(event)}
            self.node.broker.send_transient(gateway, wire.dump(data))

        async def forward() -> None:
            try:
                for event in missed:
                    tell(event)
                async for event in watching:
                    tell(event)
            finally:
                events.__exit__(None, None, None)

        self._watchers[home, gateway] = _Forwarding(asyncio.create_task(forward()), until)
        self._drop_watchers()
        return b"{}"

    def _drop_watchers(self) -> None:
        now = time.monotonic()
        for name in [name for name, one in self._watchers.items() if one.until < now]:
            self._watchers.pop(name).task.cancel()

    def handle_message(self, topic: str, body: bytes) -> None:
        """Cancel a stream whose client has disconnected."""
        part = wire.parse(body)
        if (task := self._streams.get(str(part.get("stream")))) is not None:
            task.cancel()


def _complete(gained: asyncio.Future[None], taking: asyncio.Task[None]) -> None:
    if gained.done():
        return  # the waiting caller was cancelled
    if taking.cancelled():
        gained.set_exception(Requeue("it was cut short"))
    elif (error := taking.exception()) is not None:
        gained.set_exception(error)
    else:
        gained.set_result(None)


def _in_slices(numbers: Collection[int]) -> Scope:
    """Return a predicate for the conversations in these slices."""
    return lambda identity: slice_of(identity) in numbers
