"""HTTP over a socket of `open_listener`, with time limits for every client.

There are time-outs for a client's request and for an answer that it does not read; uvicorn itself
has only one, for an idle connection between two requests. A client that is too slow gets a sentence
if possible, and is disconnected.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from ipaddress import ip_network

import h11
import orjson
import uvicorn
from msgspec import Struct
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from channels.listening import Acceptor, ConnectionRegistry, ListeningSocket

LINGER = 2.0
"""Seconds that a client which keeps sending has to read why it is disconnected: closing earlier
would lose the reason."""
GRACE = 2
"""Seconds in which running answers must be sent when the bot stops."""
TOO_SLOW = "The request came in too slowly, so the bot stopped waiting for it; try again."
_SWEEP = 5  # ticks of uvicorn, of 0.1 s, between two checks for slow clients


class TimeLimits(Struct, frozen=True):
    """The time limits of a client, in seconds: for the `headers` of a request; for its `body`, plus
    a second for each `slowest` bytes received; and `reader` seconds for reading 64 KB of an
    answer."""

    headers: float = 10.0
    body: float = 30.0
    slowest: int = 10_000
    reader: float = 30.0


class _Waiting(Struct):
    """The wait of a connection since a time of the loop's clock: for the request's headers (`body`
    False) or its body; `come` counts the bytes received."""

    since: float
    body: bool = False
    come: int = 0

    def is_over(self, now: float, patience: TimeLimits) -> bool:
        waited = now - self.since
        if not self.body:
            return waited > patience.headers
        return waited > patience.body + self.come / patience.slowest


class TimedProtocol(H11Protocol):
    """A connection that tracks its wait for the client, and tells the listener when it is busy."""

    patience: TimeLimits
    register: ConnectionRegistry

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        # ^ as in uvicorn's own signature
        super().connection_made(transport)
        self._connection = self.register.of(transport.get_extra_info("socket").fileno())
        self._unread: float | None = None  # the time since which the client reads too little
        self._waiting: _Waiting | None = _Waiting(self.loop.time())
        self._leaves_at: float | None = None

    def data_received(self, data: bytes) -> None:
        if self._leaves_at is not None:
            return
        super().data_received(data)
        self._update_waiting(len(data))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._update_waiting(0)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread = None

    def expire(self, now: float) -> None:
        """Disconnect a client that is too slow."""
        if self.transport.is_closing() and self._unread is None:
            self._unread = now
        is_unread = self._unread is not None and now - self._unread > self.patience.reader
        if is_unread or (self._leaves_at is not None and now > self._leaves_at):
            self._abort()
        elif self._leaves_at is None and self._is_too_slow(now):
            self._answer_too_slow()
            self._leaves_at = now + LINGER

    def _abort(self) -> None:
        """Close at once, and discard unread data."""
        wrapped = self.transport.get_extra_info("socket")
        with suppress(OSError, AttributeError):  # it is closed, and uvloop then has no socket
            wrapped.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _is_too_slow(self, now: float) -> bool:
        """Return whether the client took too long; not if reading is paused on this side."""
        waiting = self._waiting
        return (
            waiting is not None
            and not self.flow.read_paused
            and not self.transport.is_closing()
            and waiting.is_over(now, self.patience)
        )

    def _update_waiting(self, come: int) -> None:
        """Update the wait after received bytes or a finished answer."""
        state = self.conn.their_state
        is_waiting = state in (h11.IDLE, h11.SEND_BODY) and not self.transport.is_closing()
        if not is_waiting:
            self._waiting = None
        elif self._waiting is None or self._waiting.body != (state is h11.SEND_BODY):
            self._waiting = _Waiting(self.loop.time(), state is h11.SEND_BODY)
        else:
            self._waiting.come += come
        if self._connection is not None:
            self._connection.is_busy = not is_waiting

    def _answer_too_slow(self) -> None:
        """Answer with a sentence, if a request was begun and no answer has started; then end."""
        has_asked = self._waiting is not None and bool(self._waiting.body or self._waiting.come)
        if has_asked and self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            status = HTTPStatus.REQUEST_TIMEOUT
            content = failure(TOO_SLOW)
            head = [
                ("content-type", "application/json"),
                ("content-length", str(len(content))),
                ("connection", "close"),
            ]
            for event in (
                h11.Response(status_code=status, headers=head, reason=status.phrase.encode()),
                h11.Data(data=content),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.write_eof()


def failure(sentence: str) -> bytes:
    """Return a sentence in the format of the web channel's errors."""
    error = {"message": sentence, "type": "server_error", "code": None}
    return orjson.dumps({"error": error})


def refusal(sentence: str) -> bytes:
    """Return the answer to a client that gets no connection, for `Caps.refusal`."""
    content = failure(sentence)
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\n"
    )
    return f"{head}Connection: close\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content


class HttpServer(uvicorn.Server):
    """A server of an application on a listener, which leaves signals to the bot. The networks that
    the listener's caps trust may name the client (X-Forwarded-For, -Proto)."""

    def __init__(self, app: ASGIApp, listener: ListeningSocket, patience: TimeLimits) -> None:
        self._listener, trusted = listener, listener.register.caps.trusted
        known = {"patience": patience, "register": listener.register}
        protocol = type("Protocol", (TimedProtocol,), known)
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            log_config=None,
            log_level="error",  # a stranger's invalid HTTP is not worth a log line
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=GRACE,
            proxy_headers=bool(trusted),
            forwarded_allow_ips=[*trusted, *_map_to_ipv6(trusted)],
        )
        super().__init__(config)

    async def run_here(self) -> None:
        """Serve until `should_exit` is set."""
        await self.serve([self._listener])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start as uvicorn does, but accept connections by the listener, on any loop; uvloop would
        bypass it."""
        self.servers = [Acceptor(self._listener, self._make_protocol)]  # type: ignore[list-item]
        self.started = True

    def _make_protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state={}
        )
        return protocol

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % _SWEEP == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                if isinstance(connection, TimedProtocol):
                    connection.expire(now)
        return await super().on_tick(counter)


def _map_to_ipv6(networks: Sequence[str]) -> Iterator[str]:
    """Yield IPv4 networks as an IPv6 socket shows them."""
    for network in map(ip_network, networks):
        if network.version == 4:
            yield f"::ffff:{network.network_address}/{96 + network.prefixlen}"
