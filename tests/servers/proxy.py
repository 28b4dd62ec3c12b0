"""A connection between a client and a server that a test can cut at the worst moment."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto


class Cut(Enum):
    """The fate of data that a client sends."""

    NOT = auto()  # it is forwarded
    AFTER = auto()  # the server gets it; the connection breaks before the answer arrives
    BEFORE = auto()  # the same, but the server never gets it, and considers the client connected
    LATE = auto()  # it arrives only after the client has reconnected


class Proxy:
    """A proxy that listens on 127.0.0.1 and forwards to a Unix socket; `decide` is called for all
    data of a client. Use as a context manager."""

    def __init__(self, target: str, decide: Callable[[bytes], Cut] = lambda data: Cut.NOT) -> None:
        self._target, self.decide = target, decide
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._late: list[tuple[socket.socket, bytes]] = []
        self.port: int = self._listening.getsockname()[1]
        self.cuts = 0

    def __enter__(self) -> Proxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listening, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._target)
                self._open += [client, server]
                for far, data in self._late:
                    with suppress(OSError):
                        far.sendall(data)
                self._late.clear()
                answered = threading.Event()
                for pump in (self._to_server, self._to_client):
                    arguments = (client, server, answered)
                    threading.Thread(target=pump, args=arguments, daemon=True).start()

    def _to_server(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 16):
                cut = self.decide(data)
                if cut is not Cut.NOT:
                    self._cut(cut, data, client, server, answered)
                    return
                server.sendall(data)
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _cut(
        self,
        cut: Cut,
        data: bytes,
        client: socket.socket,
        server: socket.socket,
        answered: threading.Event,
    ) -> None:
        self.cuts += 1
        with suppress(OSError):
            client.shutdown(socket.SHUT_WR)
        if cut is Cut.AFTER:
            answered.clear()
            server.sendall(data)
            answered.wait(10)
        elif cut is Cut.LATE:
            self._late.append((server, data))
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _to_client(
        self, client: socket.socket, server: socket.socket, answered: threading.Event
    ) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 16):
                answered.set()
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
