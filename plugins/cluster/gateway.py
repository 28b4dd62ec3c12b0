"""A gateway: it has the channels. It sends their requests to the owner of the conversation, and
passes the workers' replies to its channels.

A channel that any number of processes may serve (`MultiProcess`) runs on every gateway. Any other
channel runs on one gateway, its owner; another gateway takes over when that one ends.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Hashable,
    Iterator,
    Sequence,
)
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from bot.app import App
from bot.attachments import run_limited
from bot.received import key_of
from channels.base import (
    Accepted,
    Activity,
    ChannelError,
    CommandEntry,
    Delta,
    KeyHolder,
    OpenedFile,
    Session,
    TranscriptMessage,
    WorkspaceFiles,
)
from channels.language import asked_in
from channels.message import (
    Address,
    Completed,
    CompletionRequest,
    Inbound,
    NotCompleted,
    Outbound,
    Reply,
)
from memory.record import mailbox
from memory.record.store import StoreError
from memory.tasks import cancel_and_wait
from plugins.cluster import record, wire
from plugins.cluster.node import (
    ClusterSender,
    Node,
    NodeListener,
    QuestionEnd,
    is_everywhere,
    topic_of,
)
from plugins.cluster.ownership import Ownership
from plugins.cluster.wire import SLICES, BrokerError, OwnerCall, name_of_slice, slice_of

log = logging.getLogger(__name__)

PATIENCE = 30.0
"""Seconds to wait for an owner's answer."""
LONG = 600.0
"""The same for requests that may call a model: a command, a piece of an answer."""
MOVES = (0.0, 0.1, 0.5, 1.0)
"""Seconds to wait before each new lookup of a chat's conversation, after its owner has answered
that the chat was linked elsewhere."""
UNSETTLED = "This chat is being linked elsewhere; send your message again in a moment."
FULL = 0.2
"""Seconds before a message is sent again to a conversation whose queue is full."""
RENEWAL = 10.0
"""Seconds after which a worker is notified again that a conversation is watched."""
ROUND = 5.0
"""Seconds between two searches of the outbox for replies that were not announced."""


