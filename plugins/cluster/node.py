"""A process of a cluster: its name, fence and heartbeat, and the broadcasts."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from msgspec import Struct
from msgspec.structs import replace

from bot.app import VERSION, App
from bot.delivery import columns_of
from bot.recent import RecentActivity
from bot.sending import Sender
from channels.base import Channel, MultiProcess
from channels.limited import LimitedDict
from channels.message import Address, Outbound
from memory.record import bot_state, mailbox
from memory.record.database import Database
from memory.record.store import Store, StoreError
from memory.tasks import BackgroundTasks, cancel_and_wait
from plugins.cluster import record, wire
from plugins.cluster.ownership import BEAT, SILENCE, Ownership
from plugins.cluster.rabbit import BrokerListener, RabbitMQ
from plugins.cluster.record import NOBODY, FencedError
from plugins.cluster.versions import BEATS, MixedVersionsError, describe
from plugins.cluster.wire import BrokerError
from plugins.health import ClusterInfo

log = logging.getLogger(__name__)

MOST_KNOWN = 10_000
"""The number of handled replies that a gateway remembers."""
FORGOTTEN = 86_400.0
"""Seconds of silence after which a process is removed from the list."""
CHANGES = "changed"
"""The topic for changed settings and people."""
TAKEN = "taken"
"""The topic for slices with a new owner."""


def name_process(role: str) -> str:
    """Return a unique name of a process."""
    return f"{role}-{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"


def topic_of(channel: str) -> str:
    """Return the topic for replies to the gateways that run a channel."""
    return f"out.{channel}"


class _HandledReply(Struct, frozen=True):
    """A reply that this gateway has handled, and whether it was passed to the channel."""

    channel: str
    is_sent: bool


class QuestionEnd(Struct, frozen=True):
    """The end of a question at an address, with its outcome."""

    address: Address
    question: str
    how: str


def is_everywhere(channel: Channel) -> bool:
    """Return whether any number of gateways may serve this channel at once."""
    return isinstance(channel, MultiProcess) and channel.is_everywhere


class ClusterSender(Sender):
    """Sends replies to the gateways that run their channel; a gateway passes them to the channel
    (`deliver`). If several gateways may have it, one claims a reply before it sends it."""

    def __init__(
        self, store: Store, channels: Mapping[str, Channel], data: Path, recent: RecentActivity
    ) -> None:
        super().__init__(store, channels, data, recent)
        self.node: Node | None = None
        self._known = LimitedDict[int, _HandledReply](MOST_KNOWN)  # the replies handled here
        self.put_off: set[int] = set()  # what their channel did not take
        self._unmarked: set[int] = set()

    def send(self, outbound: Outbound, tries: int = 0) -> None:
        """Announce a reply; if that fails, a gateway finds it in the outbox."""
        address = outbound.address
        chat = (address.channel, address.chat, address.thread)
        content = wire.dump({"outbound": outbound})
        self.queues.put(chat, lambda: self._publish_to_gateways(address.channel, content))

    async def _publish_to_gateways(self, channel: str, body: bytes) -> None:
        """Publish to the gateways that run a channel."""
        if self.node is None or self.node.is_fenced:
            return  # a fenced process must not publish
        with suppress(BrokerError):
            await self.node.broker.broadcast(topic_of(channel), body)

    def deliver(self, outbound: Outbound, tries: int = 0) -> None:
        """Send a reply from here, unless that is already under way."""
        if outbound.id in self._unmarked:
            self._unmarked.remove(outbound.id)
            address = outbound.address
            chat = (address.channel, address.chat, address.thread)
            self.queues.put(chat, lambda: self._mark_sent(outbound))
            return
        if outbound.id:
            if outbound.id in self._known:
                return
            self._note_handled(outbound, is_sent=False)
        super().send(outbound, tries)

    async def _mark_sent(self, outbound: Outbound) -> None:
        """Mark a reply as received by the platform. If the database is unavailable, this is
        repeated when the outbox is read again; otherwise a process that stops would wait for the
        mark forever."""
        try:
            await super()._mark_sent(outbound)
        except StoreError as error:
            log.warning("the reply to %s is marked as sent later: %s", outbound.reply_to, error)
            self._unmarked.add(outbound.id)

    def close_question(self, address: Address, question: str, how: str) -> None:
        """Send the outcome to the gateway of the channel, after earlier replies."""
        chat = (address.channel, address.chat, address.thread)
        data = wire.dump({"closed": QuestionEnd(address, question, how)})
        self.queues.put(chat, lambda: self._publish_to_gateways(address.channel, data))

    def close_question_here(self, over: QuestionEnd) -> None:
        """Show the end of a question from here."""
        super().close_question(over.address, over.question, over.how)

    def _note_handled(self, outbound: Outbound, is_sent: bool) -> None:
        self._known[outbound.id] = _HandledReply(outbound.address.channel, is_sent)

    def forget(self, channel: str) -> None:
        """Forget the replies of a channel that another gateway runs now; if the channel returns,
        its unsent replies are read again."""
        for outbox in [outbox for outbox, one in self._known.items() if one.channel == channel]:
            if outbox not in self.put_off:
                del self._known[outbox]

    async def _send(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        """Send a reply. If its claim can't be checked, it is found in the outbox again."""
        try:
            await self._send_in_order(channel, outbound, tries)
        except StoreError as error:
            known = self._known.get(outbound.id)
            if known is None or known.is_sent:
                raise
            log.warning("the reply to %s is sent later: %s", outbound.reply_to, error)
            del self._known[outbound.id]

    async def _send_in_order(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        """Send a reply after the earlier unannounced replies of its chat, whose author may have
        died before announcing them."""
        if outbound.id:
            place = columns_of(outbound.address)
            before = await self._store.read(
                lambda db: mailbox.list_unsent_before(db, place, outbound.id)
            )
            for row in before:
                if row.id not in self.put_off and (one := await self.read(row, False)):
                    await self._send_one(channel, one, row.tries)
        await self._send_one(channel, outbound, tries)

    async def _send_one(self, channel: Channel, outbound: Outbound, tries: int) -> None:
        if outbound.id:
            known = self._known.get(outbound.id)
            if known is not None and known.is_sent:
                return  # it was sent ahead of its turn
            claimed = outbound if is_everywhere(channel) else await self._claim(outbound)
            self._note_handled(outbound, is_sent=True)
            if claimed is None:
                return
            outbound = claimed
        await super()._send(channel, outbound, tries)
        if (outbound.address, outbound.reply_to) in self._held:
            self.put_off.add(outbound.id)

    async def _claim(self, outbound: Outbound) -> Outbound | None:
        """Return the reply, marked if another process may have sent it; None if one certainly
        has."""
        assert self.node is not None, "nothing is delivered before the node has started"
        me = self.node.me
        before = await self._store.write(lambda db: record.claim(db, outbound.id, me))
        if before is None:
            return None
        return outbound if before in (NOBODY, me) else replace(outbound, is_resent=True)


class NodeListener:
    """A listener to the messages of other processes. By default it does nothing."""

    def handle_message(self, topic: str, body: bytes) -> None:
        """Handle a message for gateways or workers."""

    def links_changed(self) -> None:
        """Handle links of chats that another process may have made."""

    def slices_taken(self, slices: Collection[int]) -> None:
        """Handle slices that have another owner."""


class Node(BrokerListener):
    """The common part of gateways and workers. `ownerships` are by the group that shares them."""

    def __init__(self, app: App, broker: RabbitMQ, role: str, stopping: asyncio.Event) -> None:
        self.app, self.broker, self.me, self.role = app, broker, broker.me, role
        self.stopping = stopping
        self.is_fenced = False
        self.fenced = asyncio.Event()
        self.ownerships: dict[str, Ownership] = {}
        self.listener = NodeListener()
        self.tasks = BackgroundTasks()
        self._beating: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        assert isinstance(app.sender, ClusterSender), "what goes out goes through the gateways"
        app.sender.node = self
        app.processes.survey = self
        self._last_beats: dict[str, float] = {}
        self._begun = time.monotonic()
        broker.listener = self

    async def join(self) -> None:
        """Join the cluster. Raises BrokerError, StoreError and MixedVersionsError."""
        store = self.app.store
        await store.write(partial(_join, process=self.me, role=self.role))
        # This process is in the record before it looks, so of two that join at once, one sees the
        # other.
        strangers = await store.read(lambda db: record.list_strangers(db, VERSION))
        if strangers:
            await store.write(lambda db: record.leave(db, self.me))
            raise MixedVersionsError(describe(strangers, record.SCHEMA))
        store.fence(self._check)
        await self.broker.start()
        for topic in (BEATS, CHANGES, TAKEN):
            await self.broker.listen(topic)
        self.app.changes.connect(self._announce_change)

    async def start(self) -> None:
        """Start to acquire ownership and send heartbeats."""
        for ownership in self.ownerships.values():
            await ownership.start()
        self._beating = asyncio.create_task(self._beat(), name="beat")

    async def release_ownership(self) -> None:
        """Give up all ownership, and announce that."""
        if self._beating is not None:
            await cancel_and_wait(self._beating)
        with suppress(BrokerError):
            await self.broker.broadcast(BEATS, wire.dump({"me": self.me, "groups": []}))
        for ownership in self.ownerships.values():
            await ownership.close()
        await self.tasks.stop()

    async def leave(self) -> None:
        """Leave the cluster."""
        with suppress(StoreError):
            await self.app.store.write(lambda db: record.leave(db, self.me))
        await self.broker.close()

    def declare_dead(self) -> None:
        """Let others take over this process's items, as if it were dead."""
        self.is_fenced = True
        self.fenced.set()

    async def abandon(self) -> None:
        """Leave the cluster after others have considered this process dead. They need not wait for
        its cleanup: its items are free once it has left the broker."""
        if self._beating is not None:
            await cancel_and_wait(self._beating)
        await self.broker.close()
        for ownership in self.ownerships.values():
            await ownership.abandon()
        await self.tasks.stop()

    def _check(self, database: Database) -> None:
        """Check the fence in the writer's thread, at the start of each transaction."""
        try:
            record.check(database, self.me)
        except FencedError:
            if not self.is_fenced:
                self.is_fenced = True
                self._loop.call_soon_threadsafe(self.fenced.set)
            raise

    # --- received messages -------------------------------------------------------------------

    async def _beat(self) -> None:
        body = wire.dump({"me": self.me, "groups": [*self.ownerships], "version": VERSION})
        while True:
            with suppress(BrokerError):
                await self.broker.broadcast(BEATS, body)
            await asyncio.sleep(BEAT)

    def announce_fenced(self, process: str) -> None:
        """Announce that a process was fenced, so that others need not wait for its heartbeat, and
        register for its items at once."""
        self.broker.send_transient(BEATS, wire.dump({"me": process, "groups": []}))

    def announce_owned(self, numbers: Collection[int]) -> None:
        """Announce that this process owns these slices from now on."""
        self.broker.send_transient(TAKEN, wire.dump({"slices": [*numbers]}))

    def handle_message(self, topic: str, body: bytes) -> None:
        if topic == CHANGES:
            self.tasks.start(self._refresh())
        elif topic == TAKEN:
            self.listener.slices_taken(wire.build(list[int], wire.parse(body)["slices"]))
        elif topic == BEATS:
            self._handle_heartbeat(body)
        else:
            self.listener.handle_message(topic, body)

    def _handle_heartbeat(self, body: bytes) -> None:
        data = wire.parse(body)
        process = str(data["me"])
        if "version" in data:
            self._last_beats[process] = time.monotonic()
        else:
            self._last_beats.pop(process, None)  # it has announced its end
        for group, ownership in self.ownerships.items():
            if group in data["groups"]:
                ownership.record_heartbeat(process)
            else:
                ownership.record_end(process)

    async def forget_silent(self) -> None:
        """Forget the processes without a heartbeat for a day whose items were never taken over.
        Raises StoreError."""
        now = time.monotonic()
        if now - self._begun < FORGOTTEN:
            return  # not listening for long enough yet
        rows = await self.app.store.read(record.list_processes)
        silent = [
            row.id
            for row in rows
            if row.id != self.me and now - self._last_beats.get(row.id, self._begun) > FORGOTTEN
        ]
        if silent:
            await self.app.store.write(lambda db: record.forget(db, silent))

    async def status(self) -> ClusterInfo:
        """Return the processes and the backlog."""
        recorded = await self.app.store.read(record.read_all)
        now, queued = time.monotonic(), None
        if self.broker.is_up:
            with suppress(BrokerError):
                queued = await self.broker.count_waiting(record.SLICE_NAMES)
        alive = {name for name, at in self._last_beats.items() if now - at < SILENCE}
        if now - self._begun < SILENCE:  # too early for heartbeats
            alive |= {row.id for row in recorded.processes}
        return record.sum_up(recorded, queued, alive, time.time())

    async def list_orphans(self, names: Sequence[str], alive: Collection[str] | None) -> list[str]:
        """Implement `Keeper.list_orphans`. Raises StoreError."""
        recorded = await self.app.store.read(record.read_all)
        others = {row.id for row in recorded.processes if alive is None or row.id in alive}
        owned = {row.name for row in recorded.owners if row.process in others - {self.me}}
        return [name for name in names if name not in owned]

    async def may_return(self) -> None:
        """Before anything is sent over a new connection, check whether others considered this
        process dead; if so, wait forever."""
        with suppress(StoreError):
            await self.app.store.write(lambda database: None, is_synced=False)
        if self.is_fenced:
            await asyncio.get_running_loop().create_future()  # until the broker is closed

    def disconnected(self) -> None:
        for ownership in self.ownerships.values():
            ownership.disconnected()

    async def reconnected(self) -> None:
        for ownership in self.ownerships.values():
            await ownership.reconnected()
        await self._refresh()

    # --- state that all processes cache -------------------------------------------------------

    def _announce_change(self) -> None:
        self.broker.send_transient(CHANGES, b"{}")

    async def _refresh(self) -> None:
        """Reload the state that another process may have changed: settings, people, limits."""
        try:
            changed = await self.app.store.read(bot_state.load_overrides)
            self.app.config.book.replace_changes(changed)
            self.app.features.notify_settings_changed()
            await self.app.access.load()
            await self.app.links.load()
            self.listener.links_changed()
            await self.app.config.spending.load()
        except StoreError as error:
            log.warning("what others have changed could not be read: %s", error)


def _join(database: Database, process: str, role: str) -> None:
    record.forget_fenced(database)
    record.join(database, process, role, VERSION)
