"""A listening socket that idle connections can't block.

`open_listener(place, caps)` serves every server of the project, and `Acceptor` accepts its
connections. Connections are limited per address and in total: to half of the file descriptors of
this process, so that models, tools and the database get some. Beyond a limit, the connection that
has waited longest for its request is closed, one of the address with the most of them; so a client
that sends its request at once is served. Connections being closed still hold their descriptors, so
new ones wait if these are many. A server that knows which connections are being answered sets
`Connection.is_busy`, and those are not closed; `channels/serving.py` does so for HTTP, and has the
time-outs. A lack of connections or file descriptors is logged at intervals.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address, ip_network

from msgspec import Struct

from channels.readiness import ReadinessWatch

try:
    import resource
except ImportError:  # not on every system
    _SOFT = 256
else:
    _SOFT = resource.getrlimit(resource.RLIMIT_NOFILE)[0]

log = logging.getLogger(__name__)

QUEUE = 1_024
"""The system's queue of connections to be accepted."""
BURST = 64
"""The maximum number of connections accepted at once, before the connections evicted for them are
closed."""
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CLOSING = 1.0  # seconds in which the server must close an evicted connection
_SILENCE = 60.0  # seconds between two lines of the log about the same
_PAUSE = 0.01


def share_of_descriptors(share: float = 0.5) -> int:
    """Return the maximum number of connections of a listener: its share of the file descriptors of
    this process."""
    soft = _SOFT if 0 < _SOFT < 1 << 20 else 1 << 20
    return max(8, min(4_096, int(soft * share)))


def origin_of(host: str) -> str:
    """Return the address of one person: in IPv6 the /64 network, otherwise the address itself."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]  # a proxy may report anything
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))


class Caps(Struct, frozen=True):
    """The maximum number of connections `in_all` and `of_one` address. This machine's own addresses
    and the networks in `trusted` (proxies for many people) have no limit of their own. A refused
    client is sent `refusal` unchanged."""

    in_all: int
    of_one: int
    trusted: tuple[str, ...] = ()
    refusal: bytes = b""

    def trusts(self, host: str) -> bool:
        """Return whether this address has no limit of its own."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return address.is_loopback or any(address in ip_network(one) for one in self.trusted)


class Connection(socket.socket):
    """An accepted connection."""

    register: ConnectionRegistry
    origin: str
    is_trusted: bool
    _is_busy = False

    @property
    def is_busy(self) -> bool:
        """Return whether it is being answered, so that it is not closed in favour of another."""
        return self._is_busy

    @is_busy.setter
    def is_busy(self, value: bool) -> None:
        if value != self._is_busy:
            self._is_busy = value
            self.register.mark(self)

    def close(self) -> None:
        self.register.remove(self)
        super().close()

    def detach(self) -> int:
        """Unregister and detach the descriptor, for callers that close it themselves, as uvloop
        does."""
        self.register.remove(self)
        return super().detach()