class GatewayBot:
    """The `Bot` of `channels/base`, implemented by calls to the owners of the conversations."""

    def __init__(self, app: App, node: Node) -> None:
        assert isinstance(app.sender, ClusterSender)
        self._app, self._node, self._sender = app, node, app.sender
        self.logins, self.state = app.bot.logins, app.bot.state
        self._full: set[str] = set()
        self._watched = Counter[str]()
        self.pending = 0

    async def _ask(
        self, home: str, part: dict[str, Any], patience: float, is_repeatable: bool = True
    ) -> dict[str, Any]:
        """Return the answer of a conversation's owner. Raises BrokerError, StoreError,
        RemoteError."""
        name = name_of_slice(slice_of(home))
        calling = self._node.broker.call(name, wire.dump(part), patience, is_repeatable)
        self.pending += 1
        try:
            async for piece in calling:
                answer = wire.parse(piece)
                wire.raise_error(answer)
            return answer
        finally:
            self.pending -= 1
            await calling.aclose()

    async def _ask_owner(
        self, address: Address, part: dict[str, Any], patience: float, is_repeatable: bool = True
    ) -> dict[str, Any]:
        """Return the answer of the owner of the conversation that this address resolves to. The
        address may resolve to another conversation by now, or be about to: the owner knows."""
        links = self._app.links
        for wait in MOVES:
            answer = await self._ask(links.key_of(address).id, part, patience, is_repeatable)
            if not answer.get("has_moved"):
                return answer
            await asyncio.sleep(wait)
            await links.load()
        raise BrokerError(UNSETTLED)

    async def submit(self, inbound: Inbound) -> Accepted | None:
        """Send a message to the owner of its conversation, which writes it to disk."""
        address, data = inbound.address, self._app.config.data
        home = key_of(address).id
        part = await asyncio.to_thread(wire.spool, data, inbound)
        part["language"] = asked_in.get()
        try:
            answer = await self._ask_owner(address, {"do": "submit", **part}, PATIENCE)
            while answer.get("is_full"):
                self._full.add(home)
                await asyncio.sleep(FULL)
                answer = await self._ask_owner(address, {"do": "submit", **part}, PATIENCE)
        except (BrokerError, StoreError, wire.RemoteError) as error:
            refusal = Reply(str(error), problem="unavailable")
            self._sender.deliver(Outbound(0, inbound.address, refusal, inbound.id))
            return None
        finally:
            self._full.discard(home)
            if inbound.attachments:
                await asyncio.to_thread(wire.clear, data, part)
        value = answer["value"]
        return None if value is None else wire.build(Accepted, value)

    def must_wait(self, inbound: Inbound) -> bool:
        return key_of(inbound.address).id in self._full and not inbound.text.startswith("/")

    def admits(self, address: Address) -> bool:
        return self._app.bot.admits(address)

    def language_of(self, address: Address) -> str:
        return self._app.bot.language_of(address)

    def is_private(self, address: Address) -> bool:
        """Return False: private conversations are refused in a cluster."""
        return False

    async def command(self, address: Address, line: str) -> Reply:
        part = {"do": "command", "address": address, "line": line, "language": asked_in.get()}
        try:
            answer = await self._ask_owner(address, part, LONG, is_repeatable=False)
        except (BrokerError, StoreError, wire.RemoteError) as error:
            return Reply(str(error), problem="unavailable")
        return wire.build(Reply, answer["value"])

    def list_commands(self) -> Sequence[CommandEntry]:
        return self._app.bot.list_commands()

    async def sessions(self, channel: str, words: str = "") -> Sequence[Session]:
        """Return the sessions on disk, after a reload of the current branches, which owners may
        have changed."""
        await self._app.conversations.branches.load()
        return await self._app.bot.sessions(channel, words)

    async def own_sessions(self, words: str = "") -> Sequence[Session]:
        await self._app.conversations.branches.load()
        return await self._app.bot.own_sessions(words)

    def own_address(self, channel: str, chat: str) -> Address | None:
        return self._app.bot.own_address(channel, chat)

    async def transcript(
        self, address: Address, before: int = 0, most: int = 50
    ) -> Sequence[TranscriptMessage]:
        part = {"do": "transcript", "address": address, "before": before, "most": most}
        answer = await self._ask_owner(address, part, PATIENCE)
        return wire.build(list[TranscriptMessage], answer["value"])

    async def list_files(self, address: Address) -> WorkspaceFiles:
        """Return the files of a conversation; all processes share the data folder."""
        return await self._app.bot.list_files(address)

    async def open_file(self, address: Address, path: str) -> OpenedFile | None:
        return await self._app.bot.open_file(address, path)

    def run_limited(self, script: Path, content: bytes, *arguments: str) -> bytes:
        return run_limited(script, content, *arguments)

    def trouble(self, channel: str, error: BaseException) -> None:
        self._app.bot.trouble(channel, error)

    async def key_holder(self, key: str) -> KeyHolder | None:
        return await self._app.bot.key_holder(key)

    async def complete(
        self, holder: KeyHolder, request: CompletionRequest
    ) -> AsyncGenerator[Delta | Completed, None]:
        """Send the request to a random worker, since any may answer it."""
        name = name_of_slice(random.randrange(SLICES))
        body = wire.dump({"do": "complete", "holder": holder, "request": request})
        calling = self._node.broker.call(name, body, LONG, is_repeatable=False)
        at, stream, is_over = "", "", False
        try:
            async for piece in calling:
                answer = wire.parse(piece)
                wire.raise_error(answer)
                at, stream = answer.get("at", at), answer.get("stream", stream)
                if "event" in answer:
                    yield wire.build_event(answer)
            is_over = True
        except (BrokerError, StoreError, wire.RemoteError) as error:
            raise NotCompleted("unavailable", str(error)) from None
        finally:
            await calling.aclose()
            if at and not is_over:
                self._node.broker.send_transient(at, wire.dump({"stream": stream}))

    def list_routes(self) -> Sequence[object]:
        return [route for make in self._app.bot.features.routes for route in make(self)]

    async def call_owner(self, address: Address, name: str, body: bytes) -> bytes:
        part = {"do": "call_owner", "address": address, "name": name, "body": body.decode()}
        try:
            return str((await self._ask_owner(address, part, PATIENCE))["value"]).encode()
        except (BrokerError, StoreError, wire.RemoteError) as error:
            raise NotCompleted("unavailable", str(error)) from None

    async def instruct(self, address: Address, text: str) -> str:
        part = {"do": "instruct", "address": address, "text": text}
        try:
            return str((await self._ask_owner(address, part, PATIENCE))["value"])
        except (BrokerError, StoreError, wire.RemoteError) as error:
            return str(error)

    async def begin_with(self, address: Address, exchanges: Sequence[tuple[str, str]]) -> bool:
        part = {"do": "begin_with", "address": address, "exchanges": exchanges}
        return bool((await self._ask_owner(address, part, PATIENCE))["value"])

    # --- watching ----------------------------------------------------------------------------

    def watch(self, address: Address) -> AbstractContextManager[AsyncIterator[Activity]]:
        return self._watch(key_of(address).id)

    @contextmanager
    def _watch(self, home: str) -> Iterator[AsyncIterator[Activity]]:
        with self._app.bus.watch(home) as events:
            self._watched[home] += 1
            if self._watched[home] == 1:
                self._node.tasks.start(self._ask_to_watch(home))
            try:
                yield events
            finally:
                self._watched -= Counter([home])

    async def _ask_to_watch(self, home: str) -> None:
        target = self._app.links.resolve(home).id  # links are resolved here: `EventBus.followers`
        part = {"do": "watch", "home": target, "gateway": self._node.me}
        home = target
        with suppress(BrokerError, StoreError, wire.RemoteError):
            await self._ask(home, part, PATIENCE)

    async def keep_watching(self) -> None:
        """Announce the watched conversations repeatedly, since their owners may change."""
        while True:
            await asyncio.sleep(RENEWAL)
            self.announce_watched()

    def announce_watched(self) -> None:
        """Announce the watched conversations at once, since chats may have been linked
        elsewhere."""
        for home in tuple(self._watched):
            self._node.tasks.start(self._ask_to_watch(home))

    def announce_slices(self, slices: Collection[int]) -> None:
        """Announce the watched conversations of these slices to their new owner."""
        for home in tuple(self._watched):
            if slice_of(self._app.links.resolve(home).id) in slices:
                self._node.tasks.start(self._ask_to_watch(home))

    def handle_message(self, part: dict[str, Any]) -> None:
        """Publish an event of a conversation that is watched here."""
        self._app.bus.publish(str(part["home"]), wire.build_event(part))


