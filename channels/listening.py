"""A socket that listens and does not let those who only hold it open keep anybody out.

`open_listener(place, caps)` is for every server of the project, and `Acceptor` takes who connects.
There are at most so many connections from one address, and so many in all: half of the file
descriptors that this process may have, so that models, tools and the database find some. Where
there would be more, the connection that has waited longest to say what it wants is closed, one of
the address that has most of them; so whoever says it at once gets in. Those that are being closed
have their descriptors still, so where they are many the next ones wait for them. A server that
knows which connections are being answered says so (`Connection.is_busy`), and those are left alone;
`channels/serving.py` does that for HTTP, and has the time-outs. That none is left (or no file
descriptor at all) is logged now and then.
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
"""Connections that may wait to be accepted, in the system."""
BURST = 64
"""Connections that are accepted at once, before those that are evicted for them are closed."""
_LACKING = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_CLOSING = 1.0  # seconds that who serves an evicted connection is given to close it
_SILENCE = 60.0  # seconds between two lines of the log about the same
_PAUSE = 0.01  # seconds: there is nothing that could be done, and it must not be tried for ever


def share_of_descriptors(share: float = 0.5) -> int:
    """Return how many connections a listener may have in all: its share of the file descriptors
    that this process may open."""
    soft = _SOFT if 0 < _SOFT < 1 << 20 else 1 << 20
    return max(8, min(4_096, int(soft * share)))


def origin_of(host: str) -> str:
    """Return the address of one person: itself, or the network of /64 that a person has in IPv6."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host[:100]  # what a proxy says may be anything
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))


class Caps(Struct, frozen=True):
    """The most connections `in_all` and `of_one` address. This machine's own addresses and the
    networks in `trusted` (proxies, behind which are many people) may have as many as there are.
    Whoever finds no room is sent `refusal` as it stands."""

    in_all: int
    of_one: int
    trusted: tuple[str, ...] = ()
    refusal: bytes = b""

    def trusts(self, host: str) -> bool:
        """Return whether this address may have as many as there are."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        return address.is_loopback or any(address in ip_network(one) for one in self.trusted)


class Connection(socket.socket):
    """A connection that was accepted."""

    register: Register
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
        """As `close` for those who close the descriptor themselves, as uvloop does."""
        self.register.remove(self)
        return super().detach()


class Register:
    """The connections of one listener. Of each origin, those that wait stand in the order in which
    they began to."""

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
        """Return whether so many of those that were evicted have their descriptors still that the
        next had better wait."""
        now = time.monotonic()
        while self._leaving:
            oldest, since = next(iter(self._leaving.items()))
            if now - since < _CLOSING:
                break
            del self._leaving[oldest]  # it is not let go of; the others can't wait for ever
        return len(self._leaving) > self.caps.in_all // 4

    def admit(self, connection: Connection) -> bool:
        """Count one more, after another was closed for it where that is needed; False: there is
        no room."""
        origin = connection.origin
        is_full = not connection.is_trusted and self._counts[origin] >= self.caps.of_one
        if is_full and not self._evict(origin):
            return False
        if len(self) >= self.caps.in_all and not self._evict(self._fullest()):
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
        """Remove a connection that is closed, or as good as closed."""
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

    def _fullest(self) -> str:
        """Return the origin of most of those that wait."""
        return max(self._waiting, key=lambda origin: len(self._waiting[origin]), default="")

    def _evict(self, origin: str) -> bool:
        """Close the one of an origin that has waited longest; whoever serves it hears that it has
        ended."""
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
    """A listening socket that keeps to its caps."""

    def limit(self, caps: Caps) -> None:
        """To be called once, before it accepts."""
        self.register = Register(caps)
        self._spare: int | None = None
        self._lines: dict[str, float] = {}
        self._keep_spare()

    def listen(self, backlog: int = QUEUE) -> None:
        super().listen(max(backlog, QUEUE))

    def accept(self) -> tuple[socket.socket, object]:
        """Return the next one that has room. Raises BlockingIOError where none is there, where
        those that had to go for others are not gone yet, and also where no file descriptor is left:
        what came is turned away then, or else it would be reported again and again."""
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
        self._tell(
            "no connection is left for %s; ulimit -n says how many files and connections there "
            "may be",
            connection.origin,
        )
        connection.setblocking(False)
        with suppress(OSError):
            connection.send(self.register.caps.refusal)
        connection.close()

    def _turn_away(self) -> None:
        """Accept with the descriptor that is kept for this, and hang up."""
        self._tell(
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

    def _tell(self, line: str, *values: object) -> None:
        now = time.monotonic()
        if now - self._lines.get(line, -_SILENCE) >= _SILENCE:
            self._lines[line] = now
            log.warning(line, *values)


class Acceptor:
    """Takes who connects to a listener, until it is closed. An event loop's own servers may do so
    without the listener's `accept`, as uvloop's do, and so without its caps."""

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
            with suppress(OSError):  # some systems refuse it where the other end has gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self._loop.create_task(self._serve(connection))
            self._tasks.add(task)  # the loop would let go of it
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make, connection)
        except OSError:  # who connected is gone
            connection.close()

    def close(self) -> None:
        self._watch.close()

    async def wait_closed(self) -> None:
        """As asyncio's servers have it: who was accepted is uvicorn's own to wait for."""


def open_listener(host: str, port: int, caps: Caps) -> ListeningSocket:
    """Return a socket that listens at this place; who connects before it is served waits. Raises
    OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    family, kind, protocol, _, place = found[0]
    bound = ListeningSocket(family, kind, protocol)  # asyncio sends at once only where it is TCP
    bound.limit(caps)
    try:
        if os.name == "posix":  # elsewhere it would share the port with whoever has it already
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(place)
        bound.listen()
    except OSError:
        bound.close()
        raise
    return bound
