"""Lines of a stream, in and out, without blocking the event loop on the other end."""

from __future__ import annotations

import asyncio
import os
import queue
import select
import stat
import threading
from abc import ABC, abstractmethod
from typing import BinaryIO

AHEAD, AHEAD_BYTES = 1_000, 32_000_000
"""The maximum number of lines, and of their bytes, that are read ahead."""
LONGEST = 16_000_000
"""The maximum number of bytes kept of a line; one more shows that it was longer."""
_PIECE = 65_536  # bytes that are read from a pipe at once: its capacity


class LineReader(ABC):
    """A reader of lines, b"" at the end; reads only a bounded amount ahead."""

    def __init__(self) -> None:
        self.was_stopped = False
        self._read: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = self._bytes = 0

    @abstractmethod
    def start(self) -> None:
        """Start reading."""

    def close(self) -> None:  # noqa: B027 - a thread can't be stopped
        """Leave further input to the next reader of the stream, if possible."""

    async def next(self) -> bytes:
        """Return the next line; b"" at the end. A line that is too long is truncated."""
        line = await self._read.get()
        self._free_space(line)
        return b"" if self.was_stopped else line

    def stop(self) -> None:
        """Stop reading: `next` returns the end from now on."""
        self.was_stopped = True
        self.close()
        self._read.put_nowait(b"")  # for a waiting caller

    def _free_space(self, line: bytes) -> None:
        self._ahead -= 1
        self._bytes -= len(line)

    def _reserve_space(self, line: bytes) -> None:
        self._ahead += 1
        self._bytes += len(line)

    def _has_room(self) -> bool:
        """Return whether one more line may be read ahead; the line in hand is not counted."""
        return self._ahead < AHEAD and self._bytes < AHEAD_BYTES


def read_lines(source: BinaryIO) -> LineReader:
    """Return the reader of a source: a pipe is read by the event loop, anything else in a thread,
    since a read may block."""
    return _PipeReader(source.fileno()) if _is_pipe(source) else _ThreadedReader(source)


class _PipeReader(LineReader):
    """A reader without a thread: the event loop notifies it of input."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._begun: list[bytes] = []  # pieces of the incomplete line
        self._size = 0  # bytes of that line, kept or not
        self._is_watched = self._has_ended = False

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self._number, self._read_input)
        self._is_watched = True

    def close(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._number)
            self._is_watched = False

    def _free_space(self, line: bytes) -> None:
        super()._free_space(line)
        is_over = self.was_stopped or self._has_ended
        if not self._is_watched and not is_over and self._has_room():
            self.start()

    def _read_input(self) -> None:
        try:
            piece = os.read(self._number, _PIECE)
        except BlockingIOError:
            return  # another reader of the pipe made it non-blocking, and was faster
        except OSError:
            piece = b""
        *whole, rest = piece.split(b"\n")
        for line in whole:
            self._add(line + b"\n")
            self._end_line()
        self._add(rest)
        if not piece:
            self._has_ended = True
            if self._begun:
                self._end_line()
            self._end_line()
        if self._has_ended or not self._has_room():
            self.close()

    def _add(self, piece: bytes) -> None:
        if piece and self._size <= LONGEST:
            self._begun.append(piece[: LONGEST + 1 - self._size])
        self._size += len(piece)

    def _end_line(self) -> None:
        line = b"".join(self._begun)
        self._begun, self._size = [], 0
        self._reserve_space(line)
        self._read.put_nowait(line)


class _ThreadedReader(LineReader):
    """A reader with a daemon thread, which does not keep the process from ending."""

    def __init__(self, source: BinaryIO) -> None:
        super().__init__()
        self._source = source
        self._room = threading.Condition()

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        threading.Thread(target=self._read_all, args=(loop,), name="pipe-in", daemon=True).start()

    def _read_all(self, loop: asyncio.AbstractEventLoop) -> None:
        line = b"-"
        while line:
            try:
                line = self._read_one()
            except (OSError, ValueError):  # ValueError: it was closed under us
                line = b""  # a closed terminal, or an unreadable file: the end
            with self._room:
                self._room.wait_for(self._has_room)
                self._reserve_space(line)
            try:
                loop.call_soon_threadsafe(self._read.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed

    def _read_one(self) -> bytes:
        line = piece = self._source.readline(LONGEST + 1)
        while len(piece) > LONGEST and not piece.endswith(b"\n"):
            piece = self._source.readline(LONGEST + 1)
        return line

    def _free_space(self, line: bytes) -> None:
        with self._room:
            super()._free_space(line)
            self._room.notify()


class LineWriter:
    """A writer that does not block the event loop on a stream's reader: it writes directly if the
    pipe has room, otherwise in a thread."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._room = _watch_room(target)
        self._in_thread = 0
        self._waiting: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, name="pipe-out", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Write a line; return once the stream has it. Raises OSError."""
        if self._has_room(line):
            if error := self._write(line):
                raise error
            return
        written = asyncio.get_running_loop().create_future()
        self._waiting.put((line, written))
        self._in_thread += 1
        await written

    def _has_room(self, line: bytes) -> bool:
        """Return whether the pipe accepts this line at once: it is at most one atomic write
        (pipe(7)), and no earlier line is still in the thread."""
        if self._room is None or self._in_thread or len(line) > select.PIPE_BUF:
            return False
        return any(event & select.POLLOUT for _, event in self._room.poll(0))

    def _write_all(self) -> None:
        while True:
            line, written = self._waiting.get()
            error = self._write(line)
            try:
                written.get_loop().call_soon_threadsafe(self._finish, written, error)
            except RuntimeError:
                return  # the loop is closed

    def _finish(self, written: asyncio.Future[None], error: OSError | None) -> None:
        self._in_thread -= 1
        if written.done():
            return  # the caller was cancelled
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)

    def _write(self, line: bytes) -> OSError | None:
        try:
            self._target.write(line)
            self._target.flush()
        except OSError as error:
            return error
        return None


def _watch_room(target: BinaryIO) -> select.poll | None:
    """Return a poll object for the space in a pipe; None for other streams."""
    if not _is_pipe(target):
        return None
    room = select.poll()
    room.register(target.fileno(), select.POLLOUT)
    return room


def _is_pipe(stream: BinaryIO) -> bool:
    """Return whether this is a pipe that can be polled."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # in memory, or closed
        return False
    return is_pipe and hasattr(select, "poll")  # Windows has none