class Gateway(NodeListener):
    """Runs channels, and keeps (`Keeper`) those that only one process may run."""

    def __init__(self, app: App, node: Node) -> None:
        assert isinstance(app.sender, ClusterSender)
        self.app, self.node, self.sender = app, node, app.sender
        self.bot = GatewayBot(app, node)
        self.node.listener = self
        self._listeners: dict[str, asyncio.Task[None]] = {}
        self._started = asyncio.Event()
        self._ended: asyncio.Queue[str] = asyncio.Queue()
        for name, channel in app.channels.items():
            if not is_everywhere(channel):
                group = f"channel.{name}"
                node.ownerships[group] = Ownership(node.broker, self, [group])

    async def run(self, until: str = "") -> bool:
        """Serve the channels until they end (or the one that `until` names) or a signal arrives.
        Return False if other processes considered this one dead, so that it has to restart."""
        stopping = self.node.stopping
        await self.node.join()
        await self.app.begin()
        await asyncio.to_thread(wire.delete_stale_files, self.app.config.data)
        await self.node.start()
        for name, channel in self.app.channels.items():
            if is_everywhere(channel):
                await self._open(name)
        beside = [asyncio.create_task(work) for work in (self.bot.keep_watching(), self._rounds())]
        ways = [asyncio.create_task(one.wait()) for one in (stopping, self.node.fenced)]
        ending = asyncio.create_task(self._until_ended(until))
        await asyncio.wait((*ways, ending), return_when=asyncio.FIRST_COMPLETED)
        ended = {*self._listeners.values()}
        await cancel_and_wait(*ended)
        answering = asyncio.create_task(self._until_answered())
        await asyncio.wait((answering, *ways), return_when=asyncio.FIRST_COMPLETED)
        if not self.node.is_fenced:
            await asyncio.wait((answering,), timeout=self.app.config.shutdown_timeout)
        await cancel_and_wait(*ways, ending, answering, *beside)
        await self._close()
        for task in ended:
            task.result() if not task.cancelled() else None
        return not self.node.is_fenced

    async def _until_ended(self, until: str) -> None:
        left = {until} if until else {*self.app.channels}
        while left:
            left.discard(await self._ended.get())

    async def _until_answered(self) -> None:
        """Wait until all messages received over the channels here are answered, and the answers
        sent."""
        while self.bot.pending or await self._is_waiting():  # noqa: ASYNC110 - workers set no event
            await asyncio.sleep(FULL)

    async def _is_waiting(self) -> bool:
        names = [*self._listeners]
        try:
            return await self.app.store.read(
                lambda db: mailbox.is_waiting(db, names, self.sender.put_off)
            )
        except StoreError as error:
            log.warning("whether all is answered can't be read yet: %s", error)
            return True

    async def _close(self) -> None:
        patience = self.app.config.shutdown_timeout
        if self.node.is_fenced:
            await self.node.abandon()
            await self.app.abandon()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.sender.queues.idle()
        await self.node.release_ownership()
        await self.app.close(self.node.leave)

    # --- channels -----------------------------------------------------------------------------

    async def _open(self, name: str) -> None:
        """Serve a channel from now on, beginning with its unsent replies."""
        await self.node.broker.listen(topic_of(name))
        await self._send_unsent(name)
        self._listeners[name] = asyncio.create_task(self._listen(name), name=f"listen {name}")

    async def _listen(self, name: str) -> None:
        channel = self.app.channels[name]
        try:
            await channel.listen(self.bot)
        except ChannelError as error:
            log.warning("%s", error)
            self.app.sender.recent.channel_down(name, error)
            raise
        except Exception as error:
            log.exception("the channel %s has ended", name)
            self.app.sender.recent.channel_down(name, error)
            raise
        finally:
            if name in self._listeners:
                self._ended.put_nowait(name)

    async def gain(self, name: str) -> None:
        channel = name.partition(".")[2]
        me = self.node.me
        await self.app.store.write(lambda db: record.take(db, name, me))
        if channel not in self._listeners:
            await self._open(channel)

    async def finish(self, name: str, calls: Collection[asyncio.Task[None]]) -> None:
        """Stop accepting messages, and send the outgoing ones."""
        channel = name.partition(".")[2]
        if (task := self._listeners.pop(channel, None)) is not None:
            await cancel_and_wait(task)
        if not self.node.is_fenced:
            with suppress(TimeoutError):
                async with asyncio.timeout(self.app.config.shutdown_timeout):
                    await self.sender.queues.idle_in(_of_channel(channel))

    async def lose(self, name: str) -> None:
        channel = name.partition(".")[2]
        await self.sender.queues.drop(_of_channel(channel))  # another gateway sends it
        self.sender.forget(channel)
        with suppress(StoreError):
            await self.app.store.write(lambda db: record.release_items(db, [name], self.node.me))

    async def list_orphans(
        self, names: Sequence[str], alive: Collection[str] | None = None
    ) -> list[str]:
        return await self.node.list_orphans(names, alive)

    async def handle(self, name: str, call: OwnerCall) -> None:
        """Do nothing: channels are never called."""

    # --- outgoing replies --------------------------------------------------------------------

    def links_changed(self) -> None:
        self.bot.announce_watched()

    def slices_taken(self, slices: Collection[int]) -> None:
        self.bot.announce_slices(slices)

    def handle_message(self, topic: str, body: bytes) -> None:
        try:
            part = wire.parse(body)
            if "outbound" in part:
                outbound = wire.build(Outbound, part["outbound"])
                if outbound.address.channel in self._listeners:
                    self.sender.deliver(outbound)
            elif "closed" in part:
                over = wire.build(QuestionEnd, part["closed"])
                if over.address.channel in self._listeners:
                    self.sender.close_question_here(over)
            else:
                self.bot.handle_message(part)
        except (ValueError, KeyError):
            log.exception("what was told on %s can't be read", topic)

    async def _rounds(self) -> None:
        """Send the replies in the outbox that were not announced."""
        while True:
            await asyncio.sleep(ROUND)
            for name in tuple(self._listeners):
                try:
                    await self._send_unsent(name)
                except StoreError as error:
                    log.warning("the outbox can't be read: %s", error)
                except Exception:  # no other code finds unannounced replies
                    log.exception("the outbox could not be looked through")

    async def _send_unsent(self, channel: str) -> None:
        for row in await self.app.store.read(mailbox.list_outbox):
            if row.place.channel == channel:
                outbound = await self.sender.read(row, is_resent=False)
                if outbound is not None:
                    self.sender.deliver(outbound, row.tries)


def _of_channel(channel: str) -> Callable[[Hashable], bool]:
    """Return a predicate for the queues of this channel's replies."""
    return lambda queue: isinstance(queue, tuple) and queue[0] == channel
