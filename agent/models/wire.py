"""The bytes, lines and time of an endpoint, bounded before anything is made of them.

The SDK reads whatever comes: a body of any size, a line without an end, a stream in which nothing
is said for ever, packed bytes that unpack to gigabytes, an error's text in an encoding of the
sender's choice. `limit_response` is put between the SDK and the endpoint and sees each response
before its body is read; `events` reads a stream.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing
from typing import cast

import httpx2  # the SDK's HTTP library

from agent.models.event_reader import EventReader
from agent.models.waits import read_wait

MOST_BYTES = 64_000_000
"""Of one answer, with all its frames: a long one, of 128,000 tokens, takes 40 MB where each token
comes in a frame of its own. Nothing of it is kept but what `Answer` keeps."""
LONGEST_LINE = 4_000_000
"""Bytes of a line of a stream, or of an answer that is one document: these are parsed whole."""
LONGEST_ERROR = 65_536
"""Bytes that are read of a response that is no success."""
_BREATH = 65_536
"""Bytes after which other tasks have their turn, also where more is there already."""

LONGEST_WAIT = 10.0
"""Seconds for which a request waits by itself before it is sent again, twice at most; where an
endpoint asks for more, the person is told."""
HEADERS = {"Accept-Encoding": "identity", "Connection": "keep-alive"}
"""The headers of every request: they ask for an answer that is not compressed, since one that is
can't be read, and for a connection that is kept."""

_BREAK = re.compile(rb"\r\n?|\n")


class TooMuch(Exception):
    """More came than is read; the text says of what."""


class NoEvents(Exception):
    """Words came in the place of events."""

    def __init__(self, words: bytes) -> None:
        super().__init__("no events")
        self.words = words.decode("utf-8", "replace").strip()


class NoProgress(Exception):
    """Bytes came all the time, and for so many seconds nothing that belongs to an answer."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"no progress for {seconds:g} s")
        self.seconds = seconds


class Progress:
    """The progress of an answer, which must grow. `size` says how much there is of it by now;
    `patience` is in seconds."""

    def __init__(self, patience: float, size: Callable[[], int] = lambda: 0) -> None:
        self._patience, self._size = patience, size
        self._seen, self._since = size(), time.monotonic()

    def check(self) -> None:
        """Check that the answer has grown; to be called whenever something came. Raises
        NoProgress."""
        size, now = self._size(), time.monotonic()
        if size != self._seen:
            self._seen, self._since = size, now
        elif now - self._since > self._patience:
            raise NoProgress(self._patience)


async def limit_response(response: httpx2.Response) -> None:
    """Bound a response of which nothing has been read but its headers."""
    response.encoding = "utf-8"  # which is JSON's; Python has codecs that take minutes
    response.extensions["packing"] = response.headers.pop("content-encoding", "identity").lower()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    if response.is_success:
        response.stream = _BoundedStream(response.stream, MOST_BYTES, is_cut=False)
    else:
        if read_wait(response.headers, response.status_code) > LONGEST_WAIT:
            response.headers["x-should-retry"] = "false"  # which both SDKs obey
        response.stream = _BoundedStream(response.stream, LONGEST_ERROR, is_cut=True)


def find_compression(response: httpx2.Response) -> str:
    """Return how a response is packed, though it should not be; "" where it is not."""
    how = str(response.extensions.get("packing", ""))
    return "" if how == "identity" else how


def _body(response: httpx2.Response) -> AsyncGenerator[bytes, None]:
    """Return a body as it comes, without the layers of `aiter_bytes`: it is not packed."""
    return cast("AsyncGenerator[bytes, None]", aiter(response.stream))  # type: ignore[arg-type]


class _BoundedStream(httpx2.AsyncByteStream):
    """A body of which so many bytes are read."""

    def __init__(self, inner: httpx2.AsyncByteStream, most: int, *, is_cut: bool) -> None:
        self._inner, self._most, self._is_cut = inner, most, is_cut

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _bounded(self._inner, self._most, self._is_cut)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def _bounded(
    body: AsyncIterable[bytes], most: int, is_cut: bool
) -> AsyncGenerator[bytes, None]:
    """So many bytes of a body; what goes on then is cut there, or is `TooMuch`."""
    left, breath = most, _BREATH
    async for piece in body:
        if len(piece) > left:
            if not is_cut:
                raise TooMuch(f"more than {most // 1_000_000} MB")
            yield piece[:left]
            return
        yield piece
        left -= len(piece)
        breath -= len(piece)
        if breath <= 0:
            breath = _BREATH
            await asyncio.sleep(0)


async def document(response: httpx2.Response, progress: Progress) -> bytes:
    """Return the whole of a body that is parsed as one. Raises TooMuch and NoProgress."""
    pieces: list[bytes] = []
    size = 0
    async with aclosing(_body(response)) as body:
        async for piece in body:
            progress.check()
            pieces.append(piece)
            size += len(piece)
            _hold(size)
    return b"".join(pieces)


async def events(
    response: httpx2.Response, progress: Progress
) -> AsyncGenerator[list[bytes], None]:
    """Yield the data of server-sent events (WHATWG's event streams), those together that came
    together, until the body ends. Raises TooMuch, NoEvents where something else came, and
    NoProgress where none is made for too long, whatever else comes."""
    lines, reader = _LineSplitter(), EventReader()
    has_come = False
    async with aclosing(_body(response)) as body:
        async for piece in body:
            progress.check()
            came = reader.read_whole(piece) if lines.is_between else []
            if not came:
                cut = lines.feed(piece)
                came = [data for line in cut if (data := reader.read(line)) is not None]
                _hold(reader.held)
            if came:
                has_come = True
                yield came
    left = [data for line in lines.finish() if (data := reader.read(line)) is not None]
    if left := [*left, *reader.finish()]:
        yield left
    elif not has_come and reader.words:
        raise NoEvents(reader.words)


class _LineSplitter:
    """Bytes cut into lines that end with CR, LF or both; in time that is linear in their number."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._ends_in_cr = False

    @property
    def is_between(self) -> bool:
        """Return whether the last line has ended, for certain."""
        return not self._rest and not self._ends_in_cr

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the lines that this piece completes, without their ends. Raises TooMuch."""
        if self._ends_in_cr:
            piece = piece.removeprefix(b"\n")
        self._ends_in_cr = piece.endswith(b"\r")
        *lines, rest = _BREAK.split(piece)
        if lines:
            lines[0] = bytes(self._rest + lines[0])
            self._rest = bytearray(rest)
        else:
            self._rest += rest
        _hold(len(self._rest))
        return lines

    def finish(self) -> list[bytes]:
        """Return the last line, which no line end has completed."""
        return [bytes(self._rest)] if self._rest else []


def _hold(size: int) -> None:
    if size > LONGEST_LINE:
        raise TooMuch(f"more than {LONGEST_LINE // 1_000_000} MB at once")
