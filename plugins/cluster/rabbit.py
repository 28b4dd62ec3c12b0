"""RabbitMQ as the cluster's broker; the only module that uses its client.

    exchange parley.owned    direct: a call to the queue of an owned item
    queue parley.slice.7     quorum, one consumer at a time; so are the queues of other items
    exchange parley.told     topic: messages between processes; not persistent
    queue parley.at.ID       a process's own: answers to its calls, and its topics

Calls to an owner are persistent and confirmed. Answers and broadcasts are neither persistent nor
repeated: their receivers end with their process.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from uuid import uuid4

import aio_pika
from aio_pika.abc import (
    AbstractChannel,
    AbstractConnection,
    AbstractExchange,
    AbstractIncomingMessage,
    AbstractQueue,
)
from aio_pika.exceptions import (
    AMQPError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    DeliveryError,
)
from msgspec import Struct, field

from memory.tasks import BackgroundTasks, cancel_and_wait
from plugins.cluster.wire import BrokerError, OwnerCall

log = logging.getLogger(__name__)

HEARTBEAT = 5
"""Seconds; a process that is suspended for two or three of these loses its connection, and with it
what it owned."""
CONNECTING = 5.0
"""Seconds for a broker to answer an attempt to connect. A broker that was just started accepts some
connections without ever answering, so the next attempt must not wait long."""
ATTEMPTS = 4
"""Attempts to connect at the start, if the broker is too busy to answer; a missing one is detected
at once."""
PREFETCH = 500
"""The maximum of calls of one queue in hand at a time."""
PATIENCE = 10.0
"""Seconds that a broadcast waits for a broken connection."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
"""Seconds between two attempts to connect."""
_TOKEN, _CALL, _TOLD, _MORE, _LAST = "token", "call", "told", "more", "last"
_GONE = (
    *(AMQPError, ChannelInvalidStateError, ConnectionError, OSError, RuntimeError, TimeoutError),
    StopAsyncIteration,
)
"""The exceptions of the client on a lost connection; the last one if it ended before the broker had
sent anything."""
UNREACHABLE = "The message broker can't be reached; try again in a moment."
UNANSWERED = (
    "This took too long to be taken in. It may still be answered: look in a moment, and say it "
    "again if not."
)
UNSURE = (
    "The connection to the message broker broke while this was on its way. Look whether it took "
    "effect, and say it again if not."
)


class BrokerListener:
    """A listener to a process's connection to the broker. By default it does nothing."""

    def handle_message(self, topic: str, body: bytes) -> None:
        """Handle a message to several processes."""

    def disconnected(self) -> None:
        """Handle the loss of the connection."""

    async def may_return(self) -> None:
        """Return once this process may send over a new connection."""

    async def reconnected(self) -> None:
        """Handle a new connection."""


class _Link(Struct):
    """A connection: publishing on `sure` is confirmed, on `quick` it is not."""

    connection: AbstractConnection
    sure: AbstractChannel
    quick: AbstractChannel
    taking: AbstractChannel
    owned: AbstractExchange
    told: AbstractExchange
    told_quickly: AbstractExchange
    own: AbstractQueue
    queues: dict[str, AbstractQueue] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    """The consumer tags of this process, by the name of the queue."""


@contextmanager
def _reaching() -> Iterator[None]:
    """Wrap operations of the client. Raises BrokerError if the connection is lost: the client may
    report that by cancelling its own operation, while nobody cancels the caller. If the caller is
    cancelled just when the connection breaks, the client raises its error instead, and the
    cancellation would be lost. DeliveryError is raised unchanged."""
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    try:
        yield
    except asyncio.CancelledError as error:
        if task is None or task.cancelling():
            raise
        raise BrokerError(UNREACHABLE) from error
    except Exception as error:
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError from error
        if isinstance(error, _GONE) and not isinstance(error, DeliveryError):
            raise BrokerError(UNREACHABLE) from error
        raise


class Delivered:
    """A message that lay in a queue, and is in hand until it is settled. `call` is None for the
    token, which makes its holder the owner. Settling does nothing once the connection over which
    it came is gone: then it is in the queue again anyhow."""

    def __init__(self, message: AbstractIncomingMessage, call: OwnerCall | None) -> None:
        self._message, self.call = message, call

    async def done(self) -> None:
        with suppress(BrokerError), _reaching():
            await self._message.ack()

    async def requeue(self) -> None:
        with suppress(BrokerError), _reaching():
            await self._message.nack(requeue=True)