class ConnectionRegistry:
    """The connections of one listener. The waiting ones of each origin are in the order in which
    they began to wait."""

    def __init__(self, caps: Caps) -> None:
        self.caps = caps
        self._by_number: dict[int, Connection] = {}
        self._counts = Counter[str]()
        self._waiting: dict[str, OrderedDict[Connection, None]] = {}
        self._leaving: dict[Connection, float] = {}  # evicted at that time, and not closed yet

    def __len__(self) -> int:
        return len(self._by_number)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._by_number.values()))

    def of(self, number: int) -> Connection | None:
        """Return the connection with this file descriptor."""
        return self._by_number.get(number)

    def is_behind(self) -> bool:
        """Return whether so many evicted connections still hold their descriptors that new ones
        should wait."""
        now = time.monotonic()
        while self._leaving:
            oldest, since = next(iter(self._leaving.items()))
            if now - since < _CLOSING:
                break
            del self._leaving[oldest]  # it is not closed; the others can't wait for ever
        return len(self._leaving) > self.caps.in_all // 4

    def admit(self, connection: Connection) -> bool:
        """Register a connection, after evicting another one if needed; return False if there is no
        room."""
        origin = connection.origin
        is_full = not connection.is_trusted and self._counts[origin] >= self.caps.of_one
        if is_full and not self._evict(origin):
            return False
        if len(self) >= self.caps.in_all and not self._evict(
            max(self._waiting, key=lambda one: len(self._waiting[one]), default="")
        ):
            return False
        self._by_number[connection.fileno()] = connection
        self._counts[origin] += 1
        self._waiting.setdefault(origin, OrderedDict())[connection] = None
        return True

    def mark(self, connection: Connection) -> None:
        """Note that a connection is being answered, or that it waits again."""
        if self.of(connection.fileno()) is not connection:
            return
        if connection.is_busy:
            self._unlist(connection)
        else:
            self._waiting.setdefault(connection.origin, OrderedDict())[connection] = None

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed, or about to be."""
        self._leaving.pop(connection, None)
        if self.of(connection.fileno()) is not connection:
            return
        del self._by_number[connection.fileno()]
        self._unlist(connection)
        self._counts[connection.origin] -= 1
        if not self._counts[connection.origin]:
            del self._counts[connection.origin]

    def _unlist(self, connection: Connection) -> None:
        waiting = self._waiting.get(connection.origin, OrderedDict())
        waiting.pop(connection, None)
        if not waiting:
            self._waiting.pop(connection.origin, None)

    def _evict(self, origin: str) -> bool:
        """Shut down the longest-waiting connection of an origin; its server sees the end of the
        stream."""
        waiting = self._waiting.get(origin)
        if not waiting:
            return False
        oldest = next(iter(waiting))
        self.remove(oldest)
        self._leaving[oldest] = time.monotonic()
        with suppress(OSError):
            oldest.shutdown(socket.SHUT_RDWR)
        return True


class ListeningSocket(socket.socket):
    """A listening socket that enforces its caps."""

    def limit(self, caps: Caps) -> None:
        """Set the caps. Call it once, before accepting."""
        self.register = ConnectionRegistry(caps)
        self._spare: int | None = None
        self._lines: dict[str, float] = {}
        self._keep_spare()

    def listen(self, backlog: int = QUEUE) -> None:
        super().listen(max(backlog, QUEUE))

    def accept(self) -> tuple[socket.socket, object]:
        """Return the next connection that is admitted. Raises BlockingIOError if there is none, if
        evicted connections are not closed yet, or if no file descriptor is left: new connections
        are then closed, since they would be reported again and again."""
        while True:
            if self.register.is_behind():
                raise BlockingIOError
            try:
                plain, address = super().accept()
            except OSError as error:
                if error.errno not in _LACKING:
                    raise
                self._turn_away()
                raise BlockingIOError from error
            connection = Connection(plain.family, plain.type, plain.proto, plain.detach())
            connection.register = self.register
            host = str(address[0]) if address else ""
            connection.origin = origin_of(host)
            connection.is_trusted = self.register.caps.trusts(host)
            if self.register.admit(connection):
                return connection, address
            self._refuse(connection)

    def close(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        super().close()

    def _refuse(self, connection: Connection) -> None:
        self._log_once(
            "no connection is left for %s; ulimit -n says how many files and connections there "
            "may be",
            connection.origin,
        )
        connection.setblocking(False)
        with suppress(OSError):
            connection.send(self.register.caps.refusal)
        connection.close()

    def _turn_away(self) -> None:
        """Accept with the spare descriptor, and close the connection."""
        self._log_once(
            "no file descriptor is left to accept with; ulimit -n says how many there may be"
        )
        if self._spare is None:
            time.sleep(_PAUSE)
        else:
            os.close(self._spare)
            self._spare = None
            with suppress(OSError):
                for _ in range(BURST):
                    super().accept()[0].close()
        self._keep_spare()

    def _keep_spare(self) -> None:
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY)

    def _log_once(self, line: str, *values: object) -> None:
        now = time.monotonic()
        if now - self._lines.get(line, -_SILENCE) >= _SILENCE:
            self._lines[line] = now
            log.warning(line, *values)


class Acceptor:
    """The acceptance of a listener's connections until it is closed. The servers of an event loop
    may bypass the listener's `accept`, as uvloop's do, and with it the caps."""

    def __init__(
        self, listener: ListeningSocket, make_protocol: Callable[[], asyncio.Protocol]
    ) -> None:
        self._listener, self._make = listener, make_protocol
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        listener.setblocking(False)
        self._watch = ReadinessWatch(listener, self._accept)

    def _accept(self) -> None:
        for _ in range(BURST):
            try:
                connection, _place = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            with suppress(OSError):  # some systems refuse this if the other end has closed
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._serve(connection))
            self._tasks.add(task)  # the loop keeps only a weak reference
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # the client has disconnected
            connection.close()

    def close(self) -> None:
        self._watch.close()

    async def wait_closed(self) -> None:
        """Return at once, unlike asyncio's servers: uvicorn itself waits for accepted
        connections."""


def open_listener(host: str, port: int, caps: Caps) -> ListeningSocket:
    """Return a socket that listens at this place; early connections wait to be served. Raises
    OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    bound = ListeningSocket(family, kind, protocol)  # asyncio sends without delay only on TCP
    bound.limit(caps)
    try:
        if os.name == "posix":  # on other systems it would share the port with its current owner
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound
