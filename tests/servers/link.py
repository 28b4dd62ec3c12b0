"""A network link between a process and a server, which a test cuts and repairs."""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress
from types import TracebackType

CHUNK = 1 << 16


class Link:
    """A link that listens on 127.0.0.1 and forwards to a server: the path of its Unix socket, or
    its port on this machine. Use as an async context manager; it runs in the event loop."""

    def __init__(self, target: str | int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._ends: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_down = False
        self.port = 0

    async def __aenter__(self) -> Link:
        self._server = await asyncio.start_server(self._join, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.mend()
        self.reset()

    def reset(self) -> None:
        """Break all connections: both sides notice it at once."""
        for end in tuple(self._ends):
            raw: socket.socket | None = end.get_extra_info("socket")
            if raw is None:
                continue  # it is closed already
            with suppress(OSError):  # the same
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            end.transport.abort()

    def swallow(self) -> None:
        """Stop the traffic silently. Data sent meanwhile and closed connections arrive when the
        link is repaired, as with retransmitted packets."""
        self._flows.clear()

    def take_down(self) -> None:
        """Break all connections, and new ones until the link is repaired."""
        self._is_down = True
        self.reset()

    def mend(self) -> None:
        self._is_down = False
        self._flows.set()

    async def _join(self, near: asyncio.StreamReader, to_near: asyncio.StreamWriter) -> None:
        if self._is_down:
            to_near.transport.abort()
            return
        self._ends.add(to_near)
        to_far: asyncio.StreamWriter | None = None
        with suppress(OSError):
            await self._flows.wait()
            if isinstance(self._target, str):
                far, to_far = await asyncio.open_unix_connection(self._target)
            else:
                far, to_far = await asyncio.open_connection("127.0.0.1", self._target)
            self._ends.add(to_far)
            await asyncio.gather(self._pass_on(near, to_far), self._pass_on(far, to_near))
        for end in filter(None, (to_near, to_far)):
            self._ends.discard(end)
            end.close()

    async def _pass_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(CHUNK):
                await self._flows.wait()
                sink.write(data)
                await sink.drain()
        await self._flows.wait()
        sink.close()