Take = Callable[[str, Delivered], None]
"""A callback for a message from the queue of this name, called in order."""


class RabbitMQ:
    """Queues that one process at a time takes from, calls with their answers, and what is told to
    all. Names of queues are those of what is owned: "slice.7". `me` is this process, as others know
    it: no two that ever ran have the same. `kin` stands before all names, so that several bots may
    share a broker."""

    def __init__(self, url: str, me: str, kin: str = "parley") -> None:
        self.me, self._url, self._kin = me, url, kin
        self.listener = BrokerListener()
        self._link: _Link | None = None
        self._is_up = asyncio.Event()
        self._topics: set[str] = set()
        self._answers: dict[str, asyncio.Queue[tuple[bytes, bool]]] = {}
        self._running: asyncio.Task[None] | None = None
        self._tasks = BackgroundTasks()

    # --- the connection -----------------------------------------------------------------------

    async def start(self) -> None:
        """Connect. Raises BrokerError if that fails."""
        try:
            self._link = await self._connect_first()
        except _GONE as error:
            log.warning("no connection to the message broker: %r", error)
            raise BrokerError(UNREACHABLE) from None
        self._is_up.set()
        self._running = asyncio.create_task(self._keep_connected(), name="broker")

    @property
    def is_up(self) -> bool:
        """Return whether there is a connection now."""
        return self._is_up.is_set()

    @property
    def version(self) -> str:
        """The version that the server reports; "" without a connection."""
        transport = self._link.connection.transport if self._link else None
        version = transport.connection.server_properties.get("version") if transport else ""
        return version.decode() if isinstance(version, bytes) else str(version or "")

    async def close(self) -> None:
        if self._running is not None:
            await cancel_and_wait(self._running)
        await self._tasks.stop()
        self._is_up.clear()
        if self._link is not None:
            with suppress(*_GONE):
                await self._link.connection.close()

    async def _connect_first(self) -> _Link:
        for _ in range(ATTEMPTS - 1):
            with suppress(TimeoutError):
                return await self._connect()
        return await self._connect()

    async def _connect(self) -> _Link:
        connection = await aio_pika.connect(self._url, heartbeat=HEARTBEAT, timeout=CONNECTING)
        try:
            return await self._open(connection)
        except BaseException:
            await connection.close()
            raise

    async def _open(self, connection: AbstractConnection) -> _Link:
        sure = await connection.channel(publisher_confirms=True, on_return_raises=True)
        quick = await connection.channel(publisher_confirms=False)
        taking = await connection.channel()
        await taking.set_qos(prefetch_count=PREFETCH)
        owned = await taking.declare_exchange(f"{self._kin}.owned", durable=True)
        topics = await taking.declare_exchange(f"{self._kin}.told", "topic", durable=True)
        name = f"{self._kin}.at.{self.me}"
        own = await quick.declare_queue(name, exclusive=True, auto_delete=True)
        for topic in (self.me, *self._topics):
            await own.bind(topics, topic)
        await own.consume(self._handle_own, no_ack=True)
        sure_owned = await sure.get_exchange(owned.name, ensure=False)
        sure_told = await sure.get_exchange(topics.name, ensure=False)
        quickly = await quick.get_exchange(topics.name, ensure=False)
        return _Link(connection, sure, quick, taking, sure_owned, sure_told, quickly, own)

    async def _keep_connected(self) -> None:
        """Reconnect whenever the connection breaks."""
        returning: asyncio.Task[None] | None = None
        while True:
            assert self._link is not None
            await self._until_broken(self._link)
            log.warning("the connection to the message broker broke")
            self._is_up.clear()
            if returning is not None:
                await cancel_and_wait(returning)
            self.listener.disconnected()
            with suppress(BrokerError), _reaching():
                await self._link.connection.close()
            self._link = await self._connect_again()
            await self.listener.may_return()
            self._is_up.set()
            log.warning("the message broker is there again")
            returning = self._tasks.start(self._return())  # the new connection may break meanwhile

    async def _return(self) -> None:
        try:
            await self.listener.reconnected()
        except BrokerError as error:
            log.warning("%s", error)

    async def _until_broken(self, link: _Link) -> None:
        """Wait until any of its channels breaks, since then all messages in hand are lost."""
        ways = (link.connection, link.sure, link.quick, link.taking)
        tasks = [asyncio.create_task(_closed(one)) for one in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(*tasks)

    async def _connect_again(self) -> _Link:
        pause = FIRST_PAUSE
        while True:
            try:
                with _reaching():
                    return await self._connect()
            except (BrokerError, DeliveryError) as error:
                log.info("no connection to the message broker: %r", error.__cause__)
            except Exception:
                log.exception("no connection to the message broker")
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _linked(self, patience: float = PATIENCE) -> _Link:
        """Return the connection, once there is one. Raises BrokerError."""
        try:
            async with asyncio.timeout(patience):
                await self._is_up.wait()
        except TimeoutError:
            raise BrokerError(UNREACHABLE) from None
        assert self._link is not None
        return self._link

    # --- owned items --------------------------------------------------------------------------

    @asynccontextmanager
    async def _answered(self, link: _Link) -> AsyncIterator[None]:
        """Limit the time of an operation on a queue. A broker that has just restarted may never
        answer one, because the queue has no leader yet. Then the connection is closed and replaced.
        Raises BrokerError."""
        try:
            async with asyncio.timeout(PATIENCE):
                with _reaching():
                    yield
        except TimeoutError:
            log.warning("the message broker does not answer about a queue")
            with suppress(BrokerError), _reaching():
                await link.connection.close()
            raise BrokerError(UNREACHABLE) from None

    async def declare(self, names: Sequence[str]) -> None:
        """Declare these queues."""
        link = await self._linked()
        for name in names:
            await self._declare(link, name)

    async def _declare(self, link: _Link, name: str) -> AbstractQueue:
        """Return the queue of this name, declared once per connection."""
        if (known := link.queues.get(name)) is not None:
            return known
        arguments: dict[str, Any] = {"x-queue-type": "quorum", "x-single-active-consumer": True}
        async with self._answered(link):
            queue = await link.taking.declare_queue(
                f"{self._kin}.{name}", durable=True, arguments=arguments
            )
            await queue.bind(link.owned.name, name)
        link.queues[name] = queue
        return queue

    async def put_token(self, name: str) -> None:
        """Put another token into a queue."""
        await self._publish(name, aio_pika.Message(b"", type=_TOKEN, delivery_mode=2), PATIENCE)

    async def consume(self, name: str, take: Take) -> None:
        """Stand in line for a queue: whoever stood there first has it alone. Where there is no
        connection, nobody waits for one with this: by then, others may have to come first. Raises
        BrokerError."""
        if (link := self._link) is None or not self.is_up:
            raise BrokerError(UNREACHABLE)

        async def on_message(message: AbstractIncomingMessage) -> None:
            take(name, Delivered(message, self._call_in(message)))

        queue = await self._declare(link, name)
        tag = link.tags[name] = uuid4().hex  # known before the broker knows it
        async with self._answered(link):
            await queue.consume(on_message, consumer_tag=tag)
        if link is not self._link:
            raise BrokerError(UNREACHABLE)

    async def stop_consuming(self, name: str) -> None:
        """Stop consuming a queue; messages in hand stay in hand until they are settled."""
        if (link := self._link) is None:
            return
        if tag := link.tags.pop(name, ""):
            with suppress(BrokerError), _reaching():
                await link.queues[name].cancel(tag)

    def _call_in(self, message: AbstractIncomingMessage) -> OwnerCall | None:
        if message.type == _TOKEN:
            return None
        name, caller = message.correlation_id or uuid4().hex, message.reply_to or ""

        async def answer(body: bytes, is_last: bool) -> None:
            kind = _LAST if is_last else _MORE
            reply = aio_pika.Message(body, type=kind, correlation_id=name, delivery_mode=1)
            await self._answer(caller, reply, is_last)

        return OwnerCall(name, message.body, bool(message.redelivered), answer)

    async def _answer(self, caller: str, reply: aio_pika.Message, is_last: bool) -> None:
        """Send an answer. The queue of a caller whose connection broke as well may not exist again
        yet; a caller that has ended gets no answer."""
        pause = FIRST_PAUSE
        while caller:
            try:
                link = await self._linked()
                with _reaching():
                    await link.sure.default_exchange.publish(reply, caller)
                return
            except DeliveryError:
                if not is_last or pause > LONGEST_PAUSE:
                    return
                pause *= 2
            except BrokerError:
                pass
            await asyncio.sleep(pause)

    async def count_waiting(self, names: Sequence[str]) -> dict[str, int]:
        """Return the number of calls in these queues that no process has in hand; queues that were
        never declared are omitted. Raises BrokerError."""
        link, counts = await self._linked(), dict[str, int]()
        try:
            channel = await link.connection.channel()  # a missing queue closes the channel
            for name in names:
                queue = await channel.declare_queue(f"{self._kin}.{name}", passive=True)
                found = queue.declaration_result
                token = 0 if found.consumer_count else 1
                counts[name] = max(0, (found.message_count or 0) - token)
            await channel.close()
        except ChannelNotFoundEntity:
            log.info("some queues are not there yet")
        except _GONE as error:
            raise BrokerError(UNREACHABLE) from error
        return counts

    # --- calls -------------------------------------------------------------------------------

    async def call(
        self, name: str, body: bytes, patience: float, is_repeatable: bool = True
    ) -> AsyncGenerator[bytes, None]:
        """Ask the owner of this; the pieces of the answer, of which there is one at least. What
        `is_repeatable` may reach it twice. Raises BrokerError after `patience` seconds without a
        piece."""
        identity = uuid4().hex
        answers = self._answers[identity] = asyncio.Queue()
        message = aio_pika.Message(
            body,
            type=_CALL,
            correlation_id=identity,
            reply_to=f"{self._kin}.at.{self.me}",
            delivery_mode=2,
            expiration=patience,  # nobody waits for it afterwards
        )
        try:
            await self._publish(name, message, patience, is_repeatable)
            is_last = False
            while not is_last:
                async with asyncio.timeout(patience):
                    piece, is_last = await answers.get()
                yield piece
        except TimeoutError:
            raise BrokerError(UNANSWERED) from None
        finally:
            del self._answers[identity]

    async def _publish(
        self, name: str, message: aio_pika.Message, patience: float, is_repeatable: bool = True
    ) -> None:
        """Put a message into the queue of an item; when this returns it is on the broker's disk."""
        end = asyncio.get_running_loop().time() + patience
        while (left := end - asyncio.get_running_loop().time()) > 0:
            link = await self._linked(left)
            try:
                with _reaching():
                    await link.owned.publish(message, name, timeout=left)
                return
            except DeliveryError as error:  # the queue does not exist yet
                log.info("%s is not there: %r", name, error)
            except BrokerError:
                if not is_repeatable:
                    raise BrokerError(UNSURE) from None
            await asyncio.sleep(FIRST_PAUSE)
        raise BrokerError(UNREACHABLE)

    # --- broadcasts ---------------------------------------------------------------------------

    async def listen(self, topic: str) -> None:
        """Subscribe to a topic from now on, also over later connections."""
        self._topics.add(topic)
        link = await self._linked()
        try:
            with _reaching():
                await link.own.bind(link.told.name, topic)
        except BrokerError:
            log.info("%s is listened to when the connection is there again", topic)

    async def broadcast(self, topic: str, body: bytes) -> None:
        """Publish to the current listeners of a topic, with the broker's confirmation. Raises
        BrokerError."""
        message = aio_pika.Message(body, type=_TOLD, delivery_mode=1)
        link = await self._linked()
        try:
            with _reaching():
                await link.told.publish(message, topic, mandatory=False, timeout=PATIENCE)
        except DeliveryError as error:
            raise BrokerError(UNREACHABLE) from error

    def send_transient(self, to: str, body: bytes) -> None:
        """Send a message that may be lost to one process, or to the listeners of a topic."""
        if self._is_up.is_set():
            self._tasks.start(self._publish_transient(to, body))

    async def _publish_transient(self, to: str, body: bytes) -> None:
        message = aio_pika.Message(body, type=_TOLD, delivery_mode=1)
        with suppress(BrokerError, DeliveryError), _reaching():
            if (link := self._link) is not None:
                await link.told_quickly.publish(message, to, mandatory=False)

    async def _handle_own(self, message: AbstractIncomingMessage) -> None:
        if message.type == _TOLD:
            self.listener.handle_message(message.routing_key or "", message.body)
        elif (answers := self._answers.get(message.correlation_id or "")) is not None:
            answers.put_nowait((message.body, message.type == _LAST))


async def _closed(part: AbstractConnection | AbstractChannel) -> None:
    await part.closed()
