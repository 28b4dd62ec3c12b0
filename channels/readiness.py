"""Notification of a socket's input, on any event loop: that of Windows has no `add_reader`."""

from __future__ import annotations

import asyncio
import select
import socket
import threading
from collections.abc import Callable


class ReadinessWatch:
    """A watch that calls `on_ready` in the event loop, repeatedly while the socket has input, until
    it is closed."""

    def __init__(self, watched: socket.socket, on_ready: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._number = watched.fileno()
        self._thread: _SelectThread | None = None
        try:
            self._loop.add_reader(self._number, on_ready)
        except NotImplementedError:
            self._thread = _SelectThread(self._loop, self._number, on_ready)

    def close(self) -> None:
        """Stop watching. Call it before the socket is closed."""
        if self._thread is None:
            self._loop.remove_reader(self._number)
        else:
            self._thread.close()


class _SelectThread:
    """A thread that waits for input, and continues once the loop has processed the input."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, number: int, on_ready: Callable[[], None]
    ) -> None:
        self._loop, self._number, self._on_ready = loop, number, on_ready
        self._ending, self._end = socket.socketpair()
        self._is_taken = threading.Event()
        self._is_closed = False
        threading.Thread(target=self._watch, name="readiness", daemon=True).start()

    def _watch(self) -> None:
        with self._ending:
            while not self._is_closed:
                try:
                    ready = select.select([self._number, self._ending.fileno()], [], [])[0]
                except (OSError, ValueError):  # the socket was closed under it
                    return
                if self._ending.fileno() in ready:
                    return
                self._is_taken.clear()
                try:
                    self._loop.call_soon_threadsafe(self._call_ready)
                except RuntimeError:  # the loop is closed
                    return
                self._is_taken.wait()

    def _call_ready(self) -> None:
        try:
            if not self._is_closed:
                self._on_ready()
        finally:
            self._is_taken.set()

    def close(self) -> None:
        self._is_closed = True
        self._end.close()  # which wakes it
        self._is_taken.set()
