"""Lines of a stream, in and out, so that nothing else waits for whoever is at its other end."""

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
"""Lines, and bytes of them, that are read before they can be taken in."""
LONGEST = 16_000_000
"""Bytes of a line that are kept; one more shows that it was longer."""
_PIECE = 65_536  # bytes that are read from a pipe at once: as much as it holds


class LineReader(ABC):
    """Lines as they come, b"" at the end; not many more than are asked for."""

    def __init__(self) -> None:
        self.was_stopped = False
        self._read: asyncio.Queue[bytes] = asyncio.Queue()
        self._ahead = self._bytes = 0

    @abstractmethod
    def start(self) -> None:
        """Begin to read."""

    def close(self) -> None:  # noqa: B027 - a thread can't be told
        """Leave what comes now to whoever reads it next, where that can be done."""

    async def next(self) -> bytes:
        """Return the next line; b"" at the end. Of one that is too long, its beginning."""
        line = await self._read.get()
        self._make_room(line)
        return b"" if self.was_stopped else line

    def stop(self) -> None:
        """Nothing more is read: `next` says that the end is there."""
        self.was_stopped = True
        self.close()
        self._read.put_nowait(b"")  # for one who waits

    def _make_room(self, line: bytes) -> None:
        self._ahead -= 1
        self._bytes -= len(line)

    def _take_room(self, line: bytes) -> None:
        self._ahead += 1
        self._bytes += len(line)

    def _has_room(self) -> bool:
        """Return whether one more line may be read ahead; the one that is in hand already is."""
        return self._ahead < AHEAD and self._bytes < AHEAD_BYTES


def read_lines(source: BinaryIO) -> LineReader:
    """Return the reader of a source: lines of a pipe are read as they come; those of others in a
    thread, since a read may wait."""
    return _PipeReader(source.fileno()) if _is_pipe(source) else _ThreadedReader(source)


class _PipeReader(LineReader):
    """It needs no thread: the event loop says when there is something to read."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number
        self._begun: list[bytes] = []  # pieces of the line that is not whole yet
        self._size = 0  # bytes of that line, kept or not
        self._is_watched = self._has_ended = False

    def start(self) -> None:
        asyncio.get_running_loop().add_reader(self._number, self._take)
        self._is_watched = True

    def close(self) -> None:
        if self._is_watched:
            asyncio.get_running_loop().remove_reader(self._number)
            self._is_watched = False

    def _make_room(self, line: bytes) -> None:
        super()._make_room(line)
        is_over = self.was_stopped or self._has_ended
        if not self._is_watched and not is_over and self._has_room():
            self.start()

    def _take(self) -> None:
        try:
            piece = os.read(self._number, _PIECE)
        except BlockingIOError:
            return  # whoever shares the pipe has set it so, and has read what was there
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
        self._take_room(line)
        self._read.put_nowait(line)


class _ThreadedReader(LineReader):
    """The thread does not keep the process from ending."""

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
                line = b""  # a terminal that has gone, a file that can't be read: the end
            with self._room:
                self._room.wait_for(self._has_room)
                self._take_room(line)
            try:
                loop.call_soon_threadsafe(self._read.put_nowait, line)
            except RuntimeError:
                return  # the loop is closed: nobody listens any more

    def _read_one(self) -> bytes:
        line = piece = self._source.readline(LONGEST + 1)
        while len(piece) > LONGEST and not piece.endswith(b"\n"):
            piece = self._source.readline(LONGEST + 1)
        return line

    def _make_room(self, line: bytes) -> None:
        with self._room:
            super()._make_room(line)
            self._room.notify()


class LineWriter:
    """Writes to a stream so that nothing else waits for whoever reads it: at once what the pipe has
    room for, all else in a thread."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self._room = _watch_room(target)
        self._in_thread = 0
        self._waiting: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._write_all, name="pipe-out", daemon=True).start()

    async def write(self, line: bytes) -> None:
        """Returns when the stream has it; raises OSError."""
        if self._has_room(line):
            if error := self._write(line):
                raise error
            return
        written = asyncio.get_running_loop().create_future()
        self._waiting.put((line, written))
        self._in_thread += 1
        await written

    def _has_room(self, line: bytes) -> bool:
        """Return whether the pipe takes this at once: it has room for as much as it writes in one
        piece (pipe(7)), and nothing that is to come before is still in the thread."""
        if self._room is None or self._in_thread or len(line) > select.PIPE_BUF:
            return False
        return any(event & select.POLLOUT for _, event in self._room.poll(0))

    def _write_all(self) -> None:
        while True:
            line, written = self._waiting.get()
            error = self._write(line)
            try:
                written.get_loop().call_soon_threadsafe(self._settle, written, error)
            except RuntimeError:
                return  # the loop is closed: nobody waits any more

    def _settle(self, written: asyncio.Future[None], error: OSError | None) -> None:
        self._in_thread -= 1
        if written.done():
            return  # who waited was cancelled
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
    """Return the poll that tells whether a pipe has space; None for what is no pipe."""
    if not _is_pipe(target):
        return None
    room = select.poll()
    room.register(target.fileno(), select.POLLOUT)
    return room


def _is_pipe(stream: BinaryIO) -> bool:
    """Return whether this is a pipe of whose state the system tells."""
    try:
        is_pipe = stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)
    except (OSError, ValueError):  # in memory, or closed
        return False
    return is_pipe and hasattr(select, "poll")  # Windows has none
